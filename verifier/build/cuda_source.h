#pragma once

// Reads CUDA C++ source as far as the build stage needs it: tokens with their lines, function definitions with their
// qualifiers and bodies, macros. It is a lexer with bracket matching, not a parser: what it misses the compiler reports.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::verifier {

enum class TokenKind { kIdentifier, kNumber, kString, kCharacter, kPunctuator };

struct Token {
  TokenKind kind;
  size_t begin;       // bytes [begin, end) of the source
  size_t end;
  int line;           // from 1
  int directive;      // index into CudaSource::directives, or -1
};

struct Directive {
  std::string name;   // "define", "include", "pragma", ...
  size_t begin;       // of the '#'
  size_t end;         // of the logical line, spliced lines included
  int line;
};

/// A function, macro or class body. Token indices.
struct Definition {
  enum class Kind { kFunction, kMacro, kClass };
  Kind kind = Kind::kFunction;
  std::string name;
  int line = 0;
  size_t first = 0;        // first token of the declaration
  size_t name_token = 0;
  size_t body_begin = 0;   // the '{' (macro: first token of the replacement)
  size_t body_end = 0;     // its '}' (macro: one past the last token)
  bool global = false;     // __global__
  bool device = false;     // __device__
  bool host = false;       // __host__ written out
  bool constant = false;   // constexpr
  bool returns_void = false;
};

class CudaSource {
 public:
  /// Never fails: an unterminated comment or string ends with the text.
  explicit CudaSource(absl::string_view text);

  const std::vector<Token>& tokens() const { return tokens_; }
  const std::vector<Directive>& directives() const { return directives_; }
  const std::vector<Definition>& definitions() const { return definitions_; }
  const std::string& text() const { return text_; }

  absl::string_view Text(size_t token) const;
  bool Is(size_t token, absl::string_view text) const;
  /// The token that closes the (, [ or { at `token`, within the same directive or outside all; tokens().size() if none.
  size_t Close(size_t token) const;
  /// The token that the ), ] or } at `token` closes; tokens().size() if none.
  size_t Open(size_t token) const;
  /// Whether the token lies in a function body.
  bool InFunction(size_t token) const { return in_function_[token]; }

 private:
  void Scan();
  void MatchBrackets();
  void FindDefinitions();
  void FindFunction(size_t brace);
  std::string text_;
  std::vector<Token> tokens_;
  std::vector<Directive> directives_;
  std::vector<Definition> definitions_;
  std::vector<size_t> close_;
  std::vector<size_t> open_;
  std::vector<bool> in_function_;
};

}  // namespace hone::verifier

#pragma once

// Regular expressions of tokenizer.json, run by PCRE2 with its just-in-time compiler.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone::policy {

/// A compiled pattern. Immutable; match with one PatternMatcher per thread.
///
/// Patterns are written for Oniguruma, which HF tokenizers uses. Where PCRE2 would differ, the pattern is rewritten: \s and \S
/// mean exactly Unicode's White_Space (PCRE2 counts U+180E too), and \p{L}, \p{N}, \p{M}, \p{Lu}, \p{Ll}, \p{Lt}, \p{Lm},
/// \p{Lo} are those of Unicode 16. \w, \d and other properties are PCRE2's.
class Pattern {
 public:
  /// kInvalidArgument: does not compile (message and position).
  static absl::StatusOr<std::shared_ptr<const Pattern>> Compile(const std::string& expression);
  /// The literal text instead of an expression.
  static absl::StatusOr<std::shared_ptr<const Pattern>> CompileLiteral(absl::string_view text);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

 private:
  friend class PatternMatcher;
  struct Code;
  Pattern();
  static absl::StatusOr<std::unique_ptr<Code>> CompileCode(const std::string& expression);

  std::unique_ptr<Code> plain_;  // the expression as it is: several times faster, right for texts without disputed characters
  std::unique_ptr<Code> exact_;  // rewritten; null where nothing had to be
};

/// A part of a text: a match, or what lies between two.
struct TextPart {
  size_t begin;  // bytes
  size_t end;
  bool is_match;
};

/// Scratch memory for matching; not thread-safe, reusable for any pattern.
class PatternMatcher {
 public:
  PatternMatcher();
  ~PatternMatcher();
  PatternMatcher(const PatternMatcher&) = delete;
  PatternMatcher& operator=(const PatternMatcher&) = delete;

  /// Cuts `text` (valid UTF-8) into matches and what lies between them, none empty; replaces `parts`.
  /// kResourceExhausted: the pattern needs more backtracking than the limit allows on this text.
  absl::Status Split(const Pattern& pattern, absl::string_view text, std::vector<TextPart>& parts);

 private:
  /// The next match at or behind `from`: [begin, end); begin == npos: none.
  absl::StatusOr<std::pair<size_t, size_t>> Next(const Pattern::Code& code, absl::string_view text, size_t from);
  static constexpr size_t npos = absl::string_view::npos;

  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace hone::policy

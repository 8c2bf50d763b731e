#include "verifier/build/cuda_source.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace hone::verifier {
namespace {

bool IsIdentifierStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || (c & 0x80); }
bool IsIdentifierPart(char c) { return IsIdentifierStart(c) || std::isdigit(static_cast<unsigned char>(c)); }

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

}  // namespace

CudaSource::CudaSource(absl::string_view text) : text_(text) {
  Scan();
  MatchBrackets();
  FindDefinitions();
}

absl::string_view CudaSource::Text(size_t token) const {
  if (token >= tokens_.size()) return "";
  return absl::string_view(text_).substr(tokens_[token].begin, tokens_[token].end - tokens_[token].begin);
}

bool CudaSource::Is(size_t token, absl::string_view text) const { return Text(token) == text; }

size_t CudaSource::Close(size_t token) const { return token < close_.size() ? close_[token] : tokens_.size(); }

size_t CudaSource::Open(size_t token) const { return token < open_.size() ? open_[token] : tokens_.size(); }

void CudaSource::Scan() {
  const std::string& s = text_;
  const size_t n = s.size();
  size_t i = 0;
  int line = 1;
  int directive = -1;
  bool line_start = true;
  // Whether s[at] is a backslash that joins this line with the next; `length` is what it and the line end take.
  auto splice = [&](size_t at, size_t* length) {
    if (s[at] != '\\') return false;
    size_t end = at + 1;
    if (end < n && s[end] == '\r') ++end;
    if (end >= n || s[end] != '\n') return false;
    *length = end + 1 - at;
    return true;
  };
  auto add = [&](TokenKind kind, size_t begin, size_t end, int at_line) {
    tokens_.push_back(Token{kind, begin, end, at_line, directive});
    line_start = false;
  };
  auto end_directive = [&](size_t at) {
    if (directive >= 0) directives_[directive].end = at;
    directive = -1;
  };
  while (i < n) {
    const char c = s[i];
    size_t length = 0;
    if (splice(i, &length)) {
      i += length;
      ++line;
    } else if (c == '\n') {
      end_directive(i);
      line_start = true;
      ++line;
      ++i;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
    } else if (c == '/' && i + 1 < n && s[i + 1] == '/') {
      while (i < n && s[i] != '\n') {
        if (splice(i, &length)) {
          i += length;
          ++line;
        } else {
          ++i;
        }
      }
    } else if (c == '/' && i + 1 < n && s[i + 1] == '*') {
      const size_t end = s.find("*/", i + 2);
      const size_t stop = end == std::string::npos ? n : end + 2;
      line += static_cast<int>(std::count(s.begin() + i, s.begin() + stop, '\n'));
      i = stop;
    } else if (c == '#' && line_start && directive < 0) {
      const size_t begin = i++;
      while (i < n && (s[i] == ' ' || s[i] == '\t')) ++i;
      const size_t word = i;
      while (i < n && IsIdentifierPart(s[i])) ++i;
      directive = static_cast<int>(directives_.size());
      directives_.push_back(Directive{s.substr(word, i - word), begin, n, line});
      line_start = false;
    } else if (c == '"' || c == '\'') {
      const size_t begin = i;
      const int at_line = line;
      const bool raw = c == '"' && !tokens_.empty() && tokens_.back().end == i &&
                       tokens_.back().kind == TokenKind::kIdentifier && s[i - 1] == 'R';
      if (raw) {
        const size_t paren = s.find('(', i);
        const std::string close = paren == std::string::npos ? "" : ")" + s.substr(i + 1, paren - i - 1) + "\"";
        const size_t end = close.empty() ? std::string::npos : s.find(close, paren);
        i = end == std::string::npos ? n : end + close.size();
        line += static_cast<int>(std::count(s.begin() + begin, s.begin() + i, '\n'));
      } else {
        ++i;
        while (i < n && s[i] != c && s[i] != '\n') {
          if (splice(i, &length)) {
            i += length;
            ++line;
          } else {
            i += s[i] == '\\' && i + 1 < n ? 2 : 1;
          }
        }
        if (i < n && s[i] == c) ++i;
      }
      add(c == '"' ? TokenKind::kString : TokenKind::kCharacter, begin, std::min(i, n), at_line);
    } else if (IsIdentifierStart(c)) {
      const size_t begin = i;
      while (i < n && IsIdentifierPart(s[i])) ++i;
      add(TokenKind::kIdentifier, begin, i, line);
    } else if (std::isdigit(static_cast<unsigned char>(c)) ||
               (c == '.' && i + 1 < n && std::isdigit(static_cast<unsigned char>(s[i + 1])))) {
      const size_t begin = i;
      while (i < n && (IsIdentifierPart(s[i]) || s[i] == '.' || s[i] == '\'' ||
                       ((s[i] == '+' || s[i] == '-') && std::strchr("eEpP", s[i - 1]) != nullptr))) {
        ++i;
      }
      add(TokenKind::kNumber, begin, i, line);
    } else {
      // Only the pairs that matter to the readers of tokens; '<' and '>' stay single.
      const absl::string_view pair = absl::string_view(s).substr(i, 2);
      const size_t size = IsOneOf(pair, {"::", "->", "##", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "&=",
                                         "|=", "^=", "%=", "++", "--"})
                              ? 2
                              : 1;
      add(TokenKind::kPunctuator, i, i + size, line);
      i += size;
    }
  }
}

void CudaSource::MatchBrackets() {
  close_.assign(tokens_.size(), tokens_.size());
  open_.assign(tokens_.size(), tokens_.size());
  std::vector<size_t> stack;
  std::vector<size_t> inside;  // of one directive
  int current = -1;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].directive != current) {
      inside.clear();
      current = tokens_[i].directive;
    }
    std::vector<size_t>& open = current < 0 ? stack : inside;
    if (tokens_[i].kind != TokenKind::kPunctuator) continue;
    const char c = text_[tokens_[i].begin];
    if (tokens_[i].end - tokens_[i].begin != 1) continue;
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(i);
    } else if (c == ')' || c == ']' || c == '}') {
      const char want = c == ')' ? '(' : c == ']' ? '[' : '{';
      // A stray closer drops what it cannot match: the compiler will complain about the text.
      while (!open.empty() && text_[tokens_[open.back()].begin] != want) open.pop_back();
      if (open.empty()) continue;
      close_[open.back()] = i;
      open_[i] = open.back();
      open.pop_back();
    }
  }
}

// Decides whether the '{' at `brace` opens a function body and records its definition.
void CudaSource::FindFunction(size_t brace) {
  const int directive = tokens_[brace].directive;
  // Back over what may stand between the parameter list and the body.
  size_t i = brace;
  while (i > 0 && tokens_[i - 1].directive == directive &&
         (IsOneOf(Text(i - 1), {"const", "noexcept", "override", "final", "mutable"}))) {
    --i;
  }
  // A trailing return type.
  for (size_t t = i; t > 0 && i - t < 12 && tokens_[t - 1].directive == directive; --t) {
    if (Is(t - 1, "->")) {
      i = t - 1;
      break;
    }
    if (tokens_[t - 1].kind != TokenKind::kIdentifier && !IsOneOf(Text(t - 1), {"::", "*", "&", "<", ">", ","})) break;
  }
  if (i == 0 || !Is(i - 1, ")") || tokens_[i - 1].directive != directive) return;
  const size_t open = open_[i - 1];
  if (open == tokens_.size() || open == 0) return;
  const size_t name = open - 1;
  if (tokens_[name].kind != TokenKind::kIdentifier || tokens_[name].directive != directive) return;
  if (IsOneOf(Text(name), {"if", "for", "while", "switch", "catch", "alignas", "__attribute__", "__launch_bounds__"})) return;
  Definition definition;
  definition.name = std::string(Text(name));
  definition.line = tokens_[name].line;
  definition.name_token = name;
  definition.body_begin = brace;
  definition.body_end = close_[brace];
  // Back to the start of the declaration: the token after the last ; } { or directive.
  size_t first = name;
  while (first > 0 && tokens_[first - 1].directive == directive && !IsOneOf(Text(first - 1), {";", "}", "{"})) {
    if (Is(first - 1, ")") && open_[first - 1] != tokens_.size()) {
      first = open_[first - 1];
    } else {
      --first;
    }
  }
  // `extern "C" {` and access specifiers end where they are; the words between are harmless.
  for (size_t t = first; t < name; ++t) {
    const absl::string_view word = Text(t);
    if (word == "__global__") definition.global = true;
    if (word == "__device__") definition.device = true;
    if (word == "__host__") definition.host = true;
    if (word == "constexpr") definition.constant = true;
    if (word == "void") definition.returns_void = true;
  }
  definition.first = first;
  definitions_.push_back(definition);
}

void CudaSource::FindDefinitions() {
  in_function_.assign(tokens_.size(), false);
  size_t function_end = 0;  // tokens before this index lie in a body
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const int directive = tokens_[i].directive;
    if (directive >= 0 && directives_[directive].name != "define") continue;
    if (directive >= 0 && (i == 0 || tokens_[i - 1].directive != directive)) {
      // A macro: its name, then parameters if a '(' follows at once.
      Definition macro;
      macro.kind = Definition::Kind::kMacro;
      macro.name = std::string(Text(i));
      macro.line = tokens_[i].line;
      macro.first = macro.name_token = i;
      size_t end = i;
      while (end < tokens_.size() && tokens_[end].directive == directive) ++end;
      macro.body_begin = i + 1;
      if (i + 1 < end && Is(i + 1, "(") && tokens_[i + 1].begin == tokens_[i].end && close_[i + 1] < end) {
        macro.body_begin = close_[i + 1] + 1;
      }
      macro.body_end = end;
      definitions_.push_back(macro);
    }
    if (directive < 0 && i < function_end) {
      in_function_[i] = true;
      continue;
    }
    if (!Is(i, "{") || close_[i] == tokens_.size()) continue;
    const size_t before = definitions_.size();
    FindFunction(i);
    if (definitions_.size() > before) {
      if (directive < 0) function_end = close_[i];
      continue;
    }
    // A class: the keyword lies before its name and bases.
    for (size_t t = i; t-- > 0 && tokens_[t].directive == directive && !IsOneOf(Text(t), {";", "}", "{", ")"});) {
      if (!IsOneOf(Text(t), {"struct", "class", "union"})) continue;
      if (tokens_[t + 1].kind == TokenKind::kIdentifier) {
        Definition type;
        type.kind = Definition::Kind::kClass;
        size_t name = t + 1;
        while (IsOneOf(Text(name), {"__align__", "alignas", "__attribute__"}) && Is(name + 1, "(")) name = close_[name + 1] + 1;
        type.name = std::string(Text(name));
        type.line = tokens_[i].line;
        type.first = t;
        type.name_token = name;
        type.body_begin = i;
        type.body_end = close_[i];
        definitions_.push_back(type);
      }
      break;
    }
  }
}

}  // namespace hone::verifier

#include "policy/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

constexpr uint32_t kMatchLimit = 50'000'000;    // backtracking steps of the interpreter; the JIT counts calls likewise
constexpr uint32_t kHeapLimitKib = 512 * 1024;  // of the interpreter
constexpr size_t kJitStackBytes = 8 << 20;

// Unicode White_Space as the inside of a class.
constexpr char kSpaces[] = R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// What Unicode 15.0 to 16.0 added to the properties that split patterns use. PCRE2 10.42 knows 14.0, Oniguruma 6.9.10 knows
// 16.0; with a newer PCRE2 these are harmless repetitions. In the order of the characters.
struct NewerCharacters {
  char32_t first;
  char32_t last;
  const char* property;
};
constexpr NewerCharacters kNewer[] = {
    {0x897, 0x897, "M"}, {0xCF3, 0xCF3, "M"}, {0xECE, 0xECE, "M"}, {0x1C89, 0x1C89, "Lu"}, {0x1C8A, 0x1C8A, "Ll"},
    {0xA7CB, 0xA7CC, "Lu"}, {0xA7CD, 0xA7CD, "Ll"}, {0xA7DA, 0xA7DA, "Lu"}, {0xA7DB, 0xA7DB, "Ll"},
    {0xA7DC, 0xA7DC, "Lu"}, {0x105C0, 0x105F3, "Lo"}, {0x10D40, 0x10D49, "N"}, {0x10D4A, 0x10D4D, "Lo"},
    {0x10D4E, 0x10D4E, "Lm"}, {0x10D4F, 0x10D4F, "Lo"}, {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "M"},
    {0x10D6F, 0x10D6F, "Lm"}, {0x10D70, 0x10D85, "Ll"}, {0x10EC2, 0x10EC4, "Lo"}, {0x10EFC, 0x10EFF, "M"},
    {0x1123F, 0x11240, "Lo"}, {0x11241, 0x11241, "M"}, {0x11380, 0x11389, "Lo"}, {0x1138B, 0x1138B, "Lo"},
    {0x1138E, 0x1138E, "Lo"}, {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"}, {0x113B8, 0x113C0, "M"},
    {0x113C2, 0x113C2, "M"}, {0x113C5, 0x113C5, "M"}, {0x113C7, 0x113CA, "M"}, {0x113CC, 0x113D0, "M"},
    {0x113D1, 0x113D1, "Lo"}, {0x113D2, 0x113D2, "M"}, {0x113D3, 0x113D3, "Lo"}, {0x113E1, 0x113E2, "M"},
    {0x116D0, 0x116E3, "N"}, {0x11BC0, 0x11BE0, "Lo"}, {0x11BF0, 0x11BF9, "N"}, {0x11F00, 0x11F01, "M"},
    {0x11F02, 0x11F02, "Lo"}, {0x11F03, 0x11F03, "M"}, {0x11F04, 0x11F10, "Lo"}, {0x11F12, 0x11F33, "Lo"},
    {0x11F34, 0x11F3A, "M"}, {0x11F3E, 0x11F42, "M"}, {0x11F50, 0x11F59, "N"}, {0x11F5A, 0x11F5A, "M"},
    {0x1342F, 0x1342F, "Lo"}, {0x13440, 0x13440, "M"}, {0x13441, 0x13446, "Lo"}, {0x13447, 0x13455, "M"},
    {0x13460, 0x143FA, "Lo"}, {0x16100, 0x1611D, "Lo"}, {0x1611E, 0x1612F, "M"}, {0x16130, 0x16139, "N"},
    {0x16D40, 0x16D42, "Lm"}, {0x16D43, 0x16D6A, "Lo"}, {0x16D6B, 0x16D6C, "Lm"}, {0x16D70, 0x16D79, "N"},
    {0x18CFF, 0x18CFF, "Lo"}, {0x1B132, 0x1B132, "Lo"}, {0x1B155, 0x1B155, "Lo"}, {0x1CCF0, 0x1CCF9, "N"},
    {0x1D2C0, 0x1D2D3, "N"}, {0x1DF25, 0x1DF2A, "Ll"}, {0x1E030, 0x1E06D, "Lm"}, {0x1E08F, 0x1E08F, "M"},
    {0x1E4D0, 0x1E4EA, "Lo"}, {0x1E4EB, 0x1E4EB, "Lm"}, {0x1E4EC, 0x1E4EF, "M"}, {0x1E4F0, 0x1E4F9, "N"},
    {0x1E5D0, 0x1E5ED, "Lo"}, {0x1E5EE, 0x1E5EF, "M"}, {0x1E5F0, 0x1E5F0, "Lo"}, {0x1E5F1, 0x1E5FA, "N"},
    {0x2B739, 0x2B739, "Lo"}, {0x2EBF0, 0x2EE5D, "Lo"}, {0x31350, 0x323AF, "Lo"}};

/// The newer characters of a property as the inside of a class, "L" being the union of those that begin so.
std::string NewerOf(absl::string_view property) {
  std::string ranges;
  for (const NewerCharacters& newer : kNewer) {
    if (newer.property != property && !(property == "L" && newer.property[0] == 'L')) continue;
    ranges += absl::StrFormat("\\x{%X}-\\x{%X}", newer.first, newer.last);
  }
  return ranges;
}

/// True when PCRE2's own \s and \p might judge a character of `text` otherwise than Oniguruma.
bool HasDisputedChar(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const uint8_t lead = static_cast<uint8_t>(text[at]);
    if (lead != 0xE0 && lead != 0xE1 && lead != 0xEA && lead < 0xF0) {  // leads of all disputed characters
      ++at;
      continue;
    }
    const char32_t c = NextChar(text, at);
    const auto newer = std::lower_bound(std::begin(kNewer), std::end(kNewer), c,
                                        [](const NewerCharacters& range, char32_t key) { return range.last < key; });
    if (c == 0x180E || (newer != std::end(kNewer) && newer->first <= c)) return true;
  }
  return false;
}

/// "L" of \p{L} or \pL at `at`, which is moved behind it; empty: not such a property.
absl::string_view PropertyAt(absl::string_view expression, size_t& at) {
  if (at < expression.size() && expression[at] != '{') return expression.substr(at++, 1);
  const size_t close = expression.find('}', at);
  if (close == absl::string_view::npos) return "";
  const absl::string_view name = expression.substr(at + 1, close - at - 1);
  at = close + 1;
  return name;
}

/// Spells out what PCRE2 understands otherwise than Oniguruma: \s, \S, and properties whose characters became more. Inside a
/// class, \S and \P have no such spelling and stay.
std::string Respell(absl::string_view expression) {
  std::string out;
  bool in_class = false;
  const auto append_class = [&](absl::string_view negation, absl::string_view inside) {
    absl::StrAppend(&out, in_class ? "" : absl::StrCat("[", negation), inside, in_class ? "" : "]");
  };
  for (size_t i = 0; i < expression.size();) {
    const char c = expression[i];
    if (c != '\\' || i + 1 == expression.size()) {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out.push_back(c);
      ++i;
      continue;
    }
    const char kind = expression[i + 1];
    size_t end = i + 2;
    const absl::string_view property = kind == 'p' || kind == 'P' ? PropertyAt(expression, end) : "";
    const std::string newer = property.empty() ? "" : NewerOf(property);
    if (kind == 's' || (kind == 'S' && !in_class)) {
      append_class(kind == 'S' ? "^" : "", kSpaces);
    } else if (!newer.empty() && (kind == 'p' || !in_class)) {
      append_class(kind == 'P' ? "^" : "", absl::StrCat("\\p{", property, "}", newer));
    } else {
      absl::StrAppend(&out, expression.substr(i, end - i));
    }
    i = end;
  }
  return out;
}

std::string MessageOf(int error) {
  unsigned char message[128];
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

}  // namespace

struct Pattern::Code {
  pcre2_code* code;
  bool jit;  // not on every processor; the interpreter is

  explicit Code(pcre2_code* compiled) : code(compiled), jit(pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0) {}
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern() = default;
Pattern::~Pattern() = default;

absl::StatusOr<std::unique_ptr<Pattern::Code>> Pattern::CompileCode(const std::string& expression) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("pattern '", absl::Utf8SafeCEscape(expression), "' does not compile: ",
                                                   MessageOf(error)));
  }
  return std::make_unique<Code>(code);
}

absl::StatusOr<std::shared_ptr<const Pattern>> Pattern::Compile(const std::string& expression) {
  if (expression.find("&&[") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("pattern '", absl::Utf8SafeCEscape(expression), "' intersects classes, which is not supported"));
  }
  auto pattern = std::shared_ptr<Pattern>(new Pattern());
  HONE_ASSIGN_OR_RETURN(pattern->plain_, CompileCode(expression));
  const std::string exact = Respell(expression);
  if (exact != expression) {
    HONE_ASSIGN_OR_RETURN(pattern->exact_, CompileCode(exact));
  }
  return std::shared_ptr<const Pattern>(std::move(pattern));
}

absl::StatusOr<std::shared_ptr<const Pattern>> Pattern::CompileLiteral(absl::string_view text) {
  std::string expression;
  for (const char c : text) {
    const bool plain = static_cast<uint8_t>(c) >= 0x80 || isalnum(static_cast<uint8_t>(c)) || c == ' ';
    if (!plain) expression.push_back('\\');
    expression.push_back(c);
  }
  return Compile(expression);
}

struct PatternMatcher::Scratch {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(64 << 10, kJitStackBytes, nullptr);

  Scratch() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

PatternMatcher::PatternMatcher() : scratch_(std::make_unique<Scratch>()) {}
PatternMatcher::~PatternMatcher() = default;

absl::Status PatternMatcher::Split(const Pattern& pattern, absl::string_view text, std::vector<TextPart>& parts) {
  const bool exact = pattern.exact_ != nullptr && HasDisputedChar(text);
  const Pattern::Code& code = exact ? *pattern.exact_ : *pattern.plain_;
  parts.clear();
  size_t done = 0, from = 0;
  while (from < text.size()) {
    HONE_ASSIGN_OR_RETURN(const auto match, Next(code, text, from));
    if (match.first == npos) break;
    if (match.first == match.second) {  // an empty match cuts nothing off
      from = match.first;
      if (from < text.size()) NextChar(text, from);
      continue;
    }
    if (match.first > done) parts.push_back({done, match.first, false});
    parts.push_back({match.first, match.second, true});
    done = from = match.second;
  }
  if (done < text.size()) parts.push_back({done, text.size(), false});
  return absl::OkStatus();
}

absl::StatusOr<std::pair<size_t, size_t>> PatternMatcher::Next(const Pattern::Code& code, absl::string_view text, size_t from) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int result = code.jit ? pcre2_jit_match(code.code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, scratch_->match,
                                          scratch_->context)
                        : PCRE2_ERROR_JIT_STACKLIMIT;
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code.code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch_->match,
                         scratch_->context);
  }
  if (result == PCRE2_ERROR_NOMATCH) return std::make_pair(npos, npos);
  if (result < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("splitting ", text.size(), " bytes of text: ", MessageOf(result)));
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch_->match);
  return std::make_pair(ends[0], ends[1]);
}

}  // namespace hone::policy

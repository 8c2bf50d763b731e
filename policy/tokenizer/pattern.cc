#include "policy/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

constexpr uint32_t kMatchLimit = 50'000'000;    // backtracking steps of the interpreter; the JIT counts calls likewise
constexpr uint32_t kHeapLimitKib = 512 * 1024;  // of the interpreter
constexpr size_t kJitStackBytes = 8 << 20;

// Unicode White_Space as the inside of a class.
constexpr char kSpaces[] = R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// \s and \S spelled out. Inside a class, \S has no such spelling and stays.
std::string SpellOutSpaces(absl::string_view expression) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char next = expression[++i];
      if (next == 's') {
        absl::StrAppend(&out, in_class ? "" : "[", kSpaces, in_class ? "" : "]");
      } else if (next == 'S' && !in_class) {
        absl::StrAppend(&out, "[^", kSpaces, "]");
      } else {
        out.push_back(c);
        out.push_back(next);
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out.push_back(c);
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
  pcre2_code* code = nullptr;
  bool jit = false;
};

Pattern::~Pattern() {
  if (code_) pcre2_code_free(code_->code);
}

absl::StatusOr<std::shared_ptr<const Pattern>> Pattern::Compile(const std::string& expression) {
  if (expression.find("&&[") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("pattern '", expression, "' intersects classes, which is not supported"));
  }
  const std::string text = SpellOutSpaces(expression);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("pattern '", expression, "' does not compile: ", MessageOf(error)));
  }
  auto pattern = std::shared_ptr<Pattern>(new Pattern());
  pattern->code_ = std::make_unique<Code>();
  pattern->code_->code = code;
  pattern->code_->jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;  // not on every processor; the interpreter is
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
  parts.clear();
  size_t done = 0, from = 0;
  while (from < text.size()) {
    HONE_ASSIGN_OR_RETURN(const auto match, Next(pattern, text, from));
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

absl::StatusOr<std::pair<size_t, size_t>> PatternMatcher::Next(const Pattern& pattern, absl::string_view text, size_t from) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const Pattern::Code& code = *pattern.code_;
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

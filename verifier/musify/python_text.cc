#include "verifier/musify/python_text.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"

namespace hone::verifier {
namespace {

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0; }
bool IsNamePart(char c) { return IsNameStart(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)); }

/// Whether a name is what stands before a string's quotes: r, b, f, u and their pairs.
bool IsStringPrefix(absl::string_view name) {
  return name.size() <= 2 && name.find_first_not_of("rRbBfFuU") == absl::string_view::npos;
}

class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

  std::vector<PythonToken> Read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
        ++at_;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        String(/*prefix=*/"");
      } else if (IsNameStart(c)) {
        Name();
      } else {
        tokens_.push_back({PythonToken::Kind::kOther, at_, at_ + 1, line_});
        ++at_;
      }
    }
    return std::move(tokens_);
  }

 private:
  void Name() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    const absl::string_view name = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'') && IsStringPrefix(name)) return String(name);
    tokens_.push_back({PythonToken::Kind::kName, begin, at_, line_});
  }

  void String(absl::string_view prefix) {
    const char quote = text_[at_];
    const bool triple = text_.substr(at_, 3) == std::string(3, quote);
    const size_t width = triple ? 3 : 1;
    PythonToken token = {PythonToken::Kind::kString, at_ + width, text_.size(), line_};
    token.formatted = prefix.find_first_of("fF") != absl::string_view::npos;
    for (at_ += width; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++line_;
        ++at_;
      } else if (text_[at_] == '\n') {
        if (!triple) break;
        ++line_;
      } else if (text_.substr(at_, width) == std::string(width, quote)) {
        break;
      }
    }
    token.end = std::min(at_, text_.size());
    if (at_ < text_.size() && text_[at_] != '\n') at_ += width;
    tokens_.push_back(token);
  }

  const absl::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<PythonToken> tokens_;
};

}  // namespace

std::vector<PythonToken> ReadPython(absl::string_view text) { return Reader(text).Read(); }

}  // namespace hone::verifier

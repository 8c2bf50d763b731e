#include "verifier/build/compiler_output.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hone::verifier {
namespace {

constexpr size_t kMaxMessageBytes = 400;

// Splits "path:12:5" or "path:12" or nvcc's "path(12)".
void ParsePlace(absl::string_view place, CompilerError* error) {
  place = absl::StripSuffix(place, ":");
  const size_t paren = place.rfind('(');
  if (paren != absl::string_view::npos && absl::EndsWith(place, ")") &&
      absl::SimpleAtoi(place.substr(paren + 1, place.size() - paren - 2), &error->line)) {
    place = place.substr(0, paren);
  } else {
    std::vector<absl::string_view> parts = absl::StrSplit(place, ':');
    int number = 0;
    for (int cut = 0; cut < 2 && parts.size() > 1 && absl::SimpleAtoi(parts.back(), &number); ++cut) {
      error->line = number;
      parts.pop_back();
    }
    place = parts.front();
  }
  const size_t slash = place.rfind('/');
  error->file = std::string(slash == absl::string_view::npos ? place : place.substr(slash + 1));
}

}  // namespace

std::vector<CompilerError> ParseCompilerErrors(absl::string_view output) {
  std::vector<CompilerError> errors;
  std::set<std::string> seen;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    size_t mark = absl::string_view::npos;
    size_t length = 0;
    for (absl::string_view word : {"fatal error: ", "internal compiler error: ", "error: ", "Error: "}) {
      mark = line.find(word);
      if (mark == absl::string_view::npos || (mark > 0 && line[mark - 1] != ' ')) continue;
      length = word == "internal compiler error: " ? 0 : word.size();
      break;
    }
    if (mark == absl::string_view::npos || (mark > 0 && line[mark - 1] != ' ')) continue;
    CompilerError error;
    error.message = std::string(absl::StripAsciiWhitespace(line.substr(mark + length)));
    if (error.message.size() > kMaxMessageBytes) error.message = error.message.substr(0, kMaxMessageBytes) + "...";
    if (mark > 0) ParsePlace(absl::StripAsciiWhitespace(line.substr(0, mark)), &error);
    if (seen.insert(error.message).second) errors.push_back(std::move(error));
  }
  return errors;
}

std::string FormatCompilerErrors(const std::vector<CompilerError>& errors, absl::string_view source, size_t limit) {
  const std::vector<absl::string_view> lines = absl::StrSplit(source, '\n');
  std::string text;
  for (size_t i = 0; i < std::min(limit, errors.size()); ++i) {
    const CompilerError& error = errors[i];
    absl::StrAppend(&text, error.file, error.file.empty() ? "" : ":");
    if (error.line > 0) absl::StrAppend(&text, error.line, ":");
    absl::StrAppend(&text, text.empty() || text.back() == '\n' ? "" : " ", "error: ", error.message, "\n");
    if (error.file == "candidate.cu" && error.line > 0 && static_cast<size_t>(error.line) <= lines.size()) {
      const absl::string_view line = absl::StripAsciiWhitespace(lines[error.line - 1]);
      absl::StrAppend(&text, "    ", line.substr(0, 160), "\n");
    }
  }
  if (errors.size() > limit) absl::StrAppend(&text, "and ", errors.size() - limit, " more\n");
  return text;
}

}  // namespace hone::verifier

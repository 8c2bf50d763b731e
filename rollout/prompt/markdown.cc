#include "rollout/prompt/markdown.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hone::rollout {
namespace {

constexpr absl::string_view kReasoningEnd = "</think>";

int64_t LongestRun(absl::string_view text, char c) {
  int64_t longest = 0;
  int64_t run = 0;
  for (const char other : text) {
    run = other == c ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

/// The number of backquotes or tildes that open or close a fence at this line; 0: none. At most three spaces before it.
int64_t FenceOf(absl::string_view line, char& mark) {
  const size_t start = line.find_first_not_of(' ');
  if (start == absl::string_view::npos || start > 3 || (line[start] != '`' && line[start] != '~')) return 0;
  mark = line[start];
  const size_t end = std::min(line.find_first_not_of(mark, start), line.size());
  return end - start >= 3 ? static_cast<int64_t>(end - start) : 0;
}

bool IsBlank(absl::string_view line) { return line.find_first_not_of(" \t\r") == absl::string_view::npos; }

std::vector<std::string> BlocksOf(absl::string_view text) {
  std::vector<std::string> blocks;
  int64_t open = 0;  // length of the open fence; 0: outside
  char open_mark = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    char mark = 0;
    const int64_t fence = FenceOf(line, mark);
    if (open == 0) {
      if (fence == 0) continue;
      open = fence;
      open_mark = mark;
      blocks.emplace_back();
      continue;
    }
    const bool closes = fence >= open && mark == open_mark && IsBlank(line.substr(line.find_last_of(mark) + 1));
    if (closes) {
      open = 0;
    } else {
      absl::StrAppend(&blocks.back(), line, "\n");
    }
  }
  return blocks;
}

}  // namespace

std::string CodeBlock(absl::string_view language, absl::string_view code) {
  const std::string fence(static_cast<size_t>(std::max<int64_t>(3, LongestRun(code, '`') + 1)), '`');
  return absl::StrCat(fence, language, "\n", absl::StripSuffix(code, "\n"), "\n", fence, "\n");
}

std::string Shortened(absl::string_view text, int64_t limit_bytes) {
  if (static_cast<int64_t>(text.size()) <= limit_bytes) return std::string(text);
  size_t end = static_cast<size_t>(limit_bytes);
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  const size_t line_end = text.substr(0, end).rfind('\n');
  if (line_end != absl::string_view::npos && line_end > 0) end = line_end;
  return absl::StrCat(text.substr(0, end), "\n[", text.size() - end, " more bytes]");
}

std::optional<std::string> CodeOf(absl::string_view answer, absl::string_view marker) {
  if (const size_t end = answer.rfind(kReasoningEnd); end != absl::string_view::npos) {
    answer.remove_prefix(end + kReasoningEnd.size());
  }
  std::vector<std::string> blocks = BlocksOf(answer);
  const auto contains = [&](absl::string_view text) { return text.find(marker) != absl::string_view::npos; };
  const auto last = std::find_if(blocks.rbegin(), blocks.rend(), contains);
  if (last != blocks.rend()) return *last;
  if (!blocks.empty()) return blocks.back();
  if (contains(answer)) return std::string(answer);
  return std::nullopt;
}

}  // namespace hone::rollout

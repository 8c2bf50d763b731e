#include "base/strings.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

namespace hone {
namespace {

/// Bytes of the sequence that starts at `at`; 0 when there is none.
size_t SequenceBytes(absl::string_view text, size_t at) {
  const auto byte = [&](size_t offset) -> uint32_t {
    return at + offset < text.size() ? static_cast<unsigned char>(text[at + offset]) : 0;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  uint32_t code = lead & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kSmallest[bytes] || code > 0x10FFFF || surrogate ? 0 : bytes;
}

}  // namespace

size_t FirstNonUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = SequenceBytes(text, at);
    if (bytes == 0) return at;
    at += bytes;
  }
  return absl::string_view::npos;
}

std::string ToUtf8(absl::string_view text) {
  std::string valid;
  while (true) {
    const size_t bad = FirstNonUtf8(text);
    valid.append(text.data(), std::min(bad, text.size()));
    if (bad == absl::string_view::npos) return valid;
    valid += "\xEF\xBF\xBD";
    text.remove_prefix(bad);
    while (!text.empty() && SequenceBytes(text, 0) == 0) text.remove_prefix(1);
  }
}

/// Levenshtein, "Binary codes capable of correcting deletions, insertions, and reversals", 1966; one row at a time.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string NearestWord(absl::string_view word, const std::vector<std::string>& words) {
  std::string nearest;
  size_t smallest = std::numeric_limits<size_t>::max();
  for (const std::string& candidate : words) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < smallest) {
      smallest = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace hone

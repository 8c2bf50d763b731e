// Any bytes as a journal: refused, or its groups are read, and each is written and read back the same. A writer takes such a
// file on after its last whole record, or leaves it as it is.

#include <cstdlib>
#include <string>
#include <vector>

#include "base/journal.h"
#include "tests/fuzz/input_file.h"

namespace {

/// What `path` holds, in the journal's words; the status is ReadJournal's.
absl::StatusOr<std::vector<std::string>> Groups(const std::string& path) {
  std::vector<std::string> groups;
  const auto read = hone::ReadJournal(path, [&](const hone::Group& group) {
    groups.push_back(hone::GroupToJson(group));
    const auto again = hone::GroupFromJson(groups.back());
    if (!again.ok() || hone::GroupToJson(*again) != groups.back()) std::abort();
    return absl::OkStatus();
  });
  if (!read.ok()) return read.status();
  if (read->groups != static_cast<int64_t>(groups.size())) std::abort();
  return groups;
}

void Append(const std::string& path) {
  auto before = Groups(path);
  hone::Group group;
  group.id = "appended";
  {
    const auto writer = hone::JournalWriter::Open(path);
    if (!writer.ok() || !(*writer)->Append(group).ok()) return;
  }
  const auto after = Groups(path);
  if (!before.ok()) return;
  before->push_back(hone::GroupToJson(group));
  if (!after.ok() || *after != *before) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto verdict = hone::VerdictFromJson(text); verdict.ok()) {
    const std::string json = hone::VerdictToJson(*verdict);
    const auto again = hone::VerdictFromJson(json);
    if (!again.ok() || hone::VerdictToJson(*again) != json) std::abort();
  }
  const hone::fuzz::InputFile file(data, size);
  Append(file.path());
  return 0;
}

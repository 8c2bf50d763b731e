// Any bytes as a journal: refused, or its groups are read; what is read can be written and read again. A writer takes the
// file on where it ended, or leaves it as it is.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/journal.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hone::fuzz::InputFile file(data, size);
  const auto visit = [](const hone::Group& group) {
    const auto again = hone::GroupFromJson(hone::GroupToJson(group));
    if (!again.ok()) std::abort();
    return absl::OkStatus();
  };
  const auto read = hone::ReadJournal(file.path(), visit);
  (void)hone::GroupFromJson(absl::string_view(reinterpret_cast<const char*>(data), size));
  (void)hone::VerdictFromJson(absl::string_view(reinterpret_cast<const char*>(data), size));
  return read.ok() && read->groups < 0 ? 1 : 0;
}

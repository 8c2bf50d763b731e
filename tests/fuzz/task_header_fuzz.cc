// Any bytes as a task file, and as a line of a collection: refused in one line, or a task that is written and read back the
// same.

#include <cstdlib>
#include <string>

#include "base/task_file.h"

namespace {
void Check(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument || status.message().find('\n') != absl::string_view::npos) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto task = hone::ParseTaskFile(text, "folder/fuzz.py"); task.ok()) {
    const auto again = hone::ParseTaskFile(hone::FormatTaskFile(*task), "folder/fuzz.py");
    if (!again.ok() || *again != *task) std::abort();
    const auto line = hone::TaskFromJson(hone::TaskToJson(*task), "fuzz:1");
    if (!line.ok() || *line != *task) std::abort();
  } else {
    Check(task.status());
  }
  if (const auto task = hone::TaskFromJson(text, "fuzz:1"); !task.ok()) Check(task.status());
  return 0;
}

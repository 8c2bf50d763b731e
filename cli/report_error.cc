#include "cli/report_error.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "cli/command.h"

namespace hone::cli {

int Report(const absl::Status& status) {
  if (status.ok()) return kDone;
  std::fprintf(stderr, "hone: %s\n", std::string(status.message()).c_str());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
      return kUsersInput;
    default:
      return kOurFault;
  }
}

absl::Status CheckOutput(absl::string_view option, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const std::string folder = FolderOf(path);
  const auto bad = [&](auto&&... why) { return absl::InvalidArgumentError(absl::StrCat(option, " ", path, ": ", why...)); };
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return bad("there is no folder ", folder);
  if (access(folder.c_str(), W_OK) != 0) return bad("the folder ", folder, " cannot be written to");
  if (std::filesystem::is_directory(path, error)) return bad("is a folder, not a file");
  return absl::OkStatus();
}

void WarnOfSandbox(absl::string_view sandbox) {
  if (sandbox == "none") std::fprintf(stderr, "hone: warning: no sandbox: candidates run with your rights\n");
}

}  // namespace hone::cli

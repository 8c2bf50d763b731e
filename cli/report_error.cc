#include "cli/report_error.h"

#include <cstdio>
#include <string>

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

void WarnOfSandbox(absl::string_view sandbox) {
  if (sandbox == "none") std::fprintf(stderr, "hone: warning: no sandbox: candidates run with your rights\n");
}

}  // namespace hone::cli

#pragma once

// The report of a run of `hone quickstart` or `hone train`, made from its folder alone: it can be made again at any time,
// also of a run that was interrupted.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hone::cli {

/// Writes `folder`/report.html. kNotFound: the folder holds no run.
absl::Status WriteRunReport(const std::string& folder);

/// What the command prints at the end: before and after, a line each.
absl::StatusOr<std::string> RunSummary(const std::string& folder);

}  // namespace hone::cli

#pragma once

// A lane in a child process, and the child's side of it. A judge that dies, hangs or leaks costs one try of one job.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "verifier/lane/lane.h"

namespace hone::verifier {

struct LaneProcessOptions {
  std::string program;                              // hone-verifier; empty: beside the running program
  LaneOptions lane;
  LogLevel log_level = LogLevel::kInfo;             // of the child's own lines, which name the job's trace id
  std::vector<int> cores;                           // of the child and of all that it starts; empty: this process's
  absl::Duration start_timeout = absl::Minutes(3);  // a cold torch import from a slow disk
  absl::Duration grace = absl::Seconds(60);         // beyond a protocol's run_timeout_ms before the child is killed
};

/// Returns once the child is ready. kDeadlineExceeded: it was not, in time; other errors are the child's own.
/// Judge and Describe: kUnavailable when the child died (says how), kDeadlineExceeded when it was killed for not
/// answering; the lane is then of no further use.
absl::StatusOr<std::unique_ptr<Lane>> StartLaneProcess(const LaneProcessOptions& options);

/// The child: answers on `fd` until the other end closes. Returns the exit code.
int ServeLane(int fd, const LaneOptions& options);

}  // namespace hone::verifier

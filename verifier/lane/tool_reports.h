#pragma once

// What the device vendor's checker and profiler print, as evidence. The process that they watch prints beside them and is a
// candidate's, so that any line may be forged: nothing here reads out of bounds, grows without a limit, or is anything but
// UTF-8 and finite numbers, whatever stands there. Pure.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/verdict.h"

namespace hone::verifier {

/// The call's folder as the watched process sees it; reports leave it out.
inline constexpr char kCallFolder[] = "/call";

/// What compute-sanitizer printed, without its frame, host frames and addresses of this process, at most `limit` bytes.
/// Empty: it found nothing.
std::string TrimSanitizerReport(absl::string_view output, size_t limit);

/// The metrics that ParseProfile reads, for the profiler's `--metrics`.
std::vector<std::string> ProfiledMetrics();

/// Of the profiler's table (`ncu --csv --page raw --print-units base`, with ProfiledMetrics()): one entry a kernel, by
/// descending time, at most 64. kUnavailable: the profiler's own error; kInternal: no such table.
absl::StatusOr<std::vector<KernelProfile>> ParseProfile(absl::string_view output);

}  // namespace hone::verifier

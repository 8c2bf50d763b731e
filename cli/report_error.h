#pragma once

// A Status as a command ends with it.

#include "absl/status/status.h"

namespace hone::cli {

/// Prints "hone: <message>" on standard error unless OK, and returns the exit code: what the user gave is unusable
/// (kInvalidArgument, kNotFound, kFailedPrecondition, kAlreadyExists, kOutOfRange, kPermissionDenied) or our own fault.
int Report(const absl::Status& status);

}  // namespace hone::cli

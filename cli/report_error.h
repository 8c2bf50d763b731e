#pragma once

// What commands say on standard error.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hone::cli {

/// Prints "hone: <message>" on standard error unless OK, and returns the exit code: what the user gave is unusable
/// (kInvalidArgument, kNotFound, kFailedPrecondition, kAlreadyExists, kOutOfRange, kPermissionDenied, kUnimplemented: a model or a
/// feature that hone does not know) or our own fault.
int Report(const absl::Status& status);

/// Before long work: kInvalidArgument where a file `path`, given by `option`, could not be written. An empty path is none.
absl::Status CheckOutput(absl::string_view option, const std::string& path);

/// A line on standard error where a verifier that runs candidates has no sandbox for them ("none").
void WarnOfSandbox(absl::string_view sandbox);

}  // namespace hone::cli

#pragma once

// Early returns for absl::Status and absl::StatusOr. A Status is our own failure; a failing candidate is a verdict.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Returns from the enclosing function when `expr` is an error status.
#define HONE_RETURN_IF_ERROR(expr)                         \
  do {                                                     \
    absl::Status hone_status_ = (expr);                    \
    if (!hone_status_.ok()) return hone_status_;           \
  } while (false)

/// `HONE_ASSIGN_OR_RETURN(auto value, Compute());` returns the error, or assigns the value.
#define HONE_ASSIGN_OR_RETURN(lhs, expr) \
  HONE_ASSIGN_OR_RETURN_IMPL_(HONE_CONCAT_(hone_status_or_, __LINE__), lhs, expr)

#define HONE_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return std::move(tmp).status();    \
  lhs = std::move(tmp).value()
#define HONE_CONCAT_(a, b) HONE_CONCAT_IMPL_(a, b)
#define HONE_CONCAT_IMPL_(a, b) a##b

/// Ends the process with a message: programmer errors only, never bad input. `CHECK` itself belongs to torch and Catch2.
#define HONE_CHECK(condition) \
  do {                        \
    if (!(condition)) ::hone::internal::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)

namespace hone::internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace hone::internal

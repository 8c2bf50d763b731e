#pragma once

// The edge where torch's exceptions become statuses. Include only where torch is.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cmake/torch_pch.h"

namespace hone::policy {

/// body() as StatusOr<its type>. kResourceExhausted when memory ran out, else kInternal; `what` heads the message.
template <class Body>
auto CatchTorch(const char* what, const Body& body) -> absl::StatusOr<decltype(body())> {
  try {
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
}

}  // namespace hone::policy

#pragma once

// Requests as they come in, from gRPC or HTTP: our defaults filled in, and what cannot be served refused.

#include "absl/status/statusor.h"
#include "base/task.h"
#include "base/verify_request.h"

namespace hone::v1 {
class Task;
class VerifyRequest;
}  // namespace hone::v1

namespace hone::verifier {

/// Both use their message up. kInvalidArgument: names the field.
absl::StatusOr<VerifyRequest> ReadRequest(v1::VerifyRequest&& message);
absl::StatusOr<Task> ReadTask(v1::Task&& message);

}  // namespace hone::verifier

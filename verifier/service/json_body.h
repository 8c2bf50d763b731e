#pragma once

// Bodies of HTTP requests, as they come in: any bytes.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace hone::v1 {
class VerifyRequest;
}  // namespace hone::v1

namespace hone::verifier {

/// JSON of at most 64 levels. kInvalidArgument says what is wrong and where.
absl::StatusOr<nlohmann::json> ParseBody(const std::string& body);

/// A hone.v1.VerifyRequest as JSON, its source texts as plain strings. kInvalidArgument names the field. `message` is empty.
absl::Status ParseVerifyRequest(const std::string& body, v1::VerifyRequest* message);

}  // namespace hone::verifier

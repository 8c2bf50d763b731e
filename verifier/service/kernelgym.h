#pragma once

// KernelGYM's request and result shapes (its server/api/models.py at 3a84417) against ours.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/verdict.h"
#include "base/verify_request.h"
#include "nlohmann/json.hpp"

namespace hone::verifier {

/// An EvaluationRequest. kInvalidArgument: names the field, its value and what is allowed, as KernelGYM does with 400.
absl::StatusOr<VerifyRequest> ReadEvaluation(const nlohmann::json& request);

/// An EvaluationResponse. Times in ms. `submitted` and `completed` by the wall clock.
nlohmann::json EvaluationOf(const std::string& task_id, const VerifyRequest& request, const Verdict& verdict,
                            absl::Time submitted, absl::Time completed);

}  // namespace hone::verifier

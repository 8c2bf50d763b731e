#pragma once

// A model out of an HF folder, and back.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "policy/model/decoder.h"

namespace hone::policy {

/// config.json and model*.safetensors of `folder`. Weights are converted to options.dtype. Errors as of ReadFile,
/// ModelConfigFromHf, Safetensors::Open and Parameters::Load, with the file named.
absl::StatusOr<std::unique_ptr<Decoder>> LoadHfFolder(const std::string& folder, const DecoderOptions& options = {});

/// Writes model.safetensors under HF's names into `folder`. config.json is the caller's (copied from where the model
/// came from: fields that hone does not read must survive).
absl::Status SaveHfWeights(const Decoder& decoder, const std::string& folder);

}  // namespace hone::policy

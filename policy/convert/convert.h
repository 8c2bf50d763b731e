#pragma once

// Writes a model as an HF folder: what `hone convert` does.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/tensor.h"
#include "policy/convert/model_source.h"

namespace hone::policy {

struct ConvertOptions {
  DType dtype = DType::kBFloat16;              // of all weights: kFloat32, kFloat16 or kBFloat16; rounded to nearest even
  int64_t shard_limit_bytes = 5'000'000'000;   // weights larger than this become several files with an index
};

/// Bytes that the weights take as `dtype`.
int64_t WeightBytes(const ModelSource& source, DType dtype);

/// Bytes written so far, bytes in all, and the tensor in hand.
using ConvertProgress = std::function<void(int64_t done_bytes, int64_t total_bytes, absl::string_view tensor)>;

/// The folder appears complete or not at all: everything is written to a neighbour that is renamed at the end. config.json gets
/// the new dtype.
/// kAlreadyExists: `folder` exists and is not an empty folder; kInvalidArgument: another dtype, or a config.json that is not an
/// object; kResourceExhausted: disk full.
absl::Status WriteModel(const ModelSource& source, const std::string& folder, const ConvertOptions& options,
                        const ConvertProgress& progress);

}  // namespace hone::policy

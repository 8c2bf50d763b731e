#pragma once

// What a learner needs of an optimiser, whether the weights lie in one process or are spread over ranks.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hone::trainer {

/// Owns the gradients: backward passes add to them. Not thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual void ZeroGradients() = 0;
  /// sqrt of the sum of squares of all gradients, of all ranks' parts; the same on every rank.
  virtual absl::StatusOr<double> GradientNorm() = 0;
  /// With the gradients times `gradient_scale` (clipping); they may be scaled in place.
  virtual absl::Status Step(double learning_rate, double gradient_scale = 1) = 0;
  virtual int64_t steps() const = 0;
  /// [n] fp32: this process's.
  virtual const at::Tensor& gradients() const = 0;

  /// What a checkpoint keeps besides steps(), by name, this process's part.
  virtual std::vector<std::pair<std::string, at::Tensor>> State() const = 0;
  /// kInvalidArgument: a missing tensor or another shape.
  virtual absl::Status Restore(const std::vector<std::pair<std::string, at::Tensor>>& state, int64_t steps) = 0;
};

}  // namespace hone::trainer

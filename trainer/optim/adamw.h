#pragma once

// AdamW with decoupled weight decay: fp32 moments, one fused pass over each leaf. arXiv:1711.05101, algorithm 2, with
// the decay scaled by the learning rate as torch.optim.AdamW does.
//
// Weights of half precision are rounded copies of fp32 masters that the optimiser owns: steps smaller than half
// precision can tell apart add up. Gradients are fp32 whatever the weights are (policy/model/project.h).

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "policy/model/parameters.h"
#include "trainer/optim/optimizer.h"

namespace hone::trainer {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // on matrices only
  /// Moments and fp32 masters live in the host's memory, pinned where the weights are on a GPU, and the step is the
  /// CPU's: 12 bytes a weight less on the device, for a step that moves 4 bytes a weight down and the weight up.
  bool offload = false;
};

/// Owns the gradients too: one flat buffer that the leaves' .grad are views of. Not thread-safe.
class AdamW : public Optimizer {
 public:
  static constexpr int64_t kAlignment = 16;  // numbers; each leaf's part of a row starts on a multiple of it
  /// What a leaf of so many numbers takes of a row.
  static int64_t Padded(int64_t numbers) { return (numbers + kAlignment - 1) / kAlignment * kAlignment; }

  /// `leaves` are shared with the model; those that require no gradient are left alone. kInvalidArgument: an option out
  /// of range, no leaf that requires a gradient, or one that is neither fp32 nor of half precision.
  static absl::StatusOr<std::unique_ptr<AdamW>> Create(const AdamWOptions& options,
                                                       const std::vector<policy::Leaf>& leaves);

  void ZeroGradients() override;
  /// Summed in fp64 on the CPU.
  absl::StatusOr<double> GradientNorm() override;
  absl::Status Step(double learning_rate, double gradient_scale = 1) override;
  int64_t steps() const override { return steps_; }
  const at::Tensor& gradients() const override { return gradients_; }

  /// "exp_avg", "exp_avg_sq" and, with half-precision weights or offloaded, "master": [flat size] fp32.
  std::vector<std::pair<std::string, at::Tensor>> State() const override;
  absl::Status Restore(const std::vector<std::pair<std::string, at::Tensor>>& state, int64_t steps) override;

 private:
  /// Leaves that share a weight decay.
  struct Group {
    double weight_decay;
    /// masters: values where those are fp32; gradients: the host's copies when offloaded.
    std::vector<at::Tensor> values, masters, gradients, exp_avg, exp_avg_sq, steps;
  };
  void StepGroup(Group& group, double learning_rate, double gradient_scale);
  void RoundMasters();

  explicit AdamW(const AdamWOptions& options) : options_(options) {}

  AdamWOptions options_;
  at::Tensor gradients_, exp_avg_, exp_avg_sq_;
  at::Tensor masters_;  // undefined where every weight is fp32 and its own master
  at::Tensor host_gradients_;  // [flat size] when offloaded
  std::vector<Group> groups_;
  int64_t steps_ = 0;
};

}  // namespace hone::trainer

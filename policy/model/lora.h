#pragma once

// A low-rank adapter of a model (LoRA, arXiv:2106.09685), in and out in the format of HF's PEFT: adapter_config.json
// and adapter_model.safetensors with base_model.model.<layer>.<module>.lora_A.weight [r, in] and lora_B.weight [out,
// r].
//
// The adapter is apart from the model: Decoder::UseLora puts it on and takes it off, so that one set of weights serves
// as policy and as reference.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "policy/model/config.h"
#include "policy/model/parameters.h"
#include "policy/model/project.h"

namespace hone::policy {

struct LoraOptions {
  int64_t rank = 16;  // [1, 1024]
  double alpha = 32;  // the addition is scaled by alpha / rank; > 0
  /// Modules that get one, by HF's names: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj.
  std::vector<std::string> targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
};

/// kInvalidArgument names the field, its value and what is allowed.
absl::Status Validate(const LoraOptions& options);

class Lora {
 public:
  /// A uniform in +-1/sqrt(in) from `seed`, B zero: the adapter starts as no change. Tensors on `tensors`' device in
  /// its dtype.
  static absl::StatusOr<std::unique_ptr<Lora>> Create(const ModelConfig& config, const LoraOptions& options,
                                                      const at::TensorOptions& tensors, uint64_t seed);
  /// An adapter folder of PEFT. kInvalidArgument: another kind of adapter, a setting that changes the mathematics and
  /// is not supported here (names it), a tensor that is missing, unknown or of another shape.
  static absl::StatusOr<std::unique_ptr<Lora>> Load(const ModelConfig& config, const std::string& folder,
                                                    const at::TensorOptions& tensors);
  /// `base` is recorded as base_model_name_or_path.
  absl::Status Save(const std::string& folder, const std::string& base) const;

  const LoraOptions& options() const { return options_; }
  /// Of a fused leaf of Parameters; null: not covered.
  const LowRank* Find(const std::string& leaf) const;
  const std::vector<Leaf>& leaves() const { return leaves_; }
  /// Under PEFT's names: views of what trains.
  const std::vector<NamedTensor>& named() const { return named_; }

  /// Adds the adapter to the model's weights: fp32 sums, rounded once. For export; take the adapter off first.
  void MergeInto(Parameters& parameters) const;

 private:
  explicit Lora(const LoraOptions& options) : options_(options) {}

  LoraOptions options_;
  std::map<std::string, LowRank> by_leaf_;
  std::vector<Leaf> leaves_;
  std::vector<NamedTensor> named_;
};

}  // namespace hone::policy

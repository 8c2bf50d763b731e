#pragma once

// The weights of a model in one flat buffer: what the optimiser steps, checkpoints write and ranks exchange.
//
// Matrices that are multiplied together lie together: query, key and value projections are rows of one leaf, gate and
// up projections of another. The leaves are what autograd sees; the HF names are views into them, so that safetensors
// of HF load and save unchanged.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "policy/model/config.h"

namespace hone::policy {

/// A tensor under its HF name: a view into the flat buffer without autograd history.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// One leaf of autograd.
struct Leaf {
  std::string name;    // the fused name: "model.layers.0.self_attn.qkv_proj.weight"
  at::Tensor value;    // requires grad unless frozen; shares memory with the flat buffer
  bool decay = false;  // weight decay applies (matrices, not norms or biases)
};

/// Leaves that come and go together when weights are spread over ranks: a layer's, or those outside of layers.
struct ParameterUnit {
  std::vector<Leaf> leaves;
  at::Tensor flat;  // [n], the storage of all of them and of nothing else
};

class Parameters {
 public:
  /// Room for every weight of the model, uninitialised, on `options`' device in its dtype. `separate_layers`: each unit has a
  /// storage of its own, in place of one buffer.
  static absl::StatusOr<std::unique_ptr<Parameters>> Create(const ModelConfig& config, const at::TensorOptions& options,
                                                            bool separate_layers = false);

  /// Normal(0, initializer_range) matrices from `seed` (residual outputs scaled by 1/sqrt(2 * layers)), norms at the
  /// identity, biases 0. The same seed gives the same weights on every machine with the same torch.
  void Initialize(uint64_t seed);

  const std::vector<Leaf>& leaves() const { return leaves_; }
  const at::Tensor& leaf(const std::string& name) const;  // must exist
  /// In HF's order. With tied embeddings there is no lm_head.weight.
  const std::vector<NamedTensor>& named() const { return named_; }
  /// [size()] every weight; gaps between leaves are 0. Undefined with separate layers.
  const at::Tensor& flat() const { return flat_; }
  /// The layers in order, then the unit of what is outside of them. Empty unless layers are separate.
  const std::vector<ParameterUnit>& units() const { return units_; }
  int64_t count() const { return count_; }  // weights, without gaps

  /// Copies `tensors` in by name. Every name must exist, every weight be given exactly once, shapes be equal; an
  /// "lm_head.weight" is accepted and ignored when the embeddings are tied. kInvalidArgument names the tensor.
  absl::Status Load(const std::vector<NamedTensor>& tensors);

 private:
  Parameters(const ModelConfig& config) : config_(config) {}

  ModelConfig config_;
  at::Tensor flat_;
  int64_t count_ = 0;
  std::vector<Leaf> leaves_;
  std::vector<ParameterUnit> units_;
  std::vector<NamedTensor> named_;
};

}  // namespace hone::policy

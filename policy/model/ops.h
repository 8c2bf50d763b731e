#pragma once

// The decoder's operators with gradients. On a CPU in fp32 they run the kernels of cpu_kernels.h, whose rows do not
// depend on their neighbours; other devices and dtypes go to project.h.
//
// They throw c10::Error like ATen; Decoder turns that into a Status.

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "policy/model/config.h"

namespace hone::policy {

/// True where the operators run on cpu_kernels.h.
bool UsesCpuKernels(const at::Tensor& tensor);

/// Weight panels for the CPU product, refreshed when the weight's version counter has moved. One per weight; not
/// thread-safe.
class PackedWeight {
 public:
  const at::Tensor& Get(const at::Tensor& weight);

 private:
  at::Tensor panels_;
  const void* data_ = nullptr;
  uint64_t version_ = 0;
};

/// x [rows, in], weight [out, in], bias [out] or undefined -> [rows, out]
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, PackedWeight& packed);

/// x [rows, dim] -> x / sqrt(mean(x^2) + eps) * (weight + offset)
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double offset, double eps);

/// x [rows, width], its first `heads` heads rotated by the rows' angles cos, sin [rows, head_dim / 2]. CPU kernels only.
at::Tensor Rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int64_t heads, int64_t head_dim);

/// gate_up [rows, 2 * width] = [gate | up] -> act(gate) * up [rows, width]. CPU kernels only.
at::Tensor GatedActivation(const at::Tensor& gate_up, GateActivation activation);

/// What attention needs to know besides the tensors.
struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  double scale = 1;
  int64_t window = 0;  // positions a query sees, its own included; 0: all
};

/// Causal attention inside each packed sequence. Half precisions on a GPU have FlashAttention (project.h).
/// qkv [tokens, (heads + 2 * kv_heads) * head_dim], offsets [sequences + 1] int64 on the CPU -> [tokens, heads * head_dim]
at::Tensor PackedAttention(const at::Tensor& qkv, const at::Tensor& offsets, const AttentionShape& shape);

struct LogProbs {
  at::Tensor log_probs;  // [rows] of the targets
  at::Tensor entropy;    // [rows] nats
};

/// log softmax(hidden weight^T / temperature) at the targets, without ever holding [rows, vocab] of more than
/// `chunk_elements` numbers (0: 2^24 on a CPU, 2^28 on a GPU, whose products want more rows): the backward pass computes the chunks' logits again.
/// hidden [rows, dim], weight [vocab, dim], targets [rows] int64. fp32 results whatever the dtype of hidden.
LogProbs TokenLogProbs(const at::Tensor& hidden, const at::Tensor& weight, PackedWeight& packed,
                       const at::Tensor& targets, double temperature, int64_t chunk_elements = 0);

}  // namespace hone::policy

#pragma once

// The decoder's differentiable operators for any device and dtype besides the CPU's fp32, which has its own in ops.cc.
// They keep little for the backward pass: what can be computed again from a layer's inputs is.
//
// Weights of half precision have gradients in fp32. Where a weight carries a gradient buffer (`.grad`, which AdamW
// gives it), the backward pass adds to it directly, in fp32, inside the matrix product; autograd then sees no gradient
// for that weight. Without a buffer autograd accumulates as usual, in the weight's dtype.

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "policy/model/config.h"
#include "policy/model/ops.h"
#include "policy/model/rows.h"

namespace hone::policy {

/// What stands before a linear layer. Computed again in the backward pass.
struct Prologue {
  enum class Kind { kNone, kRmsNorm, kGated };
  Kind kind = Kind::kNone;
  at::Tensor norm;  // kRmsNorm: [in]
  double offset = 0, eps = 0;
  GateActivation activation = GateActivation::kSilu;  // kGated: x [rows, 2 * in]
};

/// A low-rank addition to a linear layer (LoRA, arXiv:2106.09685): y += scale * (h down^T) up^T, for each part on its
/// own rows of the weight and its own rows of `down`. The tensors' `.grad` are made on first use and added to in place.
struct LowRank {
  struct Part {
    int64_t begin, rows;  // rows of the weight
    at::Tensor up;        // B [rows, rank]
  };
  at::Tensor down;  // A [parts * rank, in]
  std::vector<Part> parts;
  double scale = 1;
  int64_t rank() const { return down.size(0) / static_cast<int64_t>(parts.size()); }
};

/// prologue(x) weight^T + bias + low_rank -> [rows, out]. bias may be undefined, low_rank null.
at::Tensor Project(const at::Tensor& x, const Prologue& prologue, const at::Tensor& weight, const at::Tensor& bias,
                   const LowRank* low_rank);

/// low_rank's addition alone, [rows, out] of h [rows, in], with plain autograd: for the CPU's fp32.
at::Tensor LowRankRows(const at::Tensor& h, const LowRank& low_rank, int64_t out);

at::Tensor NormRows(const at::Tensor& x, const at::Tensor& weight, double offset, double eps);

at::Tensor NormRotate(const at::Tensor& qkv, const rows::HeadNorms& norms, const at::Tensor& cos, const at::Tensor& sin,
                      const AttentionShape& shape);

/// weight [vocab, dim], ids [tokens] -> [tokens, dim]
at::Tensor Embed(const at::Tensor& weight, const at::Tensor& ids);

/// Causal attention inside each packed sequence on a GPU in half precision (ATen's flash attention).
/// offsets [sequences + 1] int32 on qkv's device, max_length of a sequence.
at::Tensor FlashAttention(const at::Tensor& qkv, const at::Tensor& offsets, int64_t max_length,
                          const AttentionShape& shape);

/// The same for sequences of one length, without a window: cuDNN's attention, which is faster but takes dense batches
/// only.
at::Tensor DenseAttention(const at::Tensor& qkv, int64_t length, const AttentionShape& shape);

/// As TokenLogProbs in ops.h. Logits are fp32 sums of the half-precision product, never rounded.
LogProbs ChunkedLogProbs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                         double temperature, int64_t chunk_elements);

}  // namespace hone::policy

#pragma once

// What the decoder does to rows besides matrix products, forward and backward, without autograd: project.cc makes
// differentiable operators of them. In half precision on a GPU they are the kernels of cuda/row_kernels.h, else ATen's operators.
//
// Half precisions compute in fp32 and round their results; fp64 stays fp64. They throw c10::Error like ATen.

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "policy/model/config.h"
#include "policy/model/ops.h"

namespace hone::policy::rows {

struct Normed {
  at::Tensor y;        // as x
  at::Tensor inverse;  // [rows] fp32 (fp64): 1 / sqrt(mean(x^2) + eps)
};
/// x [rows, dim] -> x * inverse * (weight + offset)
Normed RmsNorm(const at::Tensor& x, const at::Tensor& weight, double offset, double eps);
struct NormGradients {
  at::Tensor dx;       // as x
  at::Tensor dweight;  // [dim] fp32 (fp64); undefined unless wanted
};
NormGradients RmsNormBackward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& inverse,
                              const at::Tensor& dy, double offset, bool want_dweight);

/// Query and key heads normalised (norms may be undefined), then rotated; values pass.
/// qkv [tokens, (heads + 2 * kv_heads) * head_dim], cos, sin [tokens, head_dim / 2]
struct HeadNorms {
  at::Tensor query, key;  // [head_dim]
  double offset = 0, eps = 0;
};
at::Tensor NormRotate(const at::Tensor& qkv, const HeadNorms& norms, const at::Tensor& cos, const at::Tensor& sin,
                      const AttentionShape& shape);
struct HeadGradients {
  at::Tensor dqkv, dquery_norm, dkey_norm;  // the norms' [head_dim] fp32 (fp64); undefined without norms
};
HeadGradients NormRotateBackward(const at::Tensor& qkv, const HeadNorms& norms, const at::Tensor& cos,
                                 const at::Tensor& sin, const at::Tensor& dy, const AttentionShape& shape);

/// gate_up [rows, 2 * width] = [gate | up] -> act(gate) * up
at::Tensor Gated(const at::Tensor& gate_up, GateActivation activation);
struct GatedGradients {
  at::Tensor dgate_up, y;  // y: the forward result again
};
GatedGradients GatedBackward(const at::Tensor& gate_up, const at::Tensor& dy, GateActivation activation);

/// a [m, k] b [k, n] -> [m, n] in fp32 without rounding on the way (fp64 of fp64).
at::Tensor WideProduct(const at::Tensor& a, const at::Tensor& b);
/// to [m, n] += a [m, k] b [k, n]; to is fp32 or of a's dtype.
void AddProduct(at::Tensor& to, const at::Tensor& a, const at::Tensor& b);

struct TokenScores {
  at::Tensor log_probs, entropy, log_sums;  // [rows]
};
/// logits [rows, vocab] fp32 or fp64, targets [rows] int64
TokenScores LogProbs(const at::Tensor& logits, const at::Tensor& targets, double temperature);
/// dlogits [rows, vocab] in `dtype`
at::Tensor LogProbsBackward(const at::Tensor& logits, const at::Tensor& targets, const TokenScores& scores,
                            const at::Tensor& dlog_probs, const at::Tensor& dentropy, double temperature,
                            at::ScalarType dtype);

}  // namespace hone::policy::rows

#pragma once

// The learner's operators that work on rows, as CUDA kernels in half precision: what would otherwise be many passes
// over memory. They round where the composed operators of ops.cc round, so that both give the same numbers up to the
// order of sums.
//
// Plain pointers and no CUDA or torch headers, so that both sides may include this. Pointers are device memory, of
// the HalfType named unless typed, 16-byte aligned; rows are contiguous. Launches are asynchronous on `stream` (a
// cudaStream_t); the result is a cudaError_t, 0 for success. Sums run in fixed orders: equal inputs give equal bits.

#include <cstdint>

namespace hone::policy::cuda {

enum class HalfType { kBf16, kFp16 };

/// x [rows, dim] -> y = x * inverse * (weight + offset), inverse [rows]. dim a multiple of 8.
int RmsNorm(HalfType type, const void* x, const void* weight, float offset, float eps, int64_t rows, int64_t dim,
            void* y, float* inverse, void* stream);
/// Blocks of partial sums that RmsNormBackward writes: dweight_partial [RmsNormPartials(rows), dim] fp32.
int64_t RmsNormPartials(int64_t rows);
/// dweight_partial may be null: the weight is frozen. dim at most 16,384.
int RmsNormBackward(HalfType type, const void* x, const void* weight, const float* inverse, const void* dy,
                    float offset, int64_t rows, int64_t dim, void* dx, float* dweight_partial, void* stream);

/// What NormRotate does to a row of [query heads | key heads | value heads].
struct RotateShape {
  int64_t tokens, heads, kv_heads, head_dim;  // head_dim a multiple of 4, at most 256
  float offset, eps;                          // of the normalisation
};
/// y = rotate(norm(qkv)); values are copied. cos, sin [tokens, head_dim / 2] fp32. query_norm, key_norm [head_dim] or
/// both null: no normalisation.
int NormRotate(HalfType type, const void* qkv, const void* query_norm, const void* key_norm, const float* cos,
               const float* sin, const RotateShape& shape, void* y, void* stream);
int64_t NormRotatePartials(int64_t tokens);
/// dqkv from dy; qkv is what went in (unused without norms). dnorm_partial [NormRotatePartials(tokens), 2, head_dim]
/// fp32 (query, key), or null.
int NormRotateBackward(HalfType type, const void* qkv, const void* query_norm, const void* key_norm, const float* cos,
                       const float* sin, const void* dy, const RotateShape& shape, void* dqkv, float* dnorm_partial,
                       void* stream);

/// gate_up [rows, 2 * width] -> act(gate) * up [rows, width]; gelu: the tanh form, else SiLU. width a multiple of 8.
int Gated(HalfType type, const void* gate_up, bool gelu, int64_t rows, int64_t width, void* y, void* stream);
/// dgate_up from dy; y, unless null, takes the forward result again.
int GatedBackward(HalfType type, const void* gate_up, const void* dy, bool gelu, int64_t rows, int64_t width,
                  void* dgate_up, void* y, void* stream);

/// log softmax(logits * inverse_temperature) at the targets, its entropy and log sum exp. logits [rows, vocab] fp32.
int LogProbRows(const float* logits, const int64_t* targets, float inverse_temperature, int64_t rows, int64_t vocab,
                float* log_probs, float* entropy, float* log_sums, void* stream);
/// dlogits [rows, vocab] of sum(dlog_probs * log_probs + dentropy * entropy).
int LogProbRowsBackward(HalfType type, const float* logits, const int64_t* targets, const float* log_sums,
                        const float* entropy, const float* dlog_probs, const float* dentropy, float inverse_temperature,
                        int64_t rows, int64_t vocab, void* dlogits, void* stream);

/// One AdamW step on `count` numbers, in one pass: moments, fp32 master, and its rounded copy.
struct AdamWArgs {
  const float* gradient;
  float *exp_avg, *exp_avg_sq, *master;
  void* weight;   // null: the master is the weight
  HalfType type;  // of weight
  int64_t count;
  float gradient_scale;  // of clipping
  float rate, beta1, beta2, epsilon, weight_decay;
  float correction1, correction2_root;  // 1 - beta1^t, sqrt(1 - beta2^t)
};
int AdamW(const AdamWArgs& args, void* stream);

/// The driver's words for a result.
const char* ErrorText(int error);

}  // namespace hone::policy::cuda

#pragma once

// Linear layers of one, two or four rows: y = x W^T read at the memory's speed. What stands before and after the product in a
// decoder layer (normalisation, bias, residual, gate) happens in the same kernel, because at this size starting a kernel
// costs as much as its work.
//
// A row's result has the same bits whatever the other rows are.

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

namespace hone::rollout::cuda {

inline constexpr int kMaxGemvRows = 4;

enum class GemvOutput {
  kStore,     // y = acc + bias
  kAdd,       // y = y + acc
  kGated,     // y = act(acc of row n) * (acc of row n + out): weight holds [gate | up]
  kLogits,    // y in fp32
};

struct GemvArgs {
  const __nv_bfloat16* x = nullptr;       // [rows, in]
  const __nv_bfloat16* norm = nullptr;    // [in]: x is normalised first; null: it is not
  const __nv_bfloat16* weight = nullptr;  // [out or 2 * out, in]
  const __nv_bfloat16* bias = nullptr;    // [out]
  void* y = nullptr;                      // [rows, out] bf16, kLogits: fp32
  int rows = 1;                           // 1, 2 or 4
  int in = 0;                             // a multiple of 8
  int out = 0;
  float norm_offset = 0;
  float norm_eps = 0;
  bool gelu = false;
  GemvOutput output = GemvOutput::kStore;
  int processors = 132;                   // of the device
  int resident = 3;                       // blocks a processor runs at once, at most 3 (2 for several rows)
  int split = 1;                          // warps that share a weight row; Gemv sets it
};

/// Pointers are aligned to 16 bytes. cudaErrorInvalidValue: another number of rows.
cudaError_t Gemv(GemvArgs args, cudaStream_t stream);

}  // namespace hone::rollout::cuda

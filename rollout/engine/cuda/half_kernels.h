#pragma once

// The kernels that calculate with the sixteen bits of weights and activations, once for bf16 and once for fp16 (device.cuh says how
// both come from one source). fp16 has eight times finer steps and reaches to 65504 only.

#include "rollout/engine/cuda/gemv.h"
#include "rollout/engine/cuda/paged_attention.h"
#include "rollout/engine/cuda/rows.h"

namespace hone::rollout::cuda {
namespace fp16 {

cudaError_t Embed(const EmbedArgs& args, cudaStream_t stream);
cudaError_t AddNorm(const AddNormArgs& args, cudaStream_t stream);
cudaError_t Gate(const GateArgs& args, cudaStream_t stream);
cudaError_t RotateToPages(const RotateToPagesArgs& args, cudaStream_t stream);
cudaError_t PagedAttention(const PagedAttentionArgs& args, cudaStream_t stream);
cudaError_t Gemv(GemvArgs args, cudaStream_t stream);

}  // namespace fp16

/// Arguments' pointers to __nv_bfloat16 are to sixteen bits of the table's kind.
struct HalfKernels {
  cudaError_t (*embed)(const EmbedArgs&, cudaStream_t);
  cudaError_t (*add_norm)(const AddNormArgs&, cudaStream_t);
  cudaError_t (*gate)(const GateArgs&, cudaStream_t);
  cudaError_t (*rotate_to_pages)(const RotateToPagesArgs&, cudaStream_t);
  cudaError_t (*paged_attention)(const PagedAttentionArgs&, cudaStream_t);
  cudaError_t (*gemv)(GemvArgs, cudaStream_t);
};
inline constexpr HalfKernels kBf16Kernels = {Embed, AddNorm, Gate, RotateToPages, PagedAttention, Gemv};
inline constexpr HalfKernels kFp16Kernels = {fp16::Embed,         fp16::AddNorm,        fp16::Gate,
                                             fp16::RotateToPages, fp16::PagedAttention, fp16::Gemv};

}  // namespace hone::rollout::cuda

#pragma once

// The row-wise steps of a decoder layer on a GPU, with the rounding of the plain bf16 model: embedding, residual plus
// normalisation, gate, rotation with the write into cache pages, and moving pages.

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace hone::rollout::cuda {

/// Keys and values of one layer: [pages][2][kv_heads][kPagePositions][head_dim]; keys first.
inline constexpr int kPagePositions = 16;
struct LayerPages {
  __nv_bfloat16* data = nullptr;
  int kv_heads = 0;
  int head_dim = 0;
};

/// Rotation and query/key normalisation, as decode and prefill do it. `angles` [positions][head_dim / 2][2]: cos, sin.
struct RotateArgs {
  const __nv_bfloat16* angles = nullptr;
  const __nv_bfloat16* query_norm = nullptr;  // [head_dim]; null: none
  const __nv_bfloat16* key_norm = nullptr;
  float norm_offset = 0;
  float norm_eps = 0;
};

/// The result of sampling one row.
struct Draw {
  int32_t id = -1;  // -1: the row's logits are not finite
  float log_prob = 0;
};

struct EmbedArgs {
  const __nv_bfloat16* table = nullptr;  // [vocab, width]
  const int32_t* sources = nullptr;      // [rows]: >= 0: the id; < 0: the id drawn by row -1 - source of the last step
  const Draw* draws = nullptr;           // of the last step
  __nv_bfloat16* out = nullptr;          // [rows, width]
  int rows = 0;
  int width = 0;  // a multiple of 8
  float scale = 1;
};
cudaError_t Embed(const EmbedArgs& args, cudaStream_t stream);

/// x += after_norm(delta); out = norm(x).
struct AddNormArgs {
  __nv_bfloat16* x = nullptr;                  // [rows, width], updated when delta is given
  const __nv_bfloat16* delta = nullptr;        // [rows, width]; null: nothing is added
  const __nv_bfloat16* delta_norm = nullptr;   // [width]; null: delta is added as it is
  const __nv_bfloat16* norm = nullptr;         // [width]; null: only the addition
  __nv_bfloat16* out = nullptr;                // [rows, width]; not x, not delta
  int rows = 0;
  int width = 0;  // a multiple of 8, at most 16384
  float norm_offset = 0;
  float norm_eps = 0;
};
cudaError_t AddNorm(const AddNormArgs& args, cudaStream_t stream);

/// gate_up [rows, 2 * width] -> out [rows, width]
struct GateArgs {
  const __nv_bfloat16* gate_up = nullptr;
  __nv_bfloat16* out = nullptr;
  int rows = 0;
  int width = 0;  // a multiple of 8
  bool gelu = false;
};
cudaError_t Gate(const GateArgs& args, cudaStream_t stream);

/// Prefill: queries and keys of qkv are normalised and rotated in place; keys and values go to their pages.
struct RotateToPagesArgs {
  __nv_bfloat16* qkv = nullptr;        // [rows, (heads + 2 * kv_heads) * head_dim]
  const int32_t* positions = nullptr;  // [rows]
  const int32_t* slots = nullptr;      // [rows] page * kPagePositions + position within the page; -1: not written
  LayerPages pages;
  RotateArgs rotate;
  int rows = 0;
  int heads = 0;
};
cudaError_t RotateToPages(const RotateToPagesArgs& args, cudaStream_t stream);

/// Keys and values out of pages as rows: keys, values [count, kv_heads, head_dim].
struct GatherArgs {
  LayerPages pages;
  const int32_t* slots = nullptr;  // [count]
  __nv_bfloat16* keys = nullptr;
  __nv_bfloat16* values = nullptr;
  int count = 0;
};
cudaError_t GatherFromPages(const GatherArgs& args, cudaStream_t stream);

/// Copies whole pages in every layer. data [layers][pages][page_bytes]
struct CopyPagesArgs {
  void* data = nullptr;
  int64_t layer_bytes = 0;
  int64_t page_bytes = 0;  // a multiple of 16
  const int32_t* from_to = nullptr;  // [count][2]
  int layers = 0;
  int count = 0;
};
cudaError_t CopyPages(const CopyPagesArgs& args, cudaStream_t stream);

}  // namespace hone::rollout::cuda

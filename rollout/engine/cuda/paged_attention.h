#pragma once

// Attention of one new token a sequence over its cache pages (decode), on tensor cores: grouped queries, long sequences
// cut into splits that run side by side (flash decoding, arXiv:2311.01282) and are joined by the block that ends last.
// The same kernel normalises and rotates the new query and key and writes the new key and value into their page.
//
// Splits are cut at fixed positions, so a sequence's result does not depend on the rest of the batch.

#include "rollout/engine/cuda/rows.h"

namespace hone::rollout::cuda {

inline constexpr int kMaxSplits = 256;

struct PagedAttentionArgs {
  const __nv_bfloat16* qkv = nullptr;  // [rows, (heads + 2 * kv_heads) * head_dim] as the projection left it
  __nv_bfloat16* out = nullptr;        // [rows, heads * head_dim]
  const int32_t* positions = nullptr;  // [rows] of the new token; -1: the row is skipped
  const int32_t* tables = nullptr;     // [rows, table_stride] pages of each sequence
  LayerPages pages;                    // head_dim 64, 128 or 256
  RotateArgs rotate;
  float scale = 1;
  int window = 0;            // positions seen, the own one included; 0: all
  int rows = 0;
  int heads = 0;
  int table_stride = 0;
  int split_positions = 0;   // a multiple of kPagePositions
  int max_splits = 1;        // positions[r] < max_splits * split_positions for every row; at most kMaxSplits
  int warps = 4;             // of a block: 3, 4 or 8 (head_dim 256: as 4)
  bool prepared = false;     // queries are rotated and the new keys and values are in their pages already
  float* partial = nullptr;  // PagedAttentionScratch numbers
  int32_t* arrived = nullptr;  // [rows * heads], zero before the first call; left zero
};

/// Numbers of `partial`.
int64_t PagedAttentionScratch(int rows, int heads, int head_dim, int max_splits);

cudaError_t PagedAttention(const PagedAttentionArgs& args, cudaStream_t stream);

}  // namespace hone::rollout::cuda

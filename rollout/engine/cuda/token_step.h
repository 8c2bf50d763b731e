#pragma once

// One new token of one sequence through the whole decoder as one kernel, so that memory never waits for the arithmetic. What
// has been measured of it is in docs/decisions.md, "On a GPU a few rows go through kernels of our own".
//
// Every processor runs one block that owns a run of rows of every matrix. A warp of it does nothing but copy that block's
// weights, of all layers one after the other, through a ring in shared memory; they do not depend on anything, so memory
// stays busy while the other warps wait for each other between two products. (The idea: Spector et al., "Look Ma, No
// Bubbles!", 2025, for a Llama of 1B.) Results go from block to block as words that say themselves whether they are there
// (as NCCL's LL protocol does): a counter with its fences costs more than twice as much.
//
// Numbers round where the kernels for several rows and the plain decoder round.

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "rollout/engine/cuda/rows.h"

namespace hone::rollout::cuda {

/// Weights of a layer, each [out, in].
struct TokenLayer {
  const __nv_bfloat16 *input_norm = nullptr, *qkv = nullptr, *qkv_bias = nullptr;  // no bias: null
  const __nv_bfloat16 *query_norm = nullptr, *key_norm = nullptr;                  // none: null
  const __nv_bfloat16 *output = nullptr, *mlp_norm = nullptr, *gate_up = nullptr, *down = nullptr;
};

struct TokenShape {
  int layers = 0, hidden = 0, intermediate = 0, vocab = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;
};

/// Splits of a sequence that blocks attend to side by side, at most.
inline constexpr int kMaxTokenSplits = 16;

/// A block's clock is read, a layer: when it has the input of qkv, when it has that product, after attention, when it has
/// the attended values, o, the input of gate and up, gate and up, the gated values, down. In the end: the input of the logits,
/// the logits.
inline constexpr int kTokenStamps = 9;

struct TokenStepArgs {
  TokenShape shape;
  const TokenLayer* layers = nullptr;        // [shape.layers] on the device
  const __nv_bfloat16* embedding = nullptr;  // [vocab, hidden]
  const __nv_bfloat16* final_norm = nullptr;
  const __nv_bfloat16* head = nullptr;       // [vocab, hidden]
  const int32_t* sources = nullptr;          // as EmbedArgs, of one row
  const Draw* draws = nullptr;
  const int32_t* positions = nullptr;        // of one row; -1: nothing is done
  const int32_t* tables = nullptr;
  __nv_bfloat16* pages = nullptr;            // of layer 0, see LayerPages
  int64_t layer_stride = 0;                  // numbers from one layer's pages to the next one's
  const __nv_bfloat16* angles = nullptr;     // see RotateArgs
  float norm_offset = 0, norm_eps = 0, scale = 1;
  bool gelu = false;
  uint32_t* words = nullptr;                 // [TokenStepWords], all bits set before the first call, then the kernel's own
  float* logits = nullptr;                   // [vocab]
  int32_t* steps = nullptr;                  // [2], zero before the first call, then the kernel's own
  long long* times = nullptr;                // null, or [processors][kTokenStamps * layers + 2]: each block's clock
  int processors = 0, shared_bytes = 0;      // of the device: shared memory that a block may ask for
};

int64_t TokenStepWords(const TokenShape& shape);

/// Whether the kernel serves a model of this shape on such a device.
bool TokenStepServes(const TokenShape& shape, int processors, int shared_bytes);

/// Pointers are aligned to 16 bytes. cudaErrorInvalidValue: not served. A block that waits in vain for seconds ends the
/// kernel with an error instead of hanging.
cudaError_t TokenStep(TokenStepArgs args, cudaStream_t stream);

}  // namespace hone::rollout::cuda

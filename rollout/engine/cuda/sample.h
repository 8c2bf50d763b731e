#pragma once

// One token out of each row of logits, on the device. The same rules as token_sampler.h: temperature, then top-k, then
// top-p, then min-p; ids ascending along the cumulative distribution; a draw is decided by (seed, stream, index) alone.
//
// All sums run in a fixed order or in integers, so that a row's draw has the same bits in every batch. Filtered masses
// are kept in units of 2^-36 of the best token's; tokens more than e^-32 below it count as equals.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "rollout/engine/cuda/rows.h"

namespace hone::rollout::cuda {

struct SampleRow {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t index = 0;      // of the token in its sample
  float temperature = 1;   // 0: the most likely token, the lowest id of equals
  float top_p = 1;
  float min_p = 0;
  int32_t top_k = 0;       // 0: off
  int32_t active = 1;      // 0: the row is skipped
  int32_t padding = 0;
};

inline constexpr int kSampleChunk = 4096;

/// Of kSampleChunk logits.
struct ChunkStats {
  float best = 0;
  float sum = 0;    // of exp((logit - best) / temperature)
  int32_t best_id = 0;
};

struct SampleArgs {
  const float* logits = nullptr;     // [rows, vocab]
  const SampleRow* rows = nullptr;   // [count]
  ChunkStats* stats = nullptr;       // [count, chunks], chunks = ceil(vocab / kSampleChunk)
  Draw* draws = nullptr;             // [count]
  const int32_t* logit_rows = nullptr;  // [count] row of logits that each draw takes; null: its own
  int count = 0;
  int vocab = 0;                     // at most 520,192
};
cudaError_t Sample(const SampleArgs& args, cudaStream_t stream);

}  // namespace hone::rollout::cuda

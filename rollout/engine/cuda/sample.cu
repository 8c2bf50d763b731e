#include <cooperative_groups.h>

#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/sample.h"

namespace hone::rollout::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kStatsThreads = 256;
constexpr int kMaxVocab = 127 * kSampleChunk;
constexpr int kMaxChunks = kMaxVocab / kSampleChunk;
constexpr int kBins = 256;
constexpr int kMaxTeam = 8;

// The n-th number of a stream, as rollout/engine/philox.h.
__device__ double Uniform(uint64_t seed, uint64_t stream, uint64_t n) {
  uint32_t c[4] = {static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32), static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  uint32_t k[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c1 ^ k[0];
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c3 ^ k[1];
    c[3] = static_cast<uint32_t>(a);
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  const uint64_t mantissa = (static_cast<uint64_t>(c[0]) << 32 | c[1]) >> 11;
  return (static_cast<double>(mantissa) + 0.5) * 0x1.0p-53;
}

__device__ __forceinline__ float Inverse(const SampleRow& row) { return row.temperature == 0 ? 1.0f : 1.0f / row.temperature; }

__device__ const float* LogitsOf(const SampleArgs& a, int row) {
  return a.logits + static_cast<int64_t>(a.logit_rows == nullptr ? row : a.logit_rows[row]) * a.vocab;
}

__global__ void __launch_bounds__(kStatsThreads) StatsKernel(const SampleArgs a) {
  __shared__ float scratch[kStatsThreads / 32];
  __shared__ float bests[kStatsThreads / 32];
  __shared__ int ids[kStatsThreads / 32];
  constexpr int kEach = kSampleChunk / kStatsThreads;
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int row = blockIdx.y, chunk = blockIdx.x;
  const SampleRow sampling = a.rows[row];
  if (sampling.active == 0) return;
  const float* logits = LogitsOf(a, row);
  float z[kEach];
  float best = -INFINITY;
  int best_id = a.vocab;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int id = chunk * kSampleChunk + i * kStatsThreads + threadIdx.x;
    z[i] = id < a.vocab ? logits[id] : -INFINITY;
    if (z[i] > best) {
      best = z[i];
      best_id = id;
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, best, step);
    const int other_id = __shfl_xor_sync(0xffffffffu, best_id, step);
    if (other > best || (other == best && other_id < best_id)) {
      best = other;
      best_id = other_id;
    }
  }
  if (threadIdx.x % 32 == 0) {
    bests[threadIdx.x / 32] = best;
    ids[threadIdx.x / 32] = best_id;
  }
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kStatsThreads / 32; ++w) {
    if (bests[w] > best || (bests[w] == best && ids[w] < best_id)) {
      best = bests[w];
      best_id = ids[w];
    }
  }
  const float inverse = Inverse(sampling);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int id = chunk * kSampleChunk + i * kStatsThreads + threadIdx.x;
    // A chunk of nothing but -infinity has sum 0; a NaN makes the sum NaN.
    if (id < a.vocab) sum += z[i] == -INFINITY ? 0.0f : expf((z[i] - best) * inverse);
  }
  sum = BlockSum<kStatsThreads / 32>(sum, scratch);
  if (threadIdx.x == 0) a.stats[static_cast<int64_t>(row) * gridDim.x + chunk] = {best, sum, best_id};
}

// What every thread of a row's block knows.
struct RowState {
  float best;
  int best_id;
  double total;  // of exp((logit - best) / temperature)
};

// Sums over the block in a fixed order: `value` of each thread -> the sum of the threads before it, and of all.
__device__ double BlockPrefix(double value, double* warp_sums, double& all) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  double inclusive = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const double other = __shfl_up_sync(0xffffffffu, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  double before = 0;
  all = 0;
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) before = all;
    all += warp_sums[w];
  }
  __syncthreads();
  return before + inclusive - value;
}

// Without filters: the chunk that holds the target, then the token within it.
__device__ void DrawUnfiltered(const SampleArgs& a, int row, const RowState& state, const double* chunk_mass, int chunks,
                               double uniform, float inverse, double* warp_sums, int* winner) {
  const float* logits = LogitsOf(a, row);
  const double target = uniform * state.total;
  int chunk = 0;
  double before = 0;
  for (; chunk + 1 < chunks; ++chunk) {
    if (before + chunk_mass[chunk] > target) break;
    before += chunk_mass[chunk];
  }
  bool past_end = false;  // rounding ran past the last token that can be drawn
  while (chunk > 0 && chunk_mass[chunk] <= 0) {
    --chunk;
    past_end = true;
  }
  constexpr int kEach = kSampleChunk / kThreads;
  double own[kEach], mass = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int id = chunk * kSampleChunk + threadIdx.x * kEach + i;
    own[i] = id < a.vocab ? static_cast<double>(expf((logits[id] - state.best) * inverse)) : 0;
    mass += own[i];
  }
  double all;
  double sum = BlockPrefix(mass, warp_sums, all);
  if (threadIdx.x == 0) winner[0] = a.vocab;
  if (threadIdx.x == 0) winner[1] = -1;
  __syncthreads();
  const double wanted = past_end ? all : target - before;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int id = chunk * kSampleChunk + threadIdx.x * kEach + i;
    sum += own[i];
    if (own[i] > 0) {
      if (sum > wanted) atomicMin(&winner[0], id);
      atomicMax(&winner[1], id);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const int id = winner[0] < a.vocab ? winner[0] : winner[1];
    Draw draw;
    draw.id = id;
    if (id >= 0) draw.log_prob = (logits[id] - state.best) * inverse - static_cast<float>(log(state.total));
    a.draws[row] = draw;
  }
}

// How far a token is below the best, in units of 2^-27; equals share one value.
__device__ __forceinline__ uint32_t Depth(float logit, float best, float inverse) {
  const float below = (best - logit) * inverse;
  return below < 32.0f ? static_cast<uint32_t>(below * 134217728.0f) : 0xffffffffu;
}
// Of the best token's mass, in units of 2^-36.
__device__ __forceinline__ unsigned long long Mass(uint32_t depth) {
  return depth == 0xffffffffu ? 0ull : __float2ull_rn(exp2f(__uint2float_rn(depth) * (-0x1.0p-27f * 1.44269504f)) * 0x1.0p36f);
}

constexpr int kListed = 4096;  // tokens of one coarse bin that are looked at further without reading all logits again

// Shared memory of a row with filters.
struct FilterScratch {
  // Sums of each warp's masses in two words, because shared memory adds only 32 bits by itself: a warp sees fewer than
  // 2^14 tokens (kMaxVocab), and masses have 18 low and 18 high bits.
  uint32_t low[kWarps][kBins], high[kWarps][kBins];
  unsigned long long own_bins[2][kBins];  // that the team's other blocks read, in turn
  unsigned long long bins[kBins];         // of the team
  uint32_t listed[kListed];
  unsigned long long chosen[2];
  unsigned long long sums[kWarps], own_sum[2];
  int count;
};

// The blocks of one row, a cluster: each takes a run of ids. What they tell each other lies in two places in turn, so that
// one meeting a round is enough.
class Team {
 public:
  __device__ explicit Team(FilterScratch& f) : f_(f), cluster_(cooperative_groups::this_cluster()) {}
  __device__ int rank() const { return static_cast<int>(cluster_.block_rank()); }
  __device__ int size() const { return static_cast<int>(cluster_.num_blocks()); }
  __device__ void Meet() { cluster_.sync(); }

  // f.bins: the sums of all blocks' bins.
  __device__ void JoinBins(unsigned long long own) {
    if (threadIdx.x < kBins) f_.own_bins[turn_][threadIdx.x] = own;
    Meet();
    if (threadIdx.x < kBins) {
      unsigned long long sum = 0;
      for (int r = 0; r < size(); ++r) sum += *cluster_.map_shared_rank(&f_.own_bins[turn_][threadIdx.x], r);
      f_.bins[threadIdx.x] = sum;
    }
    turn_ ^= 1;
    __syncthreads();
  }
  // The sum of x over the warps before this one, of this block and the blocks before it, and over all. x is one number a
  // warp. Integers, so that the order does not matter.
  struct Sums {
    unsigned long long before = 0, all = 0;
  };
  __device__ Sums Add(unsigned long long x) {
    const int warp = threadIdx.x / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) f_.sums[warp] = x;
    __syncthreads();
    Sums sums;
    unsigned long long own = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) sums.before += f_.sums[w];
      own += f_.sums[w];
    }
    if (threadIdx.x == 0) f_.own_sum[turn_] = own;
    Meet();
    for (int r = 0; r < size(); ++r) {
      const unsigned long long other = *cluster_.map_shared_rank(&f_.own_sum[turn_], r);
      if (r < rank()) sums.before += other;
      sums.all += other;
    }
    turn_ ^= 1;
    return sums;
  }

 private:
  FilterScratch& f_;
  cooperative_groups::cluster_group cluster_;
  int turn_ = 0;
};

// Ids that a block looks at.
struct Run {
  int from, to;
};

struct Cut {
  uint32_t depth;             // tokens above it are kept
  unsigned long long before;  // counted above it
  unsigned long long at;      // counted at it
};

// The depth at which the running amount, most likely first, reaches `wanted` (> 0): counts or masses. Found byte by byte
// of the depth; after the first only the tokens of its bin matter.
__device__ Cut FindCut(const float* logits, Run run, const RowState& state, float inverse, unsigned long long wanted, bool masses,
                       FilterScratch& f, Team& team) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t prefix = 0;
  unsigned long long before = 0, at = 0;
  bool listed = false;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < kWarps * kBins; i += kThreads) f.low[i / kBins][i % kBins] = f.high[i / kBins][i % kBins] = 0;
    if (shift == 24 && threadIdx.x == 0) f.count = 0;
    __syncthreads();
    const auto count = [&](uint32_t depth) {
      if (shift < 24 && (depth >> (shift + 8)) != prefix) return;
      if (shift == 16 && !listed) {
        const int place = atomicAdd(&f.count, 1);
        if (place < kListed) f.listed[place] = depth;
      }
      const unsigned long long amount = masses ? Mass(depth) : 1ull;
      atomicAdd(&f.low[warp][depth >> shift & 255], static_cast<uint32_t>(amount & 0x3ffff));
      if (amount >> 18 != 0) atomicAdd(&f.high[warp][depth >> shift & 255], static_cast<uint32_t>(amount >> 18));
    };
    if (listed) {
      for (int i = threadIdx.x; i < f.count; i += kThreads) count(f.listed[i]);
    } else {
#pragma unroll 4
      for (int id = run.from + threadIdx.x; id < run.to; id += kThreads) count(Depth(logits[id], state.best, inverse));
    }
    __syncthreads();
    if (shift == 16) listed = f.count <= kListed;
    unsigned long long own_bin = 0;
    if (threadIdx.x < kBins) {
      for (int w = 0; w < kWarps; ++w) own_bin += f.low[w][threadIdx.x] + (static_cast<unsigned long long>(f.high[w][threadIdx.x]) << 18);
    }
    team.JoinBins(own_bin);
    if (warp == 0) {  // 8 bins a lane
      unsigned long long own = 0;
      for (int b = 0; b < 8; ++b) own += f.bins[lane * 8 + b];
      unsigned long long inclusive = own;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const unsigned long long other = __shfl_up_sync(0xffffffffu, inclusive, step);
        if (lane >= step) inclusive += other;
      }
      const unsigned reached = __ballot_sync(0xffffffffu, before + inclusive >= wanted);
      const int chosen_lane = reached == 0 ? 31 : __ffs(reached) - 1;
      if (lane == chosen_lane) {
        unsigned long long running = before + inclusive - own;
        int bin = lane * 8;
        while (bin < lane * 8 + 7 && running + f.bins[bin] < wanted) running += f.bins[bin++];
        f.chosen[0] = static_cast<unsigned long long>(bin);
        f.chosen[1] = running;
      }
    }
    __syncthreads();
    at = f.bins[f.chosen[0]];
    prefix = prefix << 8 | static_cast<uint32_t>(f.chosen[0]);
    before = f.chosen[1];
    __syncthreads();
  }
  return {prefix, before, at};
}

__device__ unsigned long long WarpSum64(unsigned long long x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// What the filters leave: tokens above a depth, and at it the first `equals` by id.
struct Kept {
  uint32_t limit = 0xffffffffu;
  unsigned long long equals = ~0ull;
};

__device__ Kept ApplyFilters(const float* logits, int vocab, Run run, const RowState& state, const SampleRow& s, float inverse,
                             FilterScratch& f, Team& team) {
  Kept kept;
  if (s.top_k > 0 && s.top_k < vocab) {
    const Cut cut = FindCut(logits, run, state, inverse, s.top_k, false, f, team);
    kept.limit = cut.depth;
    const unsigned long long needed = s.top_k - cut.before;
    kept.equals = needed >= cut.at ? ~0ull : needed;
  }
  if (s.top_p < 1) {
    unsigned long long mass = 0;  // of what top-k left
#pragma unroll 4
    for (int id = run.from + threadIdx.x; id < run.to; id += kThreads) {
      const uint32_t depth = Depth(logits[id], state.best, inverse);
      if (depth < kept.limit || (depth == kept.limit && kept.equals == ~0ull)) mass += Mass(depth);
    }
    mass = team.Add(WarpSum64(mass)).all + (kept.equals == ~0ull ? 0 : kept.equals * Mass(kept.limit));
    const unsigned long long wanted = max(1ull, min(mass, __double2ull_ru(static_cast<double>(s.top_p) * static_cast<double>(mass))));
    const Cut cut = FindCut(logits, run, state, inverse, wanted, true, f, team);
    const unsigned long long each = max(1ull, Mass(cut.depth));
    unsigned long long needed = wanted > cut.before ? (wanted - cut.before + each - 1) / each : 1;
    if (needed * each >= cut.at) needed = ~0ull;
    kept.equals = cut.depth == kept.limit ? min(kept.equals, needed) : needed;
    kept.limit = cut.depth;
  }
  if (s.min_p > 0) {
    const double deepest = -log(static_cast<double>(s.min_p)) * 134217728.0;
    const uint32_t limit = deepest < 4294967294.0 ? static_cast<uint32_t>(deepest) : 0xfffffffeu;
    if (limit < kept.limit) kept = {limit, ~0ull};
  }
  return kept;
}

// The token whose interval of the kept mass, ids ascending, holds `uniform`. Each warp adds up a run of ids; the warp that
// holds the target walks its run.
__device__ void DrawFiltered(const SampleArgs& a, int row, const RowState& state, const SampleRow& s, double uniform,
                             float inverse, FilterScratch& f) {
  const float* logits = LogitsOf(a, row);
  Team team(f);
  const Run run{static_cast<int>(static_cast<int64_t>(a.vocab) * team.rank() / team.size()),
                static_cast<int>(static_cast<int64_t>(a.vocab) * (team.rank() + 1) / team.size())};
  const Kept kept = ApplyFilters(logits, a.vocab, run, state, s, inverse, f, team);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int segment = (run.to - run.from + kWarps - 1) / kWarps, from = min(run.to, run.from + warp * segment), to = min(run.to, from + segment);
  const bool all_equals = kept.equals == ~0ull;
  unsigned long long equals_before = 0;
  if (!all_equals) {
    unsigned long long count = 0;
    for (int id = from + lane; id < to; id += 32) count += Depth(logits[id], state.best, inverse) == kept.limit;
    equals_before = team.Add(WarpSum64(count)).before;
  }
  // Mass of the lane's token in the 32 from `base`; `seen` counts equals.
  const auto mass_at = [&](int base, unsigned long long& seen) -> unsigned long long {
    const int id = base + lane;
    const uint32_t depth = id < to ? Depth(logits[id], state.best, inverse) : 0xffffffffu;
    if (all_equals) return id < to && depth <= kept.limit ? Mass(depth) : 0;
    const bool equal = id < to && depth == kept.limit;
    const unsigned lanes = __ballot_sync(0xffffffffu, equal);
    const bool keep = id < to && (depth < kept.limit || (equal && seen + __popc(lanes & ((1u << lane) - 1)) < kept.equals));
    seen += __popc(lanes);
    return keep ? Mass(depth) : 0;
  };
  unsigned long long own = 0, seen = equals_before;
#pragma unroll 4
  for (int base = from; base < to; base += 32) own += mass_at(base, seen);
  own = WarpSum64(own);
  auto [before, total] = team.Add(own);
  team.Meet();  // the others have read this block's memory
  if (total == 0) {
    if (threadIdx.x == 0 && team.rank() == 0) a.draws[row] = Draw{};
    return;
  }
  // total < 2^55 and uniform < 1: the product is below total after rounding down.
  const unsigned long long target = min(total - 1, static_cast<unsigned long long>(uniform * static_cast<double>(total)));
  if (target < before || target >= before + own) return;
  seen = equals_before;
  for (int base = from; base < to; base += 32) {
    const unsigned long long mass = mass_at(base, seen);
    unsigned long long inclusive = mass;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const unsigned long long other = __shfl_up_sync(0xffffffffu, inclusive, step);
      if (lane >= step) inclusive += other;
    }
    const bool here = mass > 0 && before + inclusive > target && before + inclusive - mass <= target;
    if (here) {
      Draw draw;
      draw.id = base + lane;
      draw.log_prob = static_cast<float>(log(static_cast<double>(mass) / static_cast<double>(total)));
      a.draws[row] = draw;
    }
    if (__any_sync(0xffffffffu, here)) return;
    before += __shfl_sync(0xffffffffu, inclusive, 31);
  }
}

__global__ void __launch_bounds__(kThreads) DrawKernel(const SampleArgs a) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ double chunk_mass[kMaxChunks];
  __shared__ float chunk_best[kMaxChunks];
  __shared__ double warp_sums[kWarps];
  __shared__ int winner[2];
  __shared__ double total;
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int row = blockIdx.y, chunks = (a.vocab + kSampleChunk - 1) / kSampleChunk;
  const SampleRow s = a.rows[row];
  const bool filtered = s.temperature != 0 && (s.top_k > 0 || s.top_p < 1 || s.min_p > 0);
  if (s.active == 0 || (!filtered && blockIdx.x > 0)) return;
  const ChunkStats* stats = a.stats + static_cast<int64_t>(row) * chunks;
  const float inverse = Inverse(s);
  RowState state{-INFINITY, a.vocab, 0};
  ChunkStats own{-INFINITY, 0, 0};
  if (threadIdx.x < chunks) own = stats[threadIdx.x];
  if (threadIdx.x < chunks) chunk_best[threadIdx.x] = own.best;
  __syncthreads();
  int best_chunk = 0;
  for (int c = 0; c < chunks; ++c) {
    if (chunk_best[c] > state.best) {
      state.best = chunk_best[c];
      best_chunk = c;
    }
  }
  if (threadIdx.x == best_chunk) winner[0] = own.best_id;
  if (threadIdx.x < chunks) {
    chunk_mass[threadIdx.x] = own.sum == 0 ? 0 : static_cast<double>(own.sum) * static_cast<double>(expf((own.best - state.best) * inverse));
  }
  __syncthreads();
  state.best_id = winner[0];
  if (threadIdx.x == 0) {
    double sum = 0;
    for (int c = 0; c < chunks; ++c) sum += chunk_mass[c];
    total = sum;
  }
  __syncthreads();  // winner is read; it may be written again
  state.total = total;
  if (!isfinite(total) || !isfinite(state.best) || total <= 0) {
    if (threadIdx.x == 0) a.draws[row] = Draw{};
    return;
  }
  if (s.temperature == 0) {
    if (threadIdx.x == 0) a.draws[row] = Draw{state.best_id, -static_cast<float>(log(total))};
    return;
  }
  const double uniform = Uniform(s.seed, s.stream, s.index);
  if (filtered) {
    DrawFiltered(a, row, state, s, uniform, inverse, *reinterpret_cast<FilterScratch*>(shared));
  } else {
    DrawUnfiltered(a, row, state, chunk_mass, chunks, uniform, inverse, warp_sums, winner);
  }
}

}  // namespace

cudaError_t Sample(const SampleArgs& args, cudaStream_t stream) {
  const int chunks = (args.vocab + kSampleChunk - 1) / kSampleChunk;
  if (args.vocab > kMaxVocab) return cudaErrorInvalidValue;
  if (const cudaError_t error = Launch(StatsKernel, dim3(chunks, args.count), dim3(kStatsThreads), 0, stream, args); error != cudaSuccess) {
    return error;
  }
  // Few rows: several blocks each, which filters keep busy.
  int team = kMaxTeam;
  while (team > 1 && team * args.count > 2 * 132) team /= 2;
  return Launch(DrawKernel, dim3(team, args.count), dim3(kThreads), sizeof(FilterScratch), stream, args, team);
}

}  // namespace hone::rollout::cuda

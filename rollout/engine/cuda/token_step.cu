#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/page_attention.cuh"
#include "rollout/engine/cuda/rotate.cuh"
#include "rollout/engine/cuda/token_step.h"

namespace hone::rollout::cuda {
namespace {

constexpr int kWarps = 8;  // that compute; one more copies weights
constexpr int kThreads = kWarps * 32;
// A multiple of kWarps: a stage then holds tiles of one warp only (within a product; between two all warps meet), so that
// no warp can wait for a stage's next copy but one, which its parity would take for the last.
constexpr int kMaxStages = 32;  // lanes of the warp that copies
constexpr int kMaxParts = 1024;      // partial sums of a block's rows of one product
constexpr int kMaxOwnRows = 128;     // of the hidden state, a block's
constexpr int kMaxNormSteps = 4;     // of 8 numbers a thread: hidden sizes up to 8192
constexpr int kSpins = 1 << 22;      // of a wait for other blocks before it is given up: seconds

// Static part of a block's shared memory. After it the inputs of a product, or the queries and pages of attention; then
// the ring.
struct Shared {
  uint64_t full[kMaxStages], empty[kMaxStages];
  float row_max[kWarps][kQueries], row_sum[kWarps][kQueries];
  float scratch[kWarps];
  float own[kMaxOwnRows];  // the block's rows of the residual
  float parts[kMaxParts];
};

__host__ __device__ constexpr int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }
constexpr int kInputsAt = static_cast<int>(RoundUp(sizeof(Shared), 128));

// Numbers of a stage: one row of the hidden size, two where they are short. Longer rows come in pieces.
__host__ __device__ __forceinline__ int StageNumbers(const TokenShape& s) { return s.hidden <= 2048 ? 2 * s.hidden : s.hidden; }

// Bytes that inputs of a product and attention take in turn.
__host__ __device__ __forceinline__ int InputBytes(const TokenShape& s) {
  const int widest = s.intermediate > s.heads * s.head_dim ? s.intermediate : s.heads * s.head_dim;
  const int products = (widest > s.hidden ? widest : s.hidden) * 2;
  const int attention = kQueries * s.head_dim * 2 + kWarps * kQueries * s.head_dim * 4;
  return static_cast<int>(RoundUp(products > attention ? products : attention, 128));
}

__host__ __device__ __forceinline__ int Stages(const TokenShape& s, int shared_bytes) {
  const int fit = (shared_bytes - kInputsAt - InputBytes(s)) / (StageNumbers(s) * 2);
  return (fit < kMaxStages ? fit : kMaxStages) / kWarps * kWarps;
}

// A block's part of a matrix, in tiles that fill a stage: some rows, or a piece of one.
struct Slice {
  int first = 0, rows = 0;  // of the matrix; of [gate | up] row 2 i is gate i, row 2 i + 1 is up i
  int tile_rows = 1, pieces = 1, tiles = 0;
};

__host__ __device__ __forceinline__ Slice SliceOf(int out, bool paired, int in, int stage_numbers, int block, int blocks) {
  const int units = paired ? out / 2 : out, each = paired ? 2 : 1;
  const int begin = static_cast<int>(static_cast<int64_t>(units) * block / blocks), end = static_cast<int>(static_cast<int64_t>(units) * (block + 1) / blocks);
  Slice s;
  s.first = begin * each;
  s.rows = (end - begin) * each;
  s.tile_rows = 2 * in <= stage_numbers ? 2 : 1;
  s.pieces = (in + stage_numbers - 1) / stage_numbers;
  s.tiles = (s.rows + s.tile_rows - 1) / s.tile_rows * s.pieces;
  return s;
}

struct Product {
  const Bf16* weight;
  int out, in;
  bool paired;  // weight holds [gate | up]
};

struct Products {
  Product qkv, output, gate_up, down;
};
__device__ __forceinline__ Products ProductsOf(const TokenShape& s, const TokenLayer& layer) {
  return {{layer.qkv, (s.heads + 2 * s.kv_heads) * s.head_dim, s.hidden, false},
          {layer.output, s.hidden, s.heads * s.head_dim, false},
          {layer.gate_up, 2 * s.intermediate, s.hidden, true},
          {layer.down, s.hidden, s.intermediate, false}};
}

// --- the warp that copies weights

// One lane a stage: a single thread cannot ask for copies as fast as memory answers.
struct Producer {
  uint32_t full_at, empty_at, ring_at;
  int stage_numbers, stages;
  int begin = 0;      // stage of the product's first tile
  uint32_t laps = 0;  // copies of this lane

  __device__ void Copy(const Product& p) {
    const int lane = threadIdx.x % 32;
    const Slice s = SliceOf(p.out, p.paired, p.in, stage_numbers, blockIdx.x, gridDim.x);
    int tile = lane < stages ? (lane - begin + stages) % stages : s.tiles;
    while (__any_sync(0xffffffffu, tile < s.tiles)) {
      if (tile >= s.tiles || !PhaseEnded(empty_at + lane * 8, (laps & 1) ^ 1)) continue;
      CopyTile(p, s, tile, ring_at + lane * stage_numbers * 2, full_at + lane * 8);
      tile += stages;
      ++laps;
    }
    begin = (begin + s.tiles) % stages;
  }

  __device__ __forceinline__ void CopyTile(const Product& p, const Slice& s, int tile, uint32_t to, uint32_t barrier) const {
    const int row = s.pieces > 1 ? tile / s.pieces : tile * s.tile_rows, rows = min(s.tile_rows, s.rows - row), from = s.first + row;
    const int first = s.pieces > 1 ? tile % s.pieces * stage_numbers : 0, numbers = min(p.in - first, stage_numbers);
    ArriveExpecting(barrier, rows * numbers * 2);
    if (!p.paired) {
      CopyBulk(to, p.weight + static_cast<int64_t>(from) * p.in + first, rows * numbers * 2, barrier);
      return;
    }
    for (int r = 0; r < rows; ++r) {
      const int64_t at = (from + r) / 2 + static_cast<int64_t>((from + r) % 2) * (p.out / 2);
      CopyBulk(to + r * p.in * 2, p.weight + at * p.in + first, numbers * 2, barrier);
    }
  }
};

// --- the warps that compute

__device__ __forceinline__ void Sync() { SyncFirst<kThreads>(); }

__device__ __forceinline__ uint4 ReadShared(const Bf16* at) { return *reinterpret_cast<const uint4*>(at); }

struct Consumer {
  const TokenStepArgs& a;
  Shared& shared;
  unsigned char* inputs;
  const unsigned char* ring;
  int stage_numbers, stages;
  uint32_t tile = 0;    // of the ring, where the next product begins
  int32_t met = 0;      // counts of all blocks waited for
  int stamps = 0;

  __device__ Bf16* xs() const { return reinterpret_cast<Bf16*>(inputs); }

  __device__ void Stamp() {
    if (a.times != nullptr && blockIdx.x == 0 && threadIdx.x == 0) a.times[stamps++] = clock64();
  }

  // --- meeting the other blocks

  // What this block's threads wrote is there for whoever waits for the count.
  __device__ void Announce(int32_t* counter) {
    Sync();
    if (threadIdx.x == 0) AddRelease(counter, 1);
  }
  __device__ void WaitFor(const int32_t* counter, int32_t count) {
    if (threadIdx.x == 0) {
      for (int spin = 0; LoadAcquire(counter) < count; ++spin) {
        if (spin == kSpins) __trap();
      }
    }
    Sync();
  }
  __device__ void AnnounceProduct() {
    Announce(a.counters);
    met += static_cast<int32_t>(gridDim.x);
  }
  __device__ void WaitForProducts() { WaitFor(a.counters, met); }

  // --- inputs

  struct Norm {
    uint4 weight[kMaxNormSteps];
  };
  // Before a wait: the weights do not depend on it.
  __device__ __forceinline__ Norm LoadNorm(const Bf16* weight) const {
    Norm norm;
#pragma unroll
    for (int step = 0; step < kMaxNormSteps; ++step) {
      const int k = (step * kThreads + threadIdx.x) * 8;
      norm.weight[step] = k < a.shape.hidden ? *reinterpret_cast<const uint4*>(weight + k) : make_uint4(0, 0, 0, 0);
    }
    return norm;
  }
  // x, normalised, for the next product.
  __device__ void StageNormed(const Bf16* x, const Norm& norm) {
    uint4 v[kMaxNormSteps];
    float squares = 0;
#pragma unroll
    for (int step = 0; step < kMaxNormSteps; ++step) {
      const int k = (step * kThreads + threadIdx.x) * 8;
      if (k >= a.shape.hidden) continue;
      v[step] = __ldcg(reinterpret_cast<const uint4*>(x + k));
      squares = Dot8(v[step], v[step], squares);
    }
    squares = WarpSum(squares);
    if (threadIdx.x % 32 == 0) shared.scratch[threadIdx.x / 32] = squares;
    Sync();
    float all = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) all += shared.scratch[w];
    const float inverse = rsqrtf(all / static_cast<float>(a.shape.hidden) + a.norm_eps);
#pragma unroll
    for (int step = 0; step < kMaxNormSteps; ++step) {
      const int k = (step * kThreads + threadIdx.x) * 8;
      if (k >= a.shape.hidden) continue;
      const auto scale = [&](uint32_t pair, uint32_t weights) {
        return Pack(ScaleNormed(Low(pair) * inverse, Low(weights), a.norm_offset),
                    ScaleNormed(High(pair) * inverse, High(weights), a.norm_offset));
      };
      const uint4 w = norm.weight[step];
      *reinterpret_cast<uint4*>(xs() + k) = make_uint4(scale(v[step].x, w.x), scale(v[step].y, w.y), scale(v[step].z, w.z), scale(v[step].w, w.w));
    }
    Sync();
  }
  __device__ void StagePlain(const Bf16* x, int count) {
#pragma unroll 4
    for (int k = threadIdx.x * 8; k < count; k += kThreads * 8) {
      *reinterpret_cast<uint4*>(xs() + k) = __ldcg(reinterpret_cast<const uint4*>(x + k));
    }
    Sync();
  }

  // --- products

  // Sums of the block's rows, into shared.parts [rows][pieces] or, of the last product, as they are into `logits`.
  template <bool kLogits>
  __device__ Slice Multiply(const Product& p) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Slice s = SliceOf(p.out, p.paired, p.in, stage_numbers, blockIdx.x, gridDim.x);
    for (int i = warp; i < s.tiles; i += kWarps) {
      const uint32_t at = tile + i, stage = at % stages;
      const int row = s.pieces > 1 ? i / s.pieces : i * s.tile_rows, piece = s.pieces > 1 ? i % s.pieces : 0;
      const int begin = piece * stage_numbers, numbers = min(p.in - begin, stage_numbers);
      const Bf16* weights = reinterpret_cast<const Bf16*>(ring) + static_cast<int64_t>(stage) * stage_numbers;
      const Bf16* x = xs() + begin;
      const bool two = s.tile_rows == 2 && row + 1 < s.rows;
      float sum[2] = {0, 0};
      WaitForPhase(SharedAddress(&shared.full[stage]), at / stages & 1);
      if (two) {
#pragma unroll 6
        for (int k = lane * 8; k < numbers; k += 256) {
          const uint4 v = ReadShared(x + k);
          sum[0] = Dot8(ReadShared(weights + k), v, sum[0]);
          sum[1] = Dot8(ReadShared(weights + p.in + k), v, sum[1]);
        }
      } else {
        float even = 0, odd = 0;  // of steps, so that they overlap
        int k = lane * 8;
#pragma unroll 4
        for (; k + 256 < numbers; k += 512) {
          even = Dot8(ReadShared(weights + k), ReadShared(x + k), even);
          odd = Dot8(ReadShared(weights + k + 256), ReadShared(x + k + 256), odd);
        }
        if (k < numbers) even = Dot8(ReadShared(weights + k), ReadShared(x + k), even);
        sum[0] = even + odd;
      }
      __syncwarp();
      if (lane == 0) Arrive(SharedAddress(&shared.empty[stage]));
      sum[0] = WarpSum(sum[0]);
      if (two) sum[1] = WarpSum(sum[1]);
      if (lane != 0) continue;
      float* to = kLogits ? a.logits + s.first + row : shared.parts + row * s.pieces + piece;
      to[0] = sum[0];
      if (two) to[1] = sum[1];
    }
    tile += s.tiles;
    if (!kLogits) Sync();
    return s;
  }
  __device__ __forceinline__ float RowSum(const Slice& s, int row) const {
    float sum = 0;
    for (int p = 0; p < s.pieces; ++p) sum += shared.parts[row * s.pieces + p];
    return sum;
  }

  // Of this thread's row of the first product; before a wait.
  __device__ float LoadBias(const Product& p, const Bf16* bias) const {
    const Slice s = SliceOf(p.out, p.paired, p.in, stage_numbers, blockIdx.x, gridDim.x);
    const int row = threadIdx.x;
    return bias != nullptr && row < s.rows ? __bfloat162float(bias[s.first + row]) : 0.0f;
  }
  __device__ void FinishQkv(const Slice& s, float bias) {
    const int row = threadIdx.x;
    if (row < s.rows) a.qkv[s.first + row] = __float2bfloat16_rn(RowSum(s, row) + bias);
    AnnounceProduct();
  }
  // The residual: x += product.
  __device__ void FinishAdd(const Slice& s) {
    for (int i = threadIdx.x; i < s.rows; i += kThreads) {
      const Bf16 sum = __float2bfloat16_rn(shared.own[i] + Round(RowSum(s, i)));
      shared.own[i] = __bfloat162float(sum);
      a.x[s.first + i] = sum;
    }
    AnnounceProduct();
  }
  __device__ void FinishGated(const Slice& s) {
    for (int i = threadIdx.x; i < s.rows / 2; i += kThreads) {
      a.gated[s.first / 2 + i] = __float2bfloat16_rn(Gated(Round(RowSum(s, 2 * i)), Round(RowSum(s, 2 * i + 1)), a.gelu));
    }
    AnnounceProduct();
  }

  // --- attention: a block takes one key head over one split

  struct Splits {
    int count = 1, pages = 1;  // of each
  };
  __device__ Splits SplitsOf(int position) const {
    const int pages = position / kPagePositions + 1;
    const int most = min(kMaxTokenSplits, static_cast<int>(gridDim.x) / a.shape.kv_heads);
    const int wanted = min(most, (pages + kWarps - 1) / kWarps), each = (pages + wanted - 1) / wanted;
    return {(pages + each - 1) / each, each};
  }

  template <int kDim>
  __device__ void Attend(const TokenLayer& layer, int index, int position) {
    constexpr int kPageBytes = kPagePositions * kDim * 2;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int kv_heads = a.shape.kv_heads, group = a.shape.heads / kv_heads;
    const Splits splits = SplitsOf(position);
    const int kv = blockIdx.x / splits.count, split = blockIdx.x % splits.count;
    const int own_page = position / kPagePositions;
    const int first_page = split * splits.pages, last_page = min(own_page, first_page + splits.pages - 1);
    const int begin = first_page * kPagePositions, end = min(position + 1, (last_page + 1) * kPagePositions);
    Bf16* pages = a.pages + index * a.layer_stride;
    const int64_t values_after = static_cast<int64_t>(kv_heads) * kPagePositions * kDim;
    unsigned char* page_tile = inputs + kQueries * kDim * 2 + warp * 2 * kPageBytes;
    const uint32_t queries_at = SharedAddress(inputs), page_at = SharedAddress(page_tile);
    const auto page_of = [&](int page) { return pages + (static_cast<int64_t>(a.tables[page]) * 2 * kv_heads + kv) * kPagePositions * kDim; };
    // Earlier tokens lie in their pages since earlier steps; the new one is put in below.
    const auto fetch = [&](int page) { FetchPage<kDim>(page_of(page), values_after, page * kPagePositions, begin, min(end, position), page_at); };
    int page = first_page + warp;
    if (page <= last_page) fetch(page);
    CommitCopies();

    WaitForProducts();
    const RotateArgs rotate{a.angles, layer.query_norm, layer.key_norm, a.norm_offset, a.norm_eps};
    for (int q = warp; q < kQueries; q += kWarps) {
      float low[kDim / 64] = {}, high[kDim / 64] = {};
      if (q < group) RotateHead<kDim>(a.qkv + (kv * group + q) * kDim, layer.query_norm, rotate, position, low, high);
#pragma unroll
      for (int i = 0; i < kDim / 64; ++i) {
        const int d = PairAt<kDim>(lane, i);
        StoreInTile<kDim>(inputs, q, d, low[i]);
        StoreInTile<kDim>(inputs, q, d + kDim / 2, high[i]);
      }
    }
    // The new key and value, into the tile at hand and into the cache.
    const auto put = [&] {
      const int slot = position % kPagePositions;
      float low[kDim / 64], high[kDim / 64];
      Bf16* to = page_of(own_page) + slot * kDim;
      for (int part = 0; part < 2; ++part) {
        const Bf16* from = a.qkv + (a.shape.heads + part * kv_heads + kv) * kDim;
        if (part == 0) {
          RotateHead<kDim>(from, layer.key_norm, rotate, position, low, high);
        } else {
          LoadHead<kDim>(from, low, high);
        }
#pragma unroll
        for (int i = 0; i < kDim / 64; ++i) {
          const int d = PairAt<kDim>(lane, i);
          StoreInTile<kDim>(page_tile + part * kPageBytes, slot, d, low[i]);
          StoreInTile<kDim>(page_tile + part * kPageBytes, slot, d + kDim / 2, high[i]);
        }
        StoreHead<kDim>(to + part * values_after, low, high);
      }
    };
    WaitForCopies<0>();
    __syncwarp();
    if (page == own_page && page <= last_page) put();
    Sync();
    PageAttention<kDim> attention;
    while (page <= last_page) {
      attention.Add(queries_at, page_at, page_at + kPageBytes, page * kPagePositions, begin, end, a.scale * 1.4426950408889634f);
      page += kWarps;
      __syncwarp();
      if (page > last_page) break;
      fetch(page);
      CommitCopies();
      WaitForCopies<0>();
      __syncwarp();
      if (page == own_page) put();
      __syncwarp();
    }
    Sync();
    float* join = reinterpret_cast<float*>(inputs + kQueries * kDim * 2);
    attention.Leave(group, join + warp * kQueries * kDim, shared.row_max[warp], shared.row_sum[warp]);
    Sync();
    float2* weights = reinterpret_cast<float2*>(a.partial + static_cast<int64_t>(a.shape.heads) * kMaxTokenSplits * kDim);
    for (int i = threadIdx.x; i < group * kDim; i += kThreads) {
      const int q = i / kDim, d = i % kDim;
      const Joined joined = JoinWarps<kDim, kWarps>(join, shared.row_max, shared.row_sum, q, d);
      const int64_t at = static_cast<int64_t>(kv * group + q) * kMaxTokenSplits + split;
      a.partial[at * kDim + d] = joined.value;
      if (d == 0) weights[at] = make_float2(joined.top, joined.total);
    }
    Announce(a.counters + 1);
  }

  // Every block joins the splits for itself: that is shorter than another round of waiting.
  template <int kDim>
  __device__ void StageAttended(int splits) {
    const float2* weights = reinterpret_cast<const float2*>(a.partial + static_cast<int64_t>(a.shape.heads) * kMaxTokenSplits * kDim);
    for (int i = threadIdx.x; i < a.shape.heads * kDim / 8; i += kThreads) {
      const int head = i / (kDim / 8), d = i % (kDim / 8) * 8;
      const int64_t at = static_cast<int64_t>(head) * kMaxTokenSplits;
      float top = -INFINITY, total = 0, value[8] = {};
#pragma unroll 4
      for (int s = 0; s < splits; ++s) top = fmaxf(top, __ldcg(weights + at + s).x);
#pragma unroll 4
      for (int s = 0; s < splits; ++s) {
        const float2 w = __ldcg(weights + at + s);
        const float4* from = reinterpret_cast<const float4*>(a.partial + (at + s) * kDim + d);
        const float4 lower = __ldcg(from), upper = __ldcg(from + 1);
        const float factor = exp2f(w.x - top);
        total += factor * w.y;
        const float v[8] = {lower.x, lower.y, lower.z, lower.w, upper.x, upper.y, upper.z, upper.w};
#pragma unroll
        for (int n = 0; n < 8; ++n) value[n] += factor * v[n];
      }
      *reinterpret_cast<uint4*>(xs() + head * kDim + d) = make_uint4(Pack(value[0] / total, value[1] / total), Pack(value[2] / total, value[3] / total),
                                                                     Pack(value[4] / total, value[5] / total), Pack(value[6] / total, value[7] / total));
    }
    Sync();
  }

  template <int kDim>
  __device__ void Run(int id, int position) {
    const TokenShape& s = a.shape;
    const Splits splits = SplitsOf(position);
    const int units = s.kv_heads * splits.count;
    const Bf16* embedded = a.embedding + static_cast<int64_t>(id) * s.hidden;
    const Slice own = SliceOf(s.hidden, false, s.hidden, stage_numbers, blockIdx.x, gridDim.x);
    for (int i = threadIdx.x; i < own.rows; i += kThreads) shared.own[i] = __bfloat162float(embedded[own.first + i]);
    for (int index = 0; index < s.layers; ++index) {
      const TokenLayer layer = a.layers[index];
      const Products products = ProductsOf(s, layer);
      Norm norm = LoadNorm(layer.input_norm);
      const float bias = LoadBias(products.qkv, layer.qkv_bias);
      if (index > 0) WaitForProducts();
      StageNormed(index == 0 ? embedded : a.x, norm);
      FinishQkv(Multiply<false>(products.qkv), bias);
      Stamp();
      if (static_cast<int>(blockIdx.x) < units) Attend<kDim>(layer, index, position);
      Stamp();
      WaitFor(a.counters + 1, units * (index + 1));
      StageAttended<kDim>(splits.count);
      FinishAdd(Multiply<false>(products.output));
      Stamp();
      norm = LoadNorm(layer.mlp_norm);
      WaitForProducts();
      StageNormed(a.x, norm);
      FinishGated(Multiply<false>(products.gate_up));
      Stamp();
      WaitForProducts();
      StagePlain(a.gated, s.intermediate);
      FinishAdd(Multiply<false>(products.down));
      Stamp();
    }
    const Norm norm = LoadNorm(a.final_norm);
    WaitForProducts();
    StageNormed(a.x, norm);
    Multiply<true>({a.head, s.vocab, s.hidden, false});
    Stamp();
    // Nobody waits any more once all blocks have come here.
    if (threadIdx.x == 0 && atomicAdd(a.counters + 2, 1) == static_cast<int32_t>(gridDim.x) - 1) {
      a.counters[0] = a.counters[1] = a.counters[2] = 0;
    }
  }
};

template <int kDim>
__global__ void __launch_bounds__(kThreads + 32, 1) TokenStepKernel(const __grid_constant__ TokenStepArgs a) {
  unsigned char* memory = DynamicShared();
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int stage_numbers = StageNumbers(a.shape), ring_from = kInputsAt + InputBytes(a.shape);
  const int stages = Stages(a.shape, a.shared_bytes);
  const int position = a.positions[0];
  if (position < 0) return;
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      InitBarrier(SharedAddress(&shared.full[i]), 1);
      InitBarrier(SharedAddress(&shared.empty[i]), 1);
    }
    PublishBarriers();
  }
  __syncthreads();
  if (threadIdx.x < kThreads) {
    Consumer consumer{a, shared, memory + kInputsAt, memory + ring_from, stage_numbers, stages};
    const int source = a.sources[0];
    consumer.template Run<kDim>(max(0, source >= 0 ? source : a.draws[-1 - source].id), position);
  } else {
    Producer producer{SharedAddress(shared.full), SharedAddress(shared.empty), SharedAddress(memory + ring_from), stage_numbers, stages};
    for (int index = 0; index < a.shape.layers; ++index) {
      const Products products = ProductsOf(a.shape, a.layers[index]);
      producer.Copy(products.qkv);
      producer.Copy(products.output);
      producer.Copy(products.gate_up);
      producer.Copy(products.down);
    }
    producer.Copy({a.head, a.shape.vocab, a.shape.hidden, false});
  }
}

template <int kDim>
cudaError_t Run(const TokenStepArgs& args, cudaStream_t stream) {
  const auto kernel = TokenStepKernel<kDim>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, args.shared_bytes);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;  // blocks wait for each other: all of them run, or none
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(args.processors);
  config.blockDim = dim3(kThreads + 32);
  config.dynamicSmemBytes = args.shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, args);
}

}  // namespace

int64_t TokenStepScratch(const TokenShape& s) { return static_cast<int64_t>(s.heads) * kMaxTokenSplits * (s.head_dim + 2); }

bool TokenStepServes(const TokenShape& s, int processors, int shared_bytes) {
  if (s.layers < 1 || (s.head_dim != 64 && s.head_dim != 128)) return false;
  if (s.kv_heads < 1 || s.kv_heads > processors || s.heads / s.kv_heads > kQueries) return false;
  if (s.hidden % 8 != 0 || s.intermediate % 8 != 0 || s.hidden > kMaxNormSteps * kThreads * 8) return false;
  const int stage_numbers = StageNumbers(s);
  if (Stages(s, shared_bytes) < kWarps) return false;
  const auto parts = [&](int out, bool paired, int in) {
    const int rows = (paired ? 2 : 1) * ((paired ? out / 2 : out) / processors + 1);
    return rows * ((in + stage_numbers - 1) / stage_numbers);
  };
  const int own = s.hidden / processors + 1, qkv = (s.heads + 2 * s.kv_heads) * s.head_dim;
  return own <= kMaxOwnRows && qkv / processors < kThreads && parts(qkv, false, s.hidden) <= kMaxParts &&
         parts(s.hidden, false, s.heads * s.head_dim) <= kMaxParts && parts(2 * s.intermediate, true, s.hidden) <= kMaxParts &&
         parts(s.hidden, false, s.intermediate) <= kMaxParts;
}

cudaError_t TokenStep(TokenStepArgs args, cudaStream_t stream) {
  if (!TokenStepServes(args.shape, args.processors, args.shared_bytes)) return cudaErrorInvalidValue;
  return args.shape.head_dim == 64 ? Run<64>(args, stream) : Run<128>(args, stream);
}

}  // namespace hone::rollout::cuda

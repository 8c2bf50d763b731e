#include "rollout/engine/cuda/device.cuh"
#include "rollout/engine/cuda/page_attention.cuh"
#include "rollout/engine/cuda/rotate.cuh"
#include "rollout/engine/cuda/token_step.h"

namespace hone::rollout::cuda {
namespace {

constexpr int kWarps = 8;  // that compute; one more copies weights
constexpr int kThreads = kWarps * 32;
constexpr int kAttentionWarps = 4;   // that attend, a page of the cache each at a time
constexpr int kTileBytes = 24 << 10; // of weights that are copied at once, where whole rows allow it
constexpr int kMaxStages = 16;
constexpr int kMaxSteps = 6;         // of 8 numbers, a lane's part of a tile
constexpr int kMaxParts = 1024;      // partial sums of a block's rows of one product
constexpr int kMaxOwnRows = 128;     // of the hidden state, a block's
constexpr int kMaxNormSteps = 4;     // of 4 numbers a thread: hidden sizes up to 4096
constexpr int kBatch = 5;            // words on their way to a thread, in fours
constexpr int kSpins = 1 << 22;      // of a wait for other blocks before it is given up: seconds

enum Phase { kQkv, kOutput, kGateUp, kDown, kLogits, kPhases };

// A block's part of a product: rows of the matrix, or pairs of a row of the gate and one of up; and its tiles.
struct Slice {
  int in, each;           // numbers of a row, rows of a unit: 2 where the matrix holds [gate | up]
  int first, units;
  int tile_units, tiles;
  int slices, steps;      // warps that share a row, and how often each of their lanes reads 8 numbers
};

// Static part of a block's shared memory. After it the layers' pointers; the inputs of a product, or what attention needs;
// the ring.
struct Shared {
  Slice slices[kPhases];
  uint32_t angles[64];    // of the new token
  uint64_t full[kMaxStages], empty[kMaxStages];
  float row_max[kAttentionWarps][kQueries], row_sum[kAttentionWarps][kQueries];
  float2 split_weights[kMaxTokenSplits][kQueries];
  float scratch[kWarps];
  float own[kMaxOwnRows];  // the block's rows of the residual
  float parts[kMaxParts];
};

__host__ __device__ constexpr int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }
constexpr int kLayersAt = static_cast<int>(RoundUp(sizeof(Shared), 128));

// Attention: rotated queries as a tile, the block's heads as they were computed, pages (later what warps leave for the join).
__host__ __device__ __forceinline__ int HeadsAt(int dim) { return kQueries * dim * 2; }
__host__ __device__ __forceinline__ int PagesAt(int dim) { return HeadsAt(dim) + (kQueries + 2) * dim * 2; }

// Bytes that inputs of a product and attention take in turn.
__host__ __device__ __forceinline__ int InputBytes(const TokenShape& s) {
  const int widest = s.intermediate > s.heads * s.head_dim ? s.intermediate : s.heads * s.head_dim;
  const int products = (widest > s.hidden ? widest : s.hidden) * 2;
  const int attention = PagesAt(s.head_dim) + kAttentionWarps * 2 * kPagePositions * s.head_dim * 2;
  return static_cast<int>(RoundUp(products > attention ? products : attention, 128));
}

// --- who computes what

struct Product {
  int out, in;
  bool paired;  // the matrix holds [gate | up]
};

__host__ __device__ __forceinline__ Product ProductOf(const TokenShape& s, int phase) {
  switch (phase) {
    case kQkv: return {(s.heads + 2 * s.kv_heads) * s.head_dim, s.hidden, false};
    case kOutput: return {s.hidden, s.heads * s.head_dim, false};
    case kGateUp: return {2 * s.intermediate, s.hidden, true};
    case kDown: return {s.hidden, s.intermediate, false};
    default: return {s.vocab, s.hidden, false};
  }
}

// Rows of a tile: each is shared by kWarps / rows warps.
__host__ __device__ __forceinline__ int TileRows(const Product& p) {
  int rows = kWarps;
  while (rows > (p.paired ? 2 : 1) && rows * p.in * 2 > kTileBytes) rows /= 2;
  return rows;
}

__host__ __device__ __forceinline__ Slice SliceOf(const Product& p, int block, int blocks) {
  Slice s;
  s.in = p.in;
  s.each = p.paired ? 2 : 1;
  const int all = p.out / s.each, rows = TileRows(p);
  s.first = all * block / blocks;
  s.units = all * (block + 1) / blocks - s.first;
  s.tile_units = rows / s.each;
  s.tiles = (s.units + s.tile_units - 1) / s.tile_units;
  s.slices = kWarps / rows;
  s.steps = (p.in + s.slices * 256 - 1) / (s.slices * 256);
  return s;
}

// Numbers of a stage: the largest tile's.
__host__ __device__ __forceinline__ int StageNumbers(const TokenShape& s) {
  int most = 0;
  for (int phase = 0; phase < kPhases; ++phase) {
    const Product p = ProductOf(s, phase);
    const int numbers = TileRows(p) * p.in;
    most = numbers > most ? numbers : most;
  }
  return static_cast<int>(RoundUp(most, 64));
}

__host__ __device__ __forceinline__ int InputsAt(const TokenShape& s) { return static_cast<int>(RoundUp(kLayersAt + s.layers * sizeof(TokenLayer), 128)); }

__host__ __device__ __forceinline__ int Stages(const TokenShape& s, int shared_bytes) {
  const int fit = (shared_bytes - InputsAt(s) - InputBytes(s)) / (StageNumbers(s) * 2);
  return fit < kMaxStages ? fit : kMaxStages;
}

// Where words lie. Partial results of attention, [heads][kMaxTokenSplits][head_dim + 2], take two each.
struct Words {
  int64_t x, qkv, attended, gated, partial, all;
};
__host__ __device__ __forceinline__ Words WordsOf(const TokenShape& s) {
  Words w;
  w.x = 0;
  w.qkv = RoundUp(s.hidden, 32);
  w.attended = w.qkv + RoundUp((s.heads + 2 * s.kv_heads) * s.head_dim, 32);
  w.gated = w.attended + RoundUp(s.heads * s.head_dim, 32);
  w.partial = w.gated + RoundUp(s.intermediate, 32);
  w.all = w.partial + static_cast<int64_t>(s.heads) * kMaxTokenSplits * (s.head_dim + 2) * 2;
  return w;
}

// --- the warp that copies weights: one thread of it

struct Producer {
  uint32_t full_at, empty_at, ring_at;
  int stage_numbers, stages;
  uint64_t policy = ReadOncePolicy();
  int stage = 0;
  uint32_t lap = 0;

  // up_after: numbers from a row of the gate to the one of up.
  __device__ void Copy(const Slice& s, const Bf16* weight, int64_t up_after) {
    for (int t = 0; t < s.tiles; ++t) {
      const int unit = t * s.tile_units, bytes = min(s.tile_units, s.units - unit) * s.in * 2;
      const uint32_t to = ring_at + stage * stage_numbers * 2, barrier = full_at + stage * 8;
      const Bf16* from = weight + static_cast<int64_t>(s.first + unit) * s.in;
      WaitForPhase(empty_at + stage * 8, (lap & 1) ^ 1);
      ArriveExpecting(barrier, s.each * bytes);
      CopyBulk(to, from, bytes, barrier, policy);
      if (s.each == 2) CopyBulk(to + s.tile_units * s.in * 2, from + up_after, bytes, barrier, policy);
      if (++stage == stages) {
        stage = 0;
        ++lap;
      }
    }
  }

  __device__ void Run(const TokenStepArgs& a, const Slice* slices, const TokenLayer* layers) {
    const int norm_bytes = a.shape.hidden * 2;
    for (int index = 0; index < a.shape.layers; ++index) {
      const TokenLayer& layer = layers[index];
      if (static_cast<int>(blockIdx.x) == index % static_cast<int>(gridDim.x)) {  // small weights: into L2, for all blocks
        PrefetchBulk(layer.input_norm, norm_bytes);
        PrefetchBulk(layer.mlp_norm, norm_bytes);
        if (layer.qkv_bias != nullptr) PrefetchBulk(layer.qkv_bias, (a.shape.heads + 2 * a.shape.kv_heads) * a.shape.head_dim * 2);
      }
      Copy(slices[kQkv], layer.qkv, 0);
      Copy(slices[kOutput], layer.output, 0);
      Copy(slices[kGateUp], layer.gate_up, static_cast<int64_t>(a.shape.intermediate) * a.shape.hidden);
      Copy(slices[kDown], layer.down, 0);
    }
    Copy(slices[kLogits], a.head, 0);
  }
};

// --- the warps that compute

__device__ __forceinline__ void Sync() { SyncFirst<kThreads>(); }

__device__ __forceinline__ uint4 ReadShared(const Bf16* at) { return *reinterpret_cast<const uint4*>(at); }

// What blocks tell each other is a bf16 in one word with a tag, which counts on from write to write: who reads the word knows
// whether it is there yet, without a fence or a flag beside it. A word is written again only after its writer has read what
// every reader of it has made of it.
constexpr uint32_t kTagMask = 0xffff;
__device__ __forceinline__ uint32_t Tagged(float value, uint32_t tag) { return Pack(value, 0.0f) | tag << 16; }
__device__ __forceinline__ bool AllTagged(uint4 v, uint32_t tag) {
  const uint32_t t = tag << 16;
  return (((v.x ^ t) | (v.y ^ t) | (v.z ^ t) | (v.w ^ t)) & 0xffff0000u) == 0;
}
__device__ __forceinline__ uint2 Untagged(uint4 v) { return make_uint2((v.x & 0xffffu) | v.y << 16, (v.z & 0xffffu) | v.w << 16); }

struct Consumer {
  const TokenStepArgs& a;
  Shared& shared;
  unsigned char* inputs;
  const unsigned char* ring;
  const TokenLayer* layers;  // in shared memory
  int stage_numbers, stages;
  uint32_t *x, *qkv, *attended, *gated;
  uint64_t* partial;
  int stage = 0;         // of the ring, where the next tile is
  uint32_t parity = 0;
  int stamps = 0;

  __device__ Bf16* xs() const { return reinterpret_cast<Bf16*>(inputs); }

  __device__ void Stamp() {
    if (a.times != nullptr && threadIdx.x == 0) a.times[blockIdx.x * (kTokenStamps * a.shape.layers + 2) + stamps++] = clock64();
  }

  // --- inputs

  // The thread's fours of words at `at(i)`, i = 0 .. count - 1, as soon as all of them are there. `one_first`: the others are
  // not asked for before the first is there, they would only be in the way.
  template <int kCount, class At>
  __device__ __forceinline__ void Await(uint4 (&v)[kCount], int count, uint32_t tag, bool one_first, const At& at) const {
    int from = 0;
    if (one_first) {
      v[0] = AwaitOne(Look(at(0)), at(0), tag);
      from = 1;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i >= from && i < count) v[i] = Look(at(i));
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count) v[i] = AwaitOne(v[i], at(i), tag);
    }
  }
  __device__ static __forceinline__ uint4 AwaitOne(uint4 v, const uint32_t* at, uint32_t tag) {
    for (int spin = 0; !AllTagged(v, tag); ++spin) {
      v = Look(at);
      if (spin == kSpins) __trap();
    }
    return v;
  }

  // Words -> numbers, as input of a product.
  __device__ void StageWords(const uint32_t* words, int count, uint32_t tag) {
    for (int from = static_cast<int>(threadIdx.x) * 4; from < count; from += kBatch * kThreads * 4) {
      uint4 v[kBatch];
      Await(v, min(kBatch, (count - from + kThreads * 4 - 1) / (kThreads * 4)), tag, from < kThreads * 4 && count > 2 * kThreads * 4, [&](int i) { return words + from + i * kThreads * 4; });
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int k = from + i * kThreads * 4;
        if (k < count) *reinterpret_cast<uint2*>(xs() + k) = Untagged(v[i]);
      }
    }
    Sync();
  }

  // The residual, normalised, as input of a product: from words, or (of the first layer) from the embedding.
  __device__ static __forceinline__ int NormAt(int step) { return (step * kThreads + static_cast<int>(threadIdx.x)) * 4; }
  __device__ void StageNormed(const Bf16* embedded, uint32_t tag, const Bf16* weight) {
    uint2 v[kMaxNormSteps], scales[kMaxNormSteps];
    const int count = (a.shape.hidden - NormAt(0) + kThreads * 4 - 1) / (kThreads * 4);
#pragma unroll
    for (int step = 0; step < kMaxNormSteps; ++step) {
      if (step < count) scales[step] = *reinterpret_cast<const uint2*>(weight + NormAt(step));
    }
    if (embedded != nullptr) {
#pragma unroll
      for (int step = 0; step < kMaxNormSteps; ++step) {
        if (step < count) v[step] = *reinterpret_cast<const uint2*>(embedded + NormAt(step));
      }
    } else {
      uint4 words[kMaxNormSteps];
      Await(words, count, tag, count > 2, [&](int step) { return x + NormAt(step); });
#pragma unroll
      for (int step = 0; step < kMaxNormSteps; ++step) {
        if (step < count) v[step] = Untagged(words[step]);
      }
    }
    float squares = 0;
#pragma unroll
    for (int step = 0; step < kMaxNormSteps; ++step) {
      if (step >= count) continue;
      squares = fmaf(Low(v[step].x), Low(v[step].x), squares);
      squares = fmaf(High(v[step].x), High(v[step].x), squares);
      squares = fmaf(Low(v[step].y), Low(v[step].y), squares);
      squares = fmaf(High(v[step].y), High(v[step].y), squares);
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
      if (step >= count) continue;
      const auto scale = [&](uint32_t pair, uint32_t weights) {
        return Pack(ScaleNormed(Low(pair) * inverse, Low(weights), a.norm_offset), ScaleNormed(High(pair) * inverse, High(weights), a.norm_offset));
      };
      *reinterpret_cast<uint2*>(xs() + NormAt(step)) = make_uint2(scale(v[step].x, scales[step].x), scale(v[step].y, scales[step].y));
    }
    Sync();
  }

  // --- products

  // Sums of the slice's next units into shared.parts [units][gate, up][slices].
  __device__ void Multiply(const Slice& s, int units) {
    switch (s.steps) {
      case 1: return Tiles<1>(s, units);
      case 2: return Tiles<2>(s, units);
      case 3: return Tiles<3>(s, units);
      case 4: return Tiles<4>(s, units);
      case 5: return Tiles<5>(s, units);
      default: return Tiles<6>(s, units);
    }
  }
  template <int kSteps>
  __device__ __forceinline__ void Tiles(const Slice& s, int all_units) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / s.slices, slice = warp % s.slices, first = (slice * 32 + lane) * 8, stride = s.slices * 256;
    const int unit = row % s.tile_units, up = row / s.tile_units;  // of every tile
    // Beyond the end of the row the input is zero, and the row's last numbers stand in for the weights.
    const int last = min(first + (kSteps - 1) * stride, s.in - 8);
    float in[kSteps][8];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint4 v = first + i * stride < s.in ? ReadShared(xs() + first + i * stride) : make_uint4(0, 0, 0, 0);
      in[i][0] = Low(v.x), in[i][1] = High(v.x), in[i][2] = Low(v.y), in[i][3] = High(v.y);
      in[i][4] = Low(v.z), in[i][5] = High(v.z), in[i][6] = Low(v.w), in[i][7] = High(v.w);
    }
    const Bf16* rows = reinterpret_cast<const Bf16*>(ring) + row * s.in;
    float* to = shared.parts + (unit * s.each + up) * s.slices + slice;
    const int to_stride = kWarps;  // parts of a tile
    float pending = 0;
    for (int t = 0; t < all_units; t += s.tile_units) {
      const Bf16* weights = rows + stage * stage_numbers;
      uint4 w[kSteps];
      WaitForPhase(SharedAddress(&shared.full[stage]), parity);
#pragma unroll
      for (int i = 0; i < kSteps; ++i) w[i] = ReadShared(weights + (i + 1 == kSteps ? last : first + i * stride));
      __syncwarp();
      if (lane == 0) Arrive(SharedAddress(&shared.empty[stage]));
      if (++stage == stages) {
        stage = 0;
        parity ^= 1;
      }
      if (t > 0) {  // of the tile before, while the weights come
        pending = WarpSum(pending);
        if (lane == 0) *to = pending;
        to += to_stride;
      }
      float sum[4] = {0, 0, 0, 0};  // that overlap
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        sum[0] = fmaf(Low(w[i].x), in[i][0], sum[0]);
        sum[1] = fmaf(High(w[i].x), in[i][1], sum[1]);
        sum[2] = fmaf(Low(w[i].y), in[i][2], sum[2]);
        sum[3] = fmaf(High(w[i].y), in[i][3], sum[3]);
        sum[0] = fmaf(Low(w[i].z), in[i][4], sum[0]);
        sum[1] = fmaf(High(w[i].z), in[i][5], sum[1]);
        sum[2] = fmaf(Low(w[i].w), in[i][6], sum[2]);
        sum[3] = fmaf(High(w[i].w), in[i][7], sum[3]);
      }
      pending = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    pending = WarpSum(pending);
    // The last tile may have fewer units.
    if (lane == 0 && unit < all_units - (all_units - 1) / s.tile_units * s.tile_units) *to = pending;
    Sync();
  }
  __device__ __forceinline__ float RowSum(int slices, int row) const {
    float sum = 0;
    for (int p = 0; p < slices; ++p) sum += shared.parts[row * slices + p];
    return sum;
  }

  __device__ void Finish(int phase, const Slice& s, int begin, int units, float bias, uint32_t tag) {
    for (int i = threadIdx.x; i < units; i += kThreads) {
      const int row = s.first + begin + i;
      const float sum = RowSum(s.slices, i * s.each);
      switch (phase) {
        case kQkv: Publish(qkv + row, Tagged(sum + bias, tag)); break;
        case kGateUp: Publish(gated + row, Tagged(Gated(Round(sum), Round(RowSum(s.slices, i * 2 + 1)), a.gelu), tag)); break;
        case kLogits: a.logits[row] = sum; break;
        default: {  // the residual: x += product
          const float after = Round(shared.own[i] + Round(sum));
          shared.own[i] = after;
          Publish(x + row, Tagged(after, tag));
        }
      }
    }
  }

  // --- attention: a block takes one key head over one split

  struct Splits {
    int count = 1, pages = 1;  // of each
  };
  __device__ Splits SplitsOf(int position) const {
    const int pages = position / kPagePositions + 1;
    const int most = min(kMaxTokenSplits, static_cast<int>(gridDim.x) / a.shape.kv_heads);
    const int wanted = min(most, (pages + kAttentionWarps - 1) / kAttentionWarps), each = (pages + wanted - 1) / wanted;
    return {(pages + each - 1) / each, each};
  }

  template <int kDim>
  __device__ void Attend(const TokenLayer& layer, int index, int position, uint32_t tag) {
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
    unsigned char* page_tile = inputs + PagesAt(kDim) + warp * 2 * kPageBytes;
    const uint32_t queries_at = SharedAddress(inputs), page_at = SharedAddress(page_tile);
    const auto page_of = [&](int page) { return pages + (static_cast<int64_t>(a.tables[page]) * 2 * kv_heads + kv) * kPagePositions * kDim; };
    // Earlier tokens lie in their pages since earlier steps; the new one is put in below.
    const auto fetch = [&](int page) { FetchPage<kDim>(page_of(page), values_after, page * kPagePositions, begin, min(end, position), page_at); };
    int page = warp < kAttentionWarps ? first_page + warp : last_page + 1;
    if (page <= last_page) fetch(page);
    CommitCopies();

    // Queries, key and value of the new token.
    Bf16* heads = reinterpret_cast<Bf16*>(inputs + HeadsAt(kDim));
    for (int i = static_cast<int>(threadIdx.x) * 4; i < (group + 2) * kDim; i += kThreads * 4) {
      const int head = i / kDim, from = head < group ? kv * group + head : a.shape.heads + (head - group) * kv_heads + kv;
      uint4 v[1];
      Await(v, 1, tag, false, [&](int) { return qkv + from * kDim + i % kDim; });
      *reinterpret_cast<uint2*>(heads + i) = Untagged(v[0]);
    }
    Sync();
    const RotateArgs rotate{reinterpret_cast<const Bf16*>(shared.angles), layer.query_norm, layer.key_norm, a.norm_offset, a.norm_eps};
    for (int q = warp; q < kQueries; q += kWarps) {
      float low[kDim / 64] = {}, high[kDim / 64] = {};
      if (q < group) RotateHead<kDim>(heads + q * kDim, layer.query_norm, rotate, 0, low, high);
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
        const Bf16* from = heads + (group + part) * kDim;
        if (part == 0) {
          RotateHead<kDim>(from, layer.key_norm, rotate, 0, low, high);
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
      page += kAttentionWarps;
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
    float* join = reinterpret_cast<float*>(inputs + PagesAt(kDim));
    if (warp < kAttentionWarps) attention.Leave(group, join + warp * kQueries * kDim, shared.row_max[warp], shared.row_sum[warp]);
    Sync();
    const int first_head = kv * group;
    for (int i = threadIdx.x; i < group * kDim; i += kThreads) {
      const int q = i / kDim, d = i % kDim;
      const Joined joined = JoinWarps<kDim, kAttentionWarps>(join, shared.row_max, shared.row_sum, q, d);
      if (splits.count == 1) {
        Publish(attended + first_head * kDim + i, Tagged(joined.value / joined.total, tag));
        continue;
      }
      uint64_t* to = PartialOf<kDim>(first_head + q, split);
      Publish(to + d, WithTag(joined.value, tag));
      if (d == 0) {
        Publish(to + kDim, WithTag(joined.top, tag));
        Publish(to + kDim + 1, WithTag(joined.total, tag));
      }
    }
    if (splits.count > 1) JoinSplits<kDim>(first_head, group, splits.count, split, tag);
  }

  __device__ static __forceinline__ uint64_t WithTag(float value, uint32_t tag) { return static_cast<uint64_t>(tag) << 32 | __float_as_uint(value); }
  __device__ static __forceinline__ bool HasTag(uint64_t word, uint32_t tag) { return word >> 32 == tag; }
  __device__ static __forceinline__ float ValueOf(uint64_t word) { return __uint_as_float(static_cast<uint32_t>(word)); }
  template <int kDim>
  __device__ __forceinline__ uint64_t* PartialOf(int head, int split) const {
    return partial + (static_cast<int64_t>(head) * kMaxTokenSplits + split) * (kDim + 2);
  }
  __device__ __forceinline__ float AwaitValue(uint64_t word, const uint64_t* at, uint32_t tag) const {
    for (int spin = 0; !HasTag(word, tag); ++spin) {
      word = Look(at);
      if (spin == kSpins) __trap();
    }
    return ValueOf(word);
  }

  // The splits' blocks share the joining of their heads.
  template <int kDim>
  __device__ void JoinSplits(int first_head, int group, int count, int split, uint32_t tag) {
    const int all = group * kDim, begin = all * split / count, end = all * (split + 1) / count;
    uint64_t words[kMaxTokenSplits];
    const auto look = [&](int i) {
#pragma unroll
      for (int s = 0; s < kMaxTokenSplits; ++s) words[s] = i < end && s < count ? Look(PartialOf<kDim>(first_head + i / kDim, s) + i % kDim) : 0;
    };
    look(begin + static_cast<int>(threadIdx.x));  // on its way while the weights come
    for (int i = threadIdx.x; i < group * count; i += kThreads) {
      const uint64_t* from = PartialOf<kDim>(first_head + i / count, i % count) + kDim;
      const uint64_t top = Look(from), total = Look(from + 1);
      shared.split_weights[i % count][i / count] = make_float2(AwaitValue(top, from, tag), AwaitValue(total, from + 1, tag));
    }
    Sync();
    for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kThreads) {
      if (i >= begin + kThreads) look(i);
      const int q = i / kDim, d = i % kDim;
      float top = -INFINITY, total = 0, value = 0;
      for (int s = 0; s < count; ++s) top = fmaxf(top, shared.split_weights[s][q].x);
#pragma unroll
      for (int s = 0; s < kMaxTokenSplits; ++s) {
        if (s >= count) continue;
        const float2 w = shared.split_weights[s][q];
        const float factor = exp2f(w.x - top);
        total += factor * w.y;
        value += factor * AwaitValue(words[s], PartialOf<kDim>(first_head + q, s) + d, tag);
      }
      Publish(attended + first_head * kDim + i, Tagged(value / total, tag));
    }
  }

  template <int kDim>
  __device__ void Run(int id, int position) {
    const int layers_count = a.shape.layers, units = a.shape.kv_heads * SplitsOf(position).count;
    const Bf16* embedded = a.embedding + static_cast<int64_t>(id) * a.shape.hidden;
    for (int i = threadIdx.x; i < shared.slices[kOutput].units; i += kThreads) {
      shared.own[i] = __bfloat162float(embedded[shared.slices[kOutput].first + i]);
    }
    const uint32_t writes = static_cast<uint32_t>(*a.steps) * 2 * layers_count;  // of x, until this step
    for (int item = 0; item <= 4 * layers_count; ++item) {
      const int index = item / 4, phase = index == layers_count ? kLogits : item % 4;
      const TokenLayer& layer = layers[min(index, layers_count - 1)];
      const uint32_t tag = (writes + 2 * index) & kTagMask;
      if (phase == kOutput || phase == kDown) {
        if (phase == kOutput) {
          if (static_cast<int>(blockIdx.x) < units) Attend<kDim>(layer, index, position, tag);
          Sync();
          Stamp();
        }
        StageWords(phase == kOutput ? attended : gated, shared.slices[phase].in, tag);
      } else {
        StageNormed(item == 0 ? embedded : nullptr, phase == kGateUp ? tag : (tag - 1) & kTagMask,
                    phase == kLogits ? a.final_norm : phase == kQkv ? layer.input_norm : layer.mlp_norm);
      }
      Stamp();
      const Slice s = shared.slices[phase];
      const bool biased = phase == kQkv && layer.qkv_bias != nullptr && static_cast<int>(threadIdx.x) < s.units;
      const float bias = biased ? __bfloat162float(layer.qkv_bias[s.first + threadIdx.x]) : 0.0f;  // of the thread's unit
      const int most = kMaxParts / kWarps * s.tile_units;  // units whose sums there is room for: less than all of the logits alone
      for (int begin = 0; begin < s.units; begin += most) {
        if (begin > 0) Sync();
        Multiply(s, min(most, s.units - begin));
        Finish(phase, s, begin, min(most, s.units - begin), bias, phase == kDown ? (tag + 1) & kTagMask : tag);
      }
      Stamp();
    }
    // All blocks have read the number of the step once they have come here.
    if (threadIdx.x == 0 && atomicAdd(a.steps + 1, 1) == static_cast<int32_t>(gridDim.x) - 1) {
      a.steps[0] = static_cast<int32_t>(static_cast<uint32_t>(a.steps[0]) + 1);
      a.steps[1] = 0;
    }
  }
};

template <int kDim>
__global__ void __launch_bounds__(kThreads + 32, 1) TokenStepKernel(const __grid_constant__ TokenStepArgs a) {
  unsigned char* memory = DynamicShared();
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  TokenLayer* layers = reinterpret_cast<TokenLayer*>(memory + kLayersAt);
  const int inputs_at = InputsAt(a.shape), ring_from = inputs_at + InputBytes(a.shape);
  const int stage_numbers = StageNumbers(a.shape), stages = Stages(a.shape, a.shared_bytes);
  const int position = a.positions[0];
  if (position < 0) return;
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      InitBarrier(SharedAddress(&shared.full[i]), 1);
      InitBarrier(SharedAddress(&shared.empty[i]), kWarps);
    }
    PublishBarriers();
  }
  for (int i = static_cast<int>(threadIdx.x); i < a.shape.layers; i += kThreads + 32) layers[i] = a.layers[i];
  if (threadIdx.x < kPhases) {
    shared.slices[threadIdx.x] = SliceOf(ProductOf(a.shape, static_cast<int>(threadIdx.x)), static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  }
  if (threadIdx.x < kDim / 2) shared.angles[threadIdx.x] = reinterpret_cast<const uint32_t*>(a.angles)[static_cast<int64_t>(position) * (kDim / 2) + threadIdx.x];
  __syncthreads();
  if (threadIdx.x < kThreads) {
    const Words w = WordsOf(a.shape);
    Consumer consumer{a, shared, memory + inputs_at, memory + ring_from, layers, stage_numbers, stages, a.words + w.x, a.words + w.qkv, a.words + w.attended,
                      a.words + w.gated, reinterpret_cast<uint64_t*>(a.words + w.partial)};
    const int source = a.sources[0];
    consumer.template Run<kDim>(max(0, source >= 0 ? source : a.draws[-1 - source].id), position);
  } else if (threadIdx.x == kThreads) {
    Producer{SharedAddress(shared.full), SharedAddress(shared.empty), SharedAddress(memory + ring_from), stage_numbers, stages}.Run(a, shared.slices, layers);
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

int64_t TokenStepWords(const TokenShape& s) { return WordsOf(s).all; }

bool TokenStepServes(const TokenShape& s, int processors, int shared_bytes) {
  if (s.layers < 1 || (s.head_dim != 64 && s.head_dim != 128)) return false;
  if (s.kv_heads < 1 || s.kv_heads > processors || s.heads / s.kv_heads > kQueries) return false;
  if (s.hidden % 8 != 0 || s.intermediate % 8 != 0 || s.hidden > kMaxNormSteps * kThreads * 4) return false;
  if (Stages(s, shared_bytes) < 2 || s.hidden / processors + 1 > kMaxOwnRows) return false;
  for (int phase = 0; phase < kPhases; ++phase) {
    const Slice slice = SliceOf(ProductOf(s, phase), processors - 1, processors);  // no block has more
    if (slice.steps > kMaxSteps || (phase != kLogits && slice.tiles * kWarps > kMaxParts) || (phase == kQkv && slice.units > kThreads)) return false;
  }
  return true;
}

cudaError_t TokenStep(TokenStepArgs args, cudaStream_t stream) {
  if (!TokenStepServes(args.shape, args.processors, args.shared_bytes)) return cudaErrorInvalidValue;
  return args.shape.head_dim == 64 ? Run<64>(args, stream) : Run<128>(args, stream);
}

}  // namespace hone::rollout::cuda

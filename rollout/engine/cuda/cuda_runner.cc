#include "rollout/engine/cuda/cuda_runner.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/model/device.h"
#include "policy/model/torch_status.h"
#include "rollout/engine/cuda/check.h"
#include "rollout/engine/cuda/cuda_decoder.h"
#include "rollout/engine/cuda/sample.h"

namespace hone::rollout {
namespace {

using at::Tensor;
using cuda::CheckCuda;
using cuda::Draw;
using cuda::SampleRow;

static_assert(cuda::kPagePositions == Runner::kPagePositions);
static_assert(sizeof(Draw) == 8);

// Batches and contexts are rounded up, so that few graphs serve all of them.
int64_t RoundedRows(int64_t rows) {
  for (const int64_t size : {1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256}) {
    if (rows <= size) return size;
  }
  return (rows + 127) / 128 * 128;
}
int64_t RoundedPages(int64_t pages) {
  int64_t size = 32;
  while (size < pages) size *= 2;
  return size;
}

SampleRow RowOf(const DrawSpec& spec) {
  SampleRow row;
  row.seed = spec.seed;
  row.stream = spec.stream;
  row.index = spec.index;
  row.temperature = static_cast<float>(spec.sampling->temperature);
  row.top_p = static_cast<float>(spec.sampling->top_p);
  row.min_p = static_cast<float>(spec.sampling->min_p);
  row.top_k = static_cast<int32_t>(std::min<int64_t>(spec.sampling->top_k, INT32_MAX));
  return row;
}

// A decode step's inputs as they lie in one buffer, on the host and on the device.
struct StepLayout {
  int64_t rows, table_stride;
  int64_t sources_at() const { return rows * static_cast<int64_t>(sizeof(SampleRow)); }
  int64_t positions_at() const { return sources_at() + rows * 4; }
  int64_t tables_at() const { return positions_at() + rows * 4; }
  int64_t bytes() const { return tables_at() + rows * table_stride * 4; }
};

// A recorded step.
class Graph {
 public:
  explicit Graph(cudaGraph_t recorded) { CheckCuda(cudaGraphInstantiate(&graph_, recorded, 0)); }
  ~Graph() { cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void Replay(cudaStream_t stream) { CheckCuda(cudaGraphLaunch(graph_, stream)); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

class Event {
 public:
  Event() { CheckCuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void Record(cudaStream_t stream) { CheckCuda(cudaEventRecord(event_, stream)); }
  void Wait() { CheckCuda(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

// A step that has been launched: where its inputs were read from and where its draws arrive. Used in turn.
struct Slot {
  Tensor input, draws;  // bytes in pinned memory
  Event done;
  int64_t rows = 0;
};

std::vector<TokenDraw> ToTokens(const Draw* draws, int64_t count) {
  std::vector<TokenDraw> out(count);
  for (int64_t i = 0; i < count; ++i) out[i] = {draws[i].id, draws[i].log_prob};
  return out;
}

}  // namespace

struct CudaRunner::State {
  CudaRunnerOptions options;
  policy::Decoder& decoder;
  std::unique_ptr<cuda::CudaDecoder> forward;
  c10::Stream torch_stream;  // everything of this runner is queued on it
  cudaStream_t stream;
  int64_t max_pages = 0;            // of one sequence
  Tensor step, draws, stats;  // on the device
  cuda::DecodeBuffers buffers;
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Graph>> graphs;  // by rows and table stride
  Slot slots[2];
  int64_t launched = 0, collected = 0;

  at::TensorOptions On(at::ScalarType type) const { return decoder.parameters().flat().options().dtype(type).requires_grad(false); }
  Tensor ToDevice(const std::vector<int32_t>& values) const {
    return at::from_blob(const_cast<int32_t*>(values.data()), {static_cast<int64_t>(values.size())}, at::kInt).to(On(at::kInt).device());
  }
  void SampleInto(const Tensor& logits, const SampleRow* rows, Draw* to, int64_t count, const int32_t* logit_rows, const Tensor& stats_buffer) {
    cuda::SampleArgs args;
    args.logits = logits.const_data_ptr<float>();
    args.rows = rows;
    args.stats = static_cast<cuda::ChunkStats*>(stats_buffer.data_ptr());
    args.draws = to;
    args.logit_rows = logit_rows;
    args.count = static_cast<int>(count);
    args.vocab = static_cast<int>(logits.size(1));
    CheckCuda(cuda::Sample(args, stream));
  }
  int64_t StatsBytes(int64_t rows) const {
    const int64_t chunks = (decoder.config().vocab_size + cuda::kSampleChunk - 1) / cuda::kSampleChunk;
    return rows * chunks * static_cast<int64_t>(sizeof(cuda::ChunkStats));
  }
  // The whole step on the device, from the inputs in `step` to `draws`.
  void Decode(const StepLayout& layout) {
    char* base = static_cast<char*>(step.data_ptr());
    cuda::DecodeInput input;
    input.sources = reinterpret_cast<const int32_t*>(base + layout.sources_at());
    input.positions = reinterpret_cast<const int32_t*>(base + layout.positions_at());
    input.tables = reinterpret_cast<const int32_t*>(base + layout.tables_at());
    input.draws = static_cast<const Draw*>(draws.data_ptr());
    input.rows = static_cast<int>(layout.rows);
    input.table_stride = static_cast<int>(layout.table_stride);
    const Tensor logits = forward->Decode(input, buffers);
    SampleInto(logits, reinterpret_cast<const SampleRow*>(base), static_cast<Draw*>(draws.data_ptr()), layout.rows, nullptr, stats);
  }
  // The first step of a size runs as it is and is then recorded; later ones replay the record. All memory that a record
  // touches is held by this runner, or is a workspace that cuBLAS keeps for the stream.
  void Run(const StepLayout& layout) {
    std::unique_ptr<Graph>& graph = graphs[{layout.rows, layout.table_stride}];
    if (graph != nullptr) return graph->Replay(stream);
    Decode(layout);
    cudaGraph_t recorded = nullptr;
    CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    try {
      Decode(layout);
    } catch (...) {
      cudaStreamEndCapture(stream, &recorded);
      if (recorded != nullptr) cudaGraphDestroy(recorded);
      throw;
    }
    CheckCuda(cudaStreamEndCapture(stream, &recorded));
    graph = std::make_unique<Graph>(recorded);
    cudaGraphDestroy(recorded);
  }
};

CudaRunner::CudaRunner(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaRunner::~CudaRunner() {
  Synchronize().IgnoreError();
}

absl::StatusOr<std::unique_ptr<CudaRunner>> CudaRunner::Create(const CudaRunnerOptions& options, policy::Decoder& decoder) {
  const int64_t page_bytes = cuda::CudaDecoder::BytesPerPage(decoder.config());
  if (options.cache_bytes < page_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("engine: cache_bytes = ", options.cache_bytes, ", allowed >= ", page_bytes));
  }
  const int64_t pages = options.cache_bytes / page_bytes;
  absl::StatusOr<std::unique_ptr<cuda::CudaDecoder>> forward = cuda::CudaDecoder::Create(decoder, pages, options.deterministic);
  if (!forward.ok()) {
    if (!absl::IsResourceExhausted(forward.status())) return forward.status();
    return absl::ResourceExhaustedError(absl::StrCat("engine: no room for a cache of ", options.cache_bytes >> 20, " MiB: ",
                                                     forward.status().message()));
  }
  auto state = policy::CatchTorch("engine", [&] {
    const auto device = decoder.parameters().flat().device();
    policy::UseDevice(device);
    const c10::Stream stream = c10::impl::getDeviceGuardImpl(device.type())->getNewStream(device, /*priority=*/-1);
    auto made = std::unique_ptr<State>(new State{options, decoder, std::move(*forward), stream, static_cast<cudaStream_t>(stream.native_handle())});
    const int64_t context = decoder.config().max_position_embeddings;
    made->max_pages = RoundedPages(std::min(pages, (context + kPagePositions - 1) / kPagePositions));
    const int64_t rows = RoundedRows(options.max_rows);
    const StepLayout largest{rows, made->max_pages};
    made->step = at::zeros({largest.bytes()}, made->On(at::kByte));
    made->draws = at::zeros({rows * static_cast<int64_t>(sizeof(Draw))}, made->On(at::kByte));
    made->stats = at::empty({made->StatsBytes(rows)}, made->On(at::kByte));
    made->buffers = made->forward->MakeBuffers(rows, made->max_pages);
    const auto pinned = at::TensorOptions(at::kByte).pinned_memory(true);
    for (Slot& slot : made->slots) {
      slot.input = at::empty({largest.bytes()}, pinned);
      slot.draws = at::empty({rows * static_cast<int64_t>(sizeof(Draw))}, pinned);
    }
    CheckCuda(cudaDeviceSynchronize());
    return made;
  });
  if (!state.ok()) return state.status();
  return std::unique_ptr<CudaRunner>(new CudaRunner(std::move(*state)));
}

int64_t CudaRunner::pages() const { return state_->forward->pages(); }
int64_t CudaRunner::max_rows() const { return state_->options.max_rows; }
int64_t CudaRunner::max_prefill_tokens() const { return state_->options.prefill_tokens; }

namespace {

absl::Status NoCache() { return absl::FailedPreconditionError("engine: its cache was given back"); }

// The device arrays of a Prefill, put together on the host.
struct PrefillArrays {
  std::vector<int32_t> ids, positions, slots, query_offsets{0}, key_offsets{0}, key_slots, last_rows, logit_rows;
  std::vector<int32_t> tables;
  std::vector<SampleRow> draws;
  int64_t max_queries = 0, max_keys = 0, table_stride = 0;
  bool continued = false;  // a piece has tokens before it

  explicit PrefillArrays(absl::Span<const PrefillPiece> pieces, bool with_tables) {
    for (const PrefillPiece& piece : pieces) {
      table_stride = std::max<int64_t>(table_stride, RoundedPages(static_cast<int64_t>(piece.table.size())));
      continued |= piece.first_position > 0;
    }
    for (const PrefillPiece& piece : pieces) Add(piece, with_tables);
  }

 private:
  void Add(const PrefillPiece& piece, bool with_tables) {
    const auto slot = [&](int64_t position) {
      return static_cast<int32_t>(piece.table[position / Runner::kPagePositions] * Runner::kPagePositions + position % Runner::kPagePositions);
    };
    const int64_t count = static_cast<int64_t>(piece.ids.size()), end = piece.first_position + count;
    for (int64_t t = 0; t < count; ++t) {
      const int64_t position = piece.first_position + t;
      ids.push_back(piece.ids[t]);
      positions.push_back(static_cast<int32_t>(position));
      slots.push_back(slot(position));
      if (with_tables) {
        tables.insert(tables.end(), piece.table.begin(), piece.table.end());
        tables.resize(positions.size() * table_stride);
      }
    }
    if (continued) {
      for (int64_t position = 0; position < end; ++position) key_slots.push_back(slot(position));
    }
    query_offsets.push_back(query_offsets.back() + static_cast<int32_t>(count));
    key_offsets.push_back(key_offsets.back() + static_cast<int32_t>(end));
    max_queries = std::max(max_queries, count);
    max_keys = std::max(max_keys, end);
    if (piece.draws.empty()) return;
    for (const DrawSpec& spec : piece.draws) {
      draws.push_back(RowOf(spec));
      logit_rows.push_back(static_cast<int32_t>(last_rows.size()));
    }
    last_rows.push_back(static_cast<int32_t>(ids.size()) - 1);
  }
};

}  // namespace

absl::StatusOr<std::vector<TokenDraw>> CudaRunner::Prefill(absl::Span<const PrefillPiece> pieces) {
  State& s = *state_;
  if (!s.forward->page_memory().held()) return NoCache();
  const PrefillArrays arrays(pieces, s.options.deterministic);
  return policy::CatchTorch("prefill", [&]() -> std::vector<TokenDraw> {
    at::NoGradGuard no_grad;
    c10::StreamGuard guard(s.torch_stream);
    cuda::PrefillInput input;
    input.ids = s.ToDevice(arrays.ids);
    input.positions = s.ToDevice(arrays.positions);
    input.slots = s.ToDevice(arrays.slots);
    input.query_offsets = s.ToDevice(arrays.query_offsets);
    input.key_offsets = s.ToDevice(arrays.key_offsets);
    if (arrays.continued) input.key_slots = s.ToDevice(arrays.key_slots);
    if (!arrays.tables.empty()) input.tables = s.ToDevice(arrays.tables).view({-1, arrays.table_stride});
    input.max_queries = arrays.max_queries;
    input.max_keys = arrays.max_keys;
    input.wanted = s.ToDevice(arrays.last_rows);
    const Tensor hidden = s.forward->Prefill(input);
    if (arrays.draws.empty()) return {};
    const int64_t count = static_cast<int64_t>(arrays.draws.size());
    const Tensor logits = s.forward->Logits(hidden);
    const Tensor rows = at::from_blob(const_cast<SampleRow*>(arrays.draws.data()), {count * static_cast<int64_t>(sizeof(SampleRow))}, at::kByte)
                            .to(s.On(at::kByte).device());
    const Tensor logit_rows = s.ToDevice(arrays.logit_rows), stats = at::empty({s.StatsBytes(count)}, s.On(at::kByte));
    const Tensor draws = at::empty({count * static_cast<int64_t>(sizeof(Draw))}, s.On(at::kByte));
    s.SampleInto(logits, static_cast<const SampleRow*>(rows.const_data_ptr()), static_cast<Draw*>(draws.data_ptr()), count,
                 logit_rows.const_data_ptr<int32_t>(), stats);
    const Tensor host = draws.cpu();
    return ToTokens(static_cast<const Draw*>(host.const_data_ptr()), count);
  });
}

absl::Status CudaRunner::LaunchDecode(absl::Span<const DecodeRow> rows) {
  State& s = *state_;
  if (!s.forward->page_memory().held()) return NoCache();
  int64_t pages = 0;
  for (const DecodeRow& row : rows) pages = std::max<int64_t>(pages, static_cast<int64_t>(row.table.size()));
  const StepLayout layout{RoundedRows(static_cast<int64_t>(rows.size())), RoundedPages(pages)};
  Slot& slot = s.slots[s.launched % 2];
  char* base = static_cast<char*>(slot.input.data_ptr());
  SampleRow* sampling = reinterpret_cast<SampleRow*>(base);
  int32_t* sources = reinterpret_cast<int32_t*>(base + layout.sources_at());
  int32_t* positions = reinterpret_cast<int32_t*>(base + layout.positions_at());
  int32_t* tables = reinterpret_cast<int32_t*>(base + layout.tables_at());
  for (int64_t r = 0; r < layout.rows; ++r) {
    if (r >= static_cast<int64_t>(rows.size())) {
      sampling[r] = SampleRow{};
      sampling[r].active = 0;
      sources[r] = 0;
      positions[r] = -1;
      continue;
    }
    const DecodeRow& row = rows[r];
    sampling[r] = RowOf(row.draw);
    sources[r] = row.id >= 0 ? row.id : -1 - row.after_row;
    positions[r] = static_cast<int32_t>(row.position);
    std::memcpy(tables + r * layout.table_stride, row.table.data(), row.table.size() * sizeof(int32_t));
  }
  slot.rows = static_cast<int64_t>(rows.size());
  ++s.launched;
  return policy::CatchTorch("decode step", [&] {
           at::NoGradGuard no_grad;
           c10::StreamGuard guard(s.torch_stream);
           CheckCuda(cudaMemcpyAsync(s.step.data_ptr(), base, layout.bytes(), cudaMemcpyHostToDevice, s.stream));
           s.Run(layout);
           CheckCuda(cudaMemcpyAsync(slot.draws.data_ptr(), s.draws.data_ptr(), slot.rows * sizeof(Draw), cudaMemcpyDeviceToHost, s.stream));
           slot.done.Record(s.stream);
           return true;
         })
      .status();
}

absl::StatusOr<std::vector<TokenDraw>> CudaRunner::CollectDecode() {
  State& s = *state_;
  HONE_CHECK(s.collected < s.launched);
  Slot& slot = s.slots[s.collected++ % 2];
  return policy::CatchTorch("decode step", [&] {
    slot.done.Wait();
    return ToTokens(static_cast<const Draw*>(slot.draws.const_data_ptr()), slot.rows);
  });
}

absl::Status CudaRunner::CopyPages(absl::Span<const std::pair<int32_t, int32_t>> pages) {
  State& s = *state_;
  if (!s.forward->page_memory().held()) return NoCache();
  std::vector<int32_t> from_to;
  for (const auto& [from, to] : pages) {
    from_to.push_back(from);
    from_to.push_back(to);
  }
  return policy::CatchTorch("page copy", [&] {
           c10::StreamGuard guard(s.torch_stream);
           s.forward->CopyPages(s.ToDevice(from_to).view({-1, 2}));
           return true;
         })
      .status();
}

absl::Status CudaRunner::ReleaseCache() {
  return policy::CatchTorch("cache", [&] {
           CheckCuda(cudaDeviceSynchronize());
           state_->forward->page_memory().Release();
           return true;
         })
      .status();
}

absl::Status CudaRunner::RestoreCache() {
  return policy::CatchTorch("cache", [&] {
           state_->forward->page_memory().Take();
           return true;
         })
      .status();
}

absl::Status CudaRunner::Synchronize() {
  return policy::CatchTorch("waiting for the device", [&] {
           CheckCuda(cudaDeviceSynchronize());
           return true;
         })
      .status();
}

absl::StatusOr<std::string> CudaRunner::FirstNonFinite(absl::Span<const int32_t> ids) { return state_->decoder.FirstNonFinite(ids); }

}  // namespace hone::rollout

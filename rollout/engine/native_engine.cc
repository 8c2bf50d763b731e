#include "rollout/engine/native_engine.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "rollout/engine/page_pool.h"
#include "rollout/engine/philox.h"
#include "rollout/engine/token_sampler.h"

namespace hone::rollout {
namespace {

using policy::KeyValuePages;
using policy::PagedTokens;

constexpr int64_t kPage = KeyValuePages::kPageSize;

int64_t PagesFor(int64_t tokens) { return (tokens + kPage - 1) / kPage; }

absl::Status CheckRequest(const GenerationRequest& request, size_t index, const policy::ModelConfig& config) {
  HONE_RETURN_IF_ERROR(Validate(request.sampling));
  const auto bad = [&](auto&&... parts) { return absl::InvalidArgumentError(absl::StrCat("request ", index, ": ", parts...)); };
  if (request.samples < 1) return bad("samples = ", request.samples, ", allowed >= 1");
  if (request.prompt_ids.empty()) return bad("the prompt is empty");
  for (int32_t id : request.prompt_ids) {
    if (id < 0 || id >= config.vocab_size) return bad("prompt id ", id, " is outside [0, ", config.vocab_size, ")");
  }
  const int64_t longest = static_cast<int64_t>(request.prompt_ids.size()) + request.sampling.max_tokens;
  if (longest > config.max_position_embeddings) {
    return bad("prompt of ", request.prompt_ids.size(), " tokens plus max_tokens = ", request.sampling.max_tokens,
               " is over the context of ", config.max_position_embeddings);
  }
  return absl::OkStatus();
}

// Extends the last span or opens one.
void AddVersion(std::vector<VersionSpan>& spans, int64_t token, int64_t version) {
  if (!spans.empty() && spans.back().policy_version == version) {
    spans.back().end = token + 1;
  } else {
    spans.push_back({token, token + 1, version});
  }
}

// A prompt that has been read, until its last sample has started.
struct Prompt {
  size_t request;
  int64_t version;              // that computed its keys and values, and the first logits
  std::vector<int32_t> table;   // pages; each held once by the prompt
  std::vector<float> logits;    // [vocab] after its last token
  int64_t started = 0;          // samples
};

struct Running {
  size_t request;
  size_t sample;
  std::vector<int32_t> table;
  int64_t length;  // tokens whose keys and values are in the pages
};

}  // namespace

struct NativeEngine::State {
  NativeEngineOptions options;
  policy::Decoder& decoder;
  KeyValuePages pages;
  int64_t version = 0;
};

namespace {

// One call of Generate.
class Batch {
 public:
  Batch(const NativeEngineOptions& limits, policy::Decoder& decoder, KeyValuePages& pages, const int64_t& version,
        absl::Span<const GenerationRequest> requests, const GenerateOptions& options)
      : limits_(limits), decoder_(decoder), pages_(pages), version_(version), requests_(requests), options_(options),
        pool_(pages.pages()), results_(requests.size()) {
    for (size_t i = 0; i < requests.size(); ++i) results_[i].resize(requests[i].samples);
  }

  absl::StatusOr<std::vector<std::vector<Sample>>> Run() {
    while (next_request_ < requests_.size() || !prompts_.empty() || !running_.empty()) {
      if (options_.abort != nullptr && options_.abort->load()) {
        Abort();
        break;
      }
      HONE_RETURN_IF_ERROR(ReadPrompts());
      HONE_RETURN_IF_ERROR(StartSamples());
      if (!running_.empty()) HONE_RETURN_IF_ERROR(Decode());
    }
    return std::move(results_);
  }

 private:
  const GenerationRequest& RequestOf(const Running& r) const { return requests_[r.request]; }

  // New pages that one sample of the request needs at most, beyond the shared ones.
  int64_t PagesOfSample(const GenerationRequest& request) const {
    const int64_t prompt = static_cast<int64_t>(request.prompt_ids.size());
    return PagesFor(prompt + request.sampling.max_tokens) - prompt / kPage;
  }
  int64_t FreePages() const { return pool_.free_pages() - reserved_; }

  // Reads as many waiting prompts as fit one forward, as long as there is a place for their first sample.
  absl::Status ReadPrompts() {
    std::vector<Prompt> batch;
    int64_t tokens = 0;
    while (next_request_ < requests_.size()) {
      const GenerationRequest& request = requests_[next_request_];
      const int64_t length = static_cast<int64_t>(request.prompt_ids.size());
      const int64_t places = limits_.max_running - static_cast<int64_t>(running_.size()) - Unstarted(batch);
      if (places <= 0 || (!batch.empty() && tokens + length > limits_.prefill_tokens)) break;
      if (FreePages() - UnstartedPages(batch) < PagesFor(length) + PagesOfSample(request)) {
        if (running_.empty() && prompts_.empty() && batch.empty()) {
          return absl::ResourceExhaustedError(absl::StrCat("request ", next_request_, " needs ", PagesFor(length) + PagesOfSample(request),
                                                           " cache pages, the cache has ", pages_.pages()));
        }
        break;
      }
      Prompt prompt{next_request_, version_, {}, {}};
      for (int64_t p = 0; p < PagesFor(length); ++p) prompt.table.push_back(pool_.Take());
      batch.push_back(std::move(prompt));
      tokens += length;
      ++next_request_;
    }
    if (!batch.empty()) HONE_RETURN_IF_ERROR(Prefill(batch));
    for (Prompt& prompt : batch) prompts_.push_back(std::move(prompt));
    return absl::OkStatus();
  }

  int64_t Unstarted(const std::vector<Prompt>& batch) const {
    int64_t count = 0;
    for (const Prompt& p : prompts_) count += requests_[p.request].samples - p.started;
    for (const Prompt& p : batch) count += requests_[p.request].samples;
    return count;
  }
  // Pages that the prompts read but not started must still find for their first sample.
  int64_t UnstartedPages(const std::vector<Prompt>& batch) const {
    int64_t count = 0;
    for (const Prompt& p : prompts_) count += PagesOfSample(requests_[p.request]);
    for (const Prompt& p : batch) count += PagesOfSample(requests_[p.request]);
    return count;
  }

  absl::Status Prefill(std::vector<Prompt>& batch) {
    std::vector<PagedTokens::Row> rows;
    std::vector<int64_t> ids, last_rows;
    std::vector<Prompt*> ended;
    for (Prompt& prompt : batch) {
      const std::vector<int32_t>& prompt_ids = requests_[prompt.request].prompt_ids;
      for (size_t t = 0; t < prompt_ids.size(); ++t) {
        if (static_cast<int64_t>(rows.size()) == limits_.prefill_tokens) {
          HONE_RETURN_IF_ERROR(PrefillChunk(rows, ids, last_rows, ended));
        }
        rows.push_back({prompt.table.data(), static_cast<int64_t>(t)});
        ids.push_back(prompt_ids[t]);
      }
      last_rows.push_back(static_cast<int64_t>(rows.size()) - 1);
      ended.push_back(&prompt);
    }
    return PrefillChunk(rows, ids, last_rows, ended);
  }

  absl::Status PrefillChunk(std::vector<PagedTokens::Row>& rows, std::vector<int64_t>& ids,
                            std::vector<int64_t>& last_rows, std::vector<Prompt*>& ended) {
    HONE_ASSIGN_OR_RETURN(at::Tensor hidden, Forward(rows, ids));
    if (!ended.empty()) {
      HONE_ASSIGN_OR_RETURN(const at::Tensor logits, decoder_.Logits(hidden.index_select(0, at::tensor(last_rows, at::kLong))));
      const int64_t vocab = logits.size(1);
      const float* z = logits.const_data_ptr<float>();
      for (size_t i = 0; i < ended.size(); ++i) ended[i]->logits.assign(z + i * vocab, z + (i + 1) * vocab);
    }
    rows.clear();
    ids.clear();
    last_rows.clear();
    ended.clear();
    return absl::OkStatus();
  }

  absl::StatusOr<at::Tensor> Forward(const std::vector<PagedTokens::Row>& rows, const std::vector<int64_t>& ids) {
    std::vector<int64_t> positions(rows.size());
    for (size_t r = 0; r < rows.size(); ++r) positions[r] = rows[r].position;
    PagedTokens attention(pages_, rows);
    return decoder_.Hidden(at::tensor(ids, at::kLong), at::tensor(positions, at::kLong), attention);
  }

  // Starts waiting samples of prompts that have been read, while there are places and pages.
  absl::Status StartSamples() {
    while (!prompts_.empty() && static_cast<int64_t>(running_.size()) < limits_.max_running) {
      Prompt& prompt = prompts_.front();
      const GenerationRequest& request = requests_[prompt.request];
      const int64_t need = PagesOfSample(request);
      if (FreePages() < need) break;
      Running sample{prompt.request, static_cast<size_t>(prompt.started++), {}, static_cast<int64_t>(request.prompt_ids.size())};
      const int64_t full = sample.length / kPage;
      for (int64_t p = 0; p < full; ++p) {
        sample.table.push_back(prompt.table[p]);
        pool_.Share(prompt.table[p]);
      }
      reserved_ += need;
      if (sample.length % kPage != 0) {
        AddPage(sample);
        pages_.Copy(prompt.table[full], sample.table[full]);
      }
      const int64_t vocab = static_cast<int64_t>(prompt.logits.size());
      const TokenDraw draw = DrawFor(sample, prompt.logits.data(), vocab);
      HONE_RETURN_IF_ERROR(Accept(sample, draw, prompt.version));
      if (Done(sample)) {
        Finish(sample);
      } else {
        running_.push_back(std::move(sample));
      }
      if (prompt.started == request.samples) {
        for (int32_t page : prompt.table) pool_.Release(page);
        prompts_.pop_front();
      }
    }
    return absl::OkStatus();
  }

  void AddPage(Running& sample) {
    sample.table.push_back(pool_.Take());
    --reserved_;
  }

  TokenDraw DrawFor(const Running& sample, const float* logits, int64_t vocab) const {
    const GenerationRequest& request = RequestOf(sample);
    const uint64_t token = results_[sample.request][sample.sample].ids.size();
    return DrawToken(logits, vocab, request.sampling, UniformAt(request.seed, sample.sample, token));
  }

  absl::Status Accept(const Running& sample, const TokenDraw& draw, int64_t version) {
    if (draw.id < 0) {
      return absl::InternalError(absl::StrCat("request ", sample.request, ", sample ", sample.sample, ", token ",
                                              results_[sample.request][sample.sample].ids.size(), ": logits are not finite"));
    }
    Sample& result = results_[sample.request][sample.sample];
    AddVersion(result.versions, static_cast<int64_t>(result.ids.size()), version);
    result.ids.push_back(draw.id);
    result.log_probs.push_back(draw.log_prob);
    return absl::OkStatus();
  }

  bool Done(const Running& sample) {
    const SamplingOptions& sampling = RequestOf(sample).sampling;
    Sample& result = results_[sample.request][sample.sample];
    const bool stopped = std::find(sampling.stop_ids.begin(), sampling.stop_ids.end(), result.ids.back()) != sampling.stop_ids.end();
    result.finish = stopped ? FinishReason::kStop : FinishReason::kLength;
    return stopped || static_cast<int64_t>(result.ids.size()) >= sampling.max_tokens;
  }

  void Finish(const Running& sample) {
    const GenerationRequest& request = RequestOf(sample);
    // What it had set aside and never took.
    const int64_t own = static_cast<int64_t>(sample.table.size()) - static_cast<int64_t>(request.prompt_ids.size()) / kPage;
    reserved_ -= PagesOfSample(request) - own;
    for (int32_t page : sample.table) pool_.Release(page);
    if (options_.on_sample) options_.on_sample(sample.request, sample.sample, results_[sample.request][sample.sample]);
  }

  absl::Status Decode() {
    std::vector<PagedTokens::Row> rows;
    std::vector<int64_t> ids;
    for (Running& sample : running_) {
      if (sample.length == static_cast<int64_t>(sample.table.size()) * kPage) AddPage(sample);
      rows.push_back({sample.table.data(), sample.length});
      ids.push_back(results_[sample.request][sample.sample].ids.back());
    }
    const int64_t version = version_;
    HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, Forward(rows, ids));
    HONE_ASSIGN_OR_RETURN(const at::Tensor logits, decoder_.Logits(hidden));
    const int64_t vocab = logits.size(1);
    const float* z = logits.const_data_ptr<float>();
    std::vector<TokenDraw> draws(running_.size());
    at::parallel_for(0, static_cast<int64_t>(draws.size()), std::max<int64_t>(1, 4096 / vocab), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) draws[i] = DrawFor(running_[i], z + i * vocab, vocab);
    });
    std::vector<Running> still;
    for (size_t i = 0; i < draws.size(); ++i) {
      ++running_[i].length;
      HONE_RETURN_IF_ERROR(Accept(running_[i], draws[i], version));
      if (Done(running_[i])) {
        Finish(running_[i]);
      } else {
        still.push_back(std::move(running_[i]));
      }
    }
    running_ = std::move(still);
    return absl::OkStatus();
  }

  void Abort() {
    for (const Running& sample : running_) {
      results_[sample.request][sample.sample].finish = FinishReason::kAborted;
      if (options_.on_sample) options_.on_sample(sample.request, sample.sample, results_[sample.request][sample.sample]);
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      for (size_t j = 0; j < results_[i].size(); ++j) {
        Sample& result = results_[i][j];
        if (!result.ids.empty()) continue;
        result.finish = FinishReason::kAborted;
        if (options_.on_sample) options_.on_sample(i, j, result);
      }
    }
  }

  const NativeEngineOptions& limits_;
  policy::Decoder& decoder_;
  KeyValuePages& pages_;
  const int64_t& version_;
  absl::Span<const GenerationRequest> requests_;
  const GenerateOptions& options_;
  PagePool pool_;
  int64_t reserved_ = 0;  // pages that running samples may still take
  size_t next_request_ = 0;
  std::deque<Prompt> prompts_;
  std::vector<Running> running_;
  std::vector<std::vector<Sample>> results_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NativeEngine>> NativeEngine::Create(const NativeEngineOptions& options, policy::Decoder& decoder) {
  const auto bad = [](const char* name, int64_t value, int64_t least) {
    return absl::InvalidArgumentError(absl::StrCat("engine: ", name, " = ", value, ", allowed >= ", least));
  };
  if (options.max_running < 1) return bad("max_running", options.max_running, 1);
  if (options.prefill_tokens < 1) return bad("prefill_tokens", options.prefill_tokens, 1);
  const int64_t page_bytes = KeyValuePages::BytesPerPage(decoder.config());
  if (options.cache_bytes < page_bytes) return bad("cache_bytes", options.cache_bytes, page_bytes);
  if (!policy::UsesCpuKernels(decoder.parameters().flat())) {
    return absl::InvalidArgumentError("engine: the native engine needs an fp32 decoder on the CPU");
  }
  return std::unique_ptr<NativeEngine>(new NativeEngine(std::make_unique<State>(
      State{options, decoder, KeyValuePages(decoder.config(), options.cache_bytes / page_bytes)})));
}

NativeEngine::NativeEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
NativeEngine::~NativeEngine() = default;

absl::StatusOr<std::vector<std::vector<Sample>>> NativeEngine::Generate(absl::Span<const GenerationRequest> requests,
                                                                        const GenerateOptions& options) {
  for (size_t i = 0; i < requests.size(); ++i) HONE_RETURN_IF_ERROR(CheckRequest(requests[i], i, state_->decoder.config()));
  at::NoGradGuard no_grad;
  return Batch(state_->options, state_->decoder, state_->pages, state_->version, requests, options).Run();
}

absl::Status NativeEngine::SetPolicyVersion(int64_t version) {
  if (version < state_->version) {
    return absl::InvalidArgumentError(absl::StrCat("policy version ", version, " is older than ", state_->version));
  }
  state_->version = version;
  return absl::OkStatus();
}

int64_t NativeEngine::policy_version() const { return state_->version; }

}  // namespace hone::rollout

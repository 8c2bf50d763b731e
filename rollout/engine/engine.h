#pragma once

// Text generation as the episode driver sees it: prompts in as exact ids, samples out with exact ids, the log-probs of
// the distribution really sampled, and the policy version of every token. Engines: in-process (native_engine.h); servers
// that speak the OpenAI HTTP API.

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/episode.h"

namespace hone::rollout {

/// Order of the filters: temperature, then top-k, then top-p, then min-p, each on what the one before left.
struct SamplingOptions {
  double temperature = 1;   // 0: the most likely token, the lowest id of equals
  int64_t top_k = 0;        // 0: off
  double top_p = 1;         // smallest set of most likely tokens that holds this probability
  double min_p = 0;         // tokens below min_p times the most likely one's probability are dropped
  int64_t max_tokens = 256;
  std::vector<int32_t> stop_ids;  // end the sample; the id itself is part of it
};

/// kInvalidArgument names the field, its value and the allowed range.
absl::Status Validate(const SamplingOptions& options);

struct GenerationRequest {
  std::vector<int32_t> prompt_ids;
  int64_t samples = 1;  // of the same prompt, which is read once
  uint64_t seed = 0;    // with the sample's index it decides every draw, whatever else is in the batch
  SamplingOptions sampling;
};

enum class FinishReason { kStop, kLength, kAborted };

struct Sample {
  std::vector<int32_t> ids;
  /// [ids] log-probability under the distribution really sampled: after temperature and filters. At temperature 0, where
  /// that would be 0 throughout, of the plain softmax.
  std::vector<float> log_probs;
  std::vector<VersionSpan> versions;  // cover ids in order
  FinishReason finish = FinishReason::kLength;
};

struct GenerateOptions {
  /// Called once for each sample as it ends, on the generating thread; lets verification overlap with generation.
  std::function<void(size_t request, size_t sample, const Sample& result)> on_sample;
  /// Called after every new token, on the generating thread; true ends the sample as kStop with this token. For stop
  /// strings, which need a tokenizer: stop_strings.h.
  std::function<bool(size_t request, size_t sample, const Sample& so_far)> stop;
  /// Set to true from any thread: samples that have not ended end as kAborted with what they have.
  const std::atomic<bool>* abort = nullptr;
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// result[i][j]: sample j of request i. kInvalidArgument: an empty prompt, an id outside the vocabulary, prompt plus
  /// max_tokens over the context. kResourceExhausted: one request alone does not fit the cache. kInternal: logits that
  /// are not finite (names the request). On an error no sample is returned.
  virtual absl::StatusOr<std::vector<std::vector<Sample>>> Generate(absl::Span<const GenerationRequest> requests,
                                                                    const GenerateOptions& options) = 0;

  /// Says that the weights are now those of `version`. Tokens from here on carry it. May be called from on_sample:
  /// running samples go on with the new weights over the keys and values that the old ones computed.
  virtual absl::Status SetPolicyVersion(int64_t version) = 0;
  virtual int64_t policy_version() const = 0;

  /// Gives back the memory that only sampling needs, to a learner on the same device; the next Generate takes it again.
  /// kFailedPrecondition: samples are running. Engines elsewhere hold none.
  virtual absl::Status ReleaseMemory() { return absl::OkStatus(); }
};

}  // namespace hone::rollout

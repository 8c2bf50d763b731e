#pragma once

// The engine inside the process: a Scheduler over the forward passes of one device. On the CPU it shares the decoder, and
// so the weights, with the learner. On CUDA (builds with HONE_WITH_CUDA) the decoder holds the engine's bf16 weights.

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "policy/model/decoder.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/scheduler.h"

namespace hone::rollout {

struct NativeEngineOptions {
  int64_t max_running = 64;                    // samples decoded together
  int64_t prefill_tokens = 2048;               // prompt tokens a forward reads at most; longer prompts come in chunks
  int64_t cache_bytes = int64_t{256} << 20;    // for keys and values
  bool deterministic = false;  // CUDA: a sample depends on its seed alone, whatever the batch; slower. The CPU always does
};

/// Samples with the weights that the decoder has when Generate is called, and with the adapter that it wore at Create: a learner
/// that trains either in place needs to tell nothing but the version.
/// Not thread-safe; Generate and the learner's step must not overlap, except through on_sample.
class NativeEngine : public Engine {
 public:
  /// `decoder` is borrowed for the engine's life: fp32 on the CPU or bf16 with fp32_activations, or bf16 on CUDA. kInvalidArgument: another one, a
  /// non-positive option, or a cache below one page. kUnimplemented: CUDA in a build without it.
  static absl::StatusOr<std::unique_ptr<NativeEngine>> Create(const NativeEngineOptions& options, policy::Decoder& decoder);
  ~NativeEngine() override;

  absl::StatusOr<std::vector<std::vector<Sample>>> Generate(absl::Span<const GenerationRequest> requests,
                                                            const GenerateOptions& options) override;
  absl::Status SetPolicyVersion(int64_t version) override;
  int64_t policy_version() const override { return scheduler_.version(); }
  /// That of keys and values. Addresses stay, and with them what was recorded of decode steps: taking it again costs
  /// milliseconds. Generate is kResourceExhausted when others hold it then.
  absl::Status ReleaseMemory() override;

  /// Copies `weights`, a flat buffer laid out as decoder.parameters().flat(), into the decoder between two steps and
  /// calls SetPolicyVersion. Any dtype and device. kInvalidArgument: another size.
  absl::Status UpdateWeights(const at::Tensor& weights, int64_t version);
  /// The same with weights that `write` puts into the decoder in place, between two steps: received from a learner. It
  /// returns their version. Its error comes back: kFailedPrecondition says that nothing was changed, after any other the
  /// weights may be half new, and Generate is kFailedPrecondition until an update succeeds.
  absl::Status UpdateWeights(const std::function<absl::StatusOr<int64_t>()>& write);

  /// For callers that submit and step themselves (a server); not while Generate runs.
  Scheduler& scheduler() { return scheduler_; }
  /// What Scheduler::Submit does not check: ids and lengths against the model. kInvalidArgument.
  absl::Status Check(const GenerationRequest& request) const;

 private:
  NativeEngine(policy::Decoder& decoder, std::unique_ptr<Runner> runner)
      : decoder_(decoder), runner_(std::move(runner)), scheduler_(*runner_) {}

  policy::Decoder& decoder_;
  bool weights_whole_ = true;
  int64_t weights_seen_ = -1;  // their tensor's own count of changes
  std::unique_ptr<Runner> runner_;
  Scheduler scheduler_;
};

}  // namespace hone::rollout

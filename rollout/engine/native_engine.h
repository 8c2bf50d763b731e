#pragma once

// The engine inside the process: it shares the decoder, and so the weights, with the learner.
//
// Continuous batching: each step decodes one token of every running sample in one forward; a finished sample's place is
// taken by a waiting one. A prompt is read once for all samples of its request: full pages of its keys and values are
// shared, the last partial one is copied. Memory for a sample's longest possible answer is set aside when it starts, so
// that nothing running is ever evicted.

#include <memory>

#include "absl/status/statusor.h"
#include "policy/model/decoder.h"
#include "rollout/engine/engine.h"

namespace hone::rollout {

struct NativeEngineOptions {
  int64_t max_running = 64;                    // samples decoded together
  int64_t prefill_tokens = 2048;               // prompt tokens a forward reads at most; longer prompts come in chunks
  int64_t cache_bytes = int64_t{256} << 20;    // for keys and values
};

/// fp32 on the CPU. Not thread-safe; Generate and the learner's step must not overlap, except through on_sample.
class NativeEngine : public Engine {
 public:
  /// `decoder` is borrowed for the engine's life. kInvalidArgument: a non-positive option, cache below one page, or a
  /// decoder that is not fp32 on the CPU.
  static absl::StatusOr<std::unique_ptr<NativeEngine>> Create(const NativeEngineOptions& options, policy::Decoder& decoder);
  ~NativeEngine() override;

  absl::StatusOr<std::vector<std::vector<Sample>>> Generate(absl::Span<const GenerationRequest> requests,
                                                            const GenerateOptions& options) override;
  absl::Status SetPolicyVersion(int64_t version) override;
  int64_t policy_version() const override;

 private:
  struct State;
  explicit NativeEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::rollout

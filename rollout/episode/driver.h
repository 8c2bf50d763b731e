#pragma once

// The multi-turn driver: samples responses, has them verified, feeds the evidence back, until a candidate passes or the
// turn budget is spent. Everything it works with is an interface, so it runs without torch, model or verifier.
//
// Token ids are kept exactly as sampled: the prompt of turn k+1 is the prompt of turn k, the response of turn k and the
// encoded feedback, never a text encoded anew.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/config.h"
#include "base/episode.h"
#include "base/task.h"
#include "base/verify_request.h"
#include "rewards/terms/cuda_l1.h"
#include "rollout/engine/engine.h"
#include "verifier/client/client.h"

namespace hone::rollout {

/// Texts of turns as tokens; knows the chat template.
class TurnEncoder {
 public:
  virtual ~TurnEncoder() = default;
  /// The tokens between a response and the next one: end of the assistant's turn if the response lacks it, the
  /// feedback as a user's turn, and the opening of the assistant's next turn.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeFeedback(const Turn& answered) = 0;
  virtual std::string TextOf(absl::Span<const int32_t> ids) = 0;
  /// The candidate in a response; std::nullopt: none, which is a PARSE verdict without asking the verifier.
  virtual std::optional<std::string> CandidateOf(const std::string& response) = 0;
};

/// One prompt, to be sampled G times.
struct GroupRequest {
  std::string id;
  Task task;
  std::vector<int32_t> prompt_ids;
  bool retry = false;  // a repair task of the retry buffer
  std::optional<uint64_t> seed;  // in place of Run's
  std::optional<double> best;    // the task's best speedup so far, for the re-measure rule; none: only its absolute limit applies
};

struct DriverConfig {
  int64_t group_size = 8;
  int64_t turns = 3;
  bool stop_at_pass = true;
  int64_t max_context_tokens = 0;
  bool stream = false;
  bool hold_lanes = false;
};
template <class F>
void Describe(F& f, DriverConfig& c) {
  f.Value("group_size", c.group_size, Range(1, 4096), "episodes of one prompt");
  f.Value("turns", c.turns, Range(1, 64), "largest number of responses of an episode");
  f.Value("stop_at_pass", c.stop_at_pass, "end an episode at its first pass");
  f.Value("max_context_tokens", c.max_context_tokens, Range(0, 1 << 24),
          "an episode ends before a turn whose prompt and longest response exceed this; 0: no limit");
  f.Value("stream", c.stream, "verify a response as soon as it is whole, while others are generated");
  f.Value("hold_lanes", c.hold_lanes, "have nothing timed while responses are generated, as on a device that both use");
}

/// What the driver asks the verifier for besides the candidate.
struct VerifyTemplate {
  Format format = Format::kNative;
  Backend backend = Backend::kCuda;
  Protocol protocol;
};

/// Where a batch is. Given at the start of each phase, in the driver's thread, and at every verdict, in the thread that hands
/// it out.
struct DriverProgress {
  int64_t turn = 0;      // from 1
  int64_t awaiting = 0;  // responses or verdicts still missing in this turn
  bool verifying = false;
};

/// Where a batch's time went.
struct DriverSeconds {
  double generate = 0;  // the engine ran; where responses are streamed, verification, too
  double verify = 0;    // nothing but verification was waited for
  double judging = 0;   // the verifier had work, whatever else ran
};

class EpisodeDriver {
 public:
  /// All borrowed for the driver's life.
  struct Parts {
    Engine* engine = nullptr;
    TurnEncoder* encoder = nullptr;
    verifier::Client* client = nullptr;
    std::function<void(const DriverProgress&)> on_progress;  // may be empty
    const std::atomic<bool>* abort = nullptr;  // true ends Run with kCancelled; may be null
    /// Called once a Run, in its thread, when the first turn's responses are whole and their verdicts are waited for: time
    /// for work of the caller's. `answers` are those responses, whose verdicts may not be looked at. Its error ends Run. May be
    /// empty.
    std::function<absl::Status(absl::Span<const Turn* const> answers)> meanwhile;
  };
  EpisodeDriver(const DriverConfig& config, const SamplingOptions& sampling, const VerifyTemplate& verify,
                const rewards::RemeasureRule& remeasure, Parts parts)
      : config_(config), sampling_(sampling), verify_(verify), remeasure_(remeasure), parts_(std::move(parts)) {}

  /// Samples and verifies every group. Episodes of a turn are generated in one call and verified in one stream, each as soon
  /// as it is whole (or all after the last one, without config.stream): verdicts do not depend on it.
  /// Seeds of responses are a function of `seed`, group, episode and turn, so equal seeds replay equal episodes on a
  /// deterministic engine whatever else is in the batch. At turn 1 a group is one request, its prompt read once.
  /// A pass too fast to be believed (RemeasureRule) is verified a second time without the cache, on another lane of the
  /// device's kind where there is one; a measurement that is not confirmed becomes INFRA: no sample, as CUDA-L1 discards
  /// it.
  /// An INFRA verdict ends its episode: there is no evidence to go on with.
  /// Errors: those of engine, encoder and client. On an error nothing is returned.
  absl::StatusOr<std::vector<Group>> Run(absl::Span<const GroupRequest> requests, uint64_t seed);

  /// Of all calls of Run.
  const DriverSeconds& seconds() const { return seconds_; }

 private:
  struct Live;
  struct Judging;
  absl::Status PlayTurn(std::vector<Live>& live, int64_t turn, uint64_t seed);
  absl::Status GenerateTurn(std::vector<Live>& live, int64_t turn, uint64_t seed, Judging& judging);
  absl::Status Take(Live& live, Sample sample);
  absl::Status Remeasure(std::vector<Live>& live, const std::vector<size_t>& doubted, int64_t turn);
  absl::StatusOr<std::vector<Live>> NextTurn(const std::vector<Live>& live, int64_t turn);
  VerifyRequest RequestFor(const Live& live, bool use_cache) const;
  void Report(int64_t turn, int64_t awaiting, bool verifying) const;

  DriverConfig config_;
  SamplingOptions sampling_;
  VerifyTemplate verify_;
  rewards::RemeasureRule remeasure_;
  Parts parts_;
  DriverSeconds seconds_;
};

/// Two measurements of one candidate: the slower of two that agree, with the other's lane as its confirmation, else INFRA
/// with the reason. An INFRA second leaves no result either: a score that may not be believed is not used.
Verdict Settle(const Verdict& first, const Verdict& second, const rewards::RemeasureRule& rule);

/// Of ordinary and of repair episodes alike; episodes without any judged turn are left out.
///   episodes/first_turn_correct    share that passed at turn 1
///   episodes/best_turn_correct     share that passed at any turn
///   episodes/turns_mean            responses an episode took
///   episodes/turns_to_success      mean turn of the first pass, of those that passed
///   episodes/passed_at_turn_<k>    share whose first pass was turn k, for each turn that occurs
///   episodes/truncated             share of the turns cut by the length limit
///   episodes/infra                 share of the episodes without a judged turn
std::map<std::string, double> EpisodeMetrics(absl::Span<const Group> groups);

}  // namespace hone::rollout

#pragma once

// The reinforcement loop: groups in, reward, one learner step, a new policy version; everything recorded before it is
// trained on.
//
//   source.Collect ─▶ journal (synced) ─▶ pipeline ─▶ RlTrainer ─▶ source.Learned ─▶ metrics
//
// With a lag, what is learned from was sampled by an earlier policy. With an overlap as well, a batch is learned from while the
// verdicts of the next one are waited for: sampling, verifying and learning then take turns on one device without waiting
// for one another, one step off the policy. The results are those of the same lag without it.

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/episode.h"
#include "base/journal.h"
#include "base/metrics.h"
#include "rewards/compose/pipeline.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/led_ranks.h"
#include "trainer/loop/log_prob_file.h"
#include "trainer/loop/rl_trainer.h"

namespace hone::trainer {

/// Where groups come from: prompts, sampling and verdicts.
class GroupSource {
 public:
  virtual ~GroupSource() = default;

  using Meanwhile = std::function<absl::Status(absl::Span<const Turn* const> answers)>;

  /// Once, before the first Collect: where the run starts, or goes on.
  virtual absl::Status Begin(int64_t step, int64_t policy_version) = 0;

  /// The groups of one step, judged. `metrics` takes the source's own figures ("seconds/generate"). `meanwhile`, unless empty,
  /// is called once, after the first responses, which it is given without their verdicts, and before those are waited for; its
  /// error is Collect's.
  virtual absl::StatusOr<std::vector<Group>> Collect(int64_t step, const Meanwhile& meanwhile, StepMetrics& metrics) = 0;

  /// Once a step: what was collected has been learned from, had nothing to learn from or waits for more, and the policy is
  /// now `policy_version`. The weights stay as they are until Collect has been called again and has returned, its
  /// `meanwhile` aside.
  virtual absl::Status Learned(int64_t policy_version, StepMetrics& metrics) = 0;

  /// Everything that decides what Collect does next, for a checkpoint; and back. kDataLoss: not a state of Save.
  virtual absl::StatusOr<std::string> Save() = 0;
  virtual absl::Status Restore(const std::string& state) = 0;
};

struct RlLoopOptions {
  int64_t lag = 0;                 // steps that learning is behind sampling; the last `lag` batches are not learned from
  bool overlap = false;            // learn while verdicts are waited for; needs a lag
  /// Groups with a difference to learn from that make a batch: it is filled over as many steps as that takes, and groups of
  /// equal rewards are left out. DAPO's dynamic sampling, arXiv:2503.14476, section 3.2. 0: a step's groups are a batch.
  int64_t fill = 0;
  int64_t recorded_sequences = 0;  // of a batch, spread over it: log-probs of so many are recorded as they are learned from (needs
                                   // RlOptions::score), and so many are scored before anything is learned, for gap/
};

/// Borrowed for the loop's life.
struct RlLoopParts {
  GroupSource& source;
  const rewards::Pipeline& rewards;
  RlTrainer& trainer;
  JournalWriter& journal;
  MetricsWriter& metrics;
  LogProbFile* log_probs = nullptr;  // null: nothing is recorded
  LedRanks* ranks = nullptr;         // that learn with this one, which leads them; null: alone
  std::function<void(const std::string& what)> on_phase = {};  // hears "the journal" and "the rewards"
};

/// Not thread-safe.
class RlLoop {
 public:
  explicit RlLoop(const RlLoopParts& parts, const RlLoopOptions& options = {}) : options_(options), parts_(parts) {}

  /// Steps done. Not the learner's count: a step without a trained turn makes no update, and one batch may make several.
  int64_t step() const { return step_; }

  /// One step, which then counts: a batch is sampled, and the one of `lag` steps before is learned from. The metrics are
  /// also written to the run's files: reward/mean and /std over trained turns, reward/part/<term> (see
  /// Pipeline::PartMeans), correct/first_turn and /best_turn (INFRA
  /// left out), speedup/<baseline> (geometric mean of right first turns), verdict/<STATUS> shares,
  /// rollout/response_tokens, reward/zero_signal_groups, seconds/<phase> (learn, update: telling the source of new weights,
  /// step; the source's own), share/generate of the step, gap/abs_log_ratio (mean |log pi_learner - log pi_sampler| of the same
  /// weights, over the gap/tokens of first responses that were sampled by the learner's present ones: what the two halves differ
  /// by, without what learning has changed since; where one process samples and learns), on a GPU memory/peak_gb of torch's allocator and memory/device_gb
  /// in use after learning, by whomever, all of the batch sampled, and the trainer's under learn/.
  absl::StatusOr<StepMetrics> Step();

  /// Learner, source, batches and groups not yet learned from and counter: all that decides the next step. Tensors are borrowed:
  /// write it before the next step. data.step is step().
  absl::StatusOr<CheckpointData> Save() const;
  /// Goes on bit for bit after the step of `data`, the policy's version included. Errors are those of
  /// RestoreLearnerState and GroupSource::Restore; kInvalidArgument: not a checkpoint of this loop. Not to be used then.
  absl::Status Restore(const CheckpointData& data);

  /// The same without the learner, whose state is spread over ranks (sharded_state.h).
  absl::StatusOr<CheckpointData> SaveOwn() const;
  absl::Status RestoreOwn(const CheckpointData& data);

 private:
  void Enter(const char* what) const {
    if (parts_.on_phase) parts_.on_phase(what);
  }
  void Queue(std::vector<Group> groups, StepMetrics& metrics);
  absl::Status MeasureGap(absl::Span<const Turn* const> answers, StepMetrics& metrics);
  absl::Status LearnOldest(StepMetrics& metrics);
  absl::Status Learn(const std::vector<Group>& groups, StepMetrics& metrics);
  absl::StatusOr<StepMetrics> LearnFrom(const std::vector<TrainSequence>& sequences);
  absl::Status Record(const std::vector<TrainSequence>& sequences, const std::vector<Group>& groups,
                      const rewards::BatchCredit& credit, int64_t version);

  RlLoopOptions options_;
  RlLoopParts parts_;
  int64_t step_ = 0;
  bool begun_ = false;
  std::deque<std::vector<Group>> waiting_;  // sampled, not yet learned from; oldest first
  std::vector<Group> filling_;              // of a batch that is not whole yet
};

/// The trained turns of a batch as sequences with their advantages; turns without signal are kept, they are part of the
/// denominator.
std::vector<TrainSequence> TrainedTurns(const std::vector<Group>& groups, const rewards::BatchCredit& credit);

/// The figures of a batch that RlLoop::Step lists.
StepMetrics BatchMetrics(const std::vector<Group>& groups, const rewards::BatchCredit& credit);

}  // namespace hone::trainer

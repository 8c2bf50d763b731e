#pragma once

// A run's rollouts where workers sample: prompts go to them over the coordinator, with leases; groups come back; weights
// follow over channels of their own.
//
//   draws ─▶ gate (lag) ─▶ leases ◀─gRPC─▶ hone worker ... hone worker
//     ▲                      │ cut               ▲
//     └──── learned ◀── Collect ── weights ──────┘   (sent while Collect waits: never while they change)

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cli/train/draws.h"
#include "cli/train/episodes.h"
#include "cli/train/workers_settings.h"
#include "policy/model/decoder.h"
#include "trainer/comm/weight_server.h"
#include "trainer/coordinator/coordinator.h"
#include "trainer/coordinator/run_desk.h"
#include "trainer/coordinator/service.h"
#include "trainer/loop/rl_loop.h"

namespace hone::cli {

/// What workers are told of a run.
struct WorkersPlan {
  WorkersSettings settings;
  std::string run_settings;                  // YAML
  std::map<std::string, std::string> files;  // the policy's folder without weights
};

/// The weights that workers get. `visit` empty: they are whole on this rank.
struct PolicyWeights {
  policy::Decoder& decoder;
  trainer::VisitLeaves visit;
};

/// The learner's thread, and one of the coordinator's that draws prompts.
class WorkerGroups : public trainer::GroupSource {
 public:
  /// Borrows all but the plan; `exemplars` null: none. kUnavailable: the store cannot be hosted.
  static absl::StatusOr<std::unique_ptr<WorkerGroups>> Create(const RlSettings& settings, const RolloutParts& parts,
                                                              rollout::ExemplarStore* exemplars, WorkersPlan plan,
                                                              PolicyWeights weights);
  /// Workers that are still there wait for the run to go on, unless it has ended.
  ~WorkerGroups() override;

  /// Serves. kFailedPrecondition: the address cannot be served.
  absl::Status Begin(int64_t step, int64_t policy_version) override;

  /// Metrics: workers/alive, workers/leases_lost (not renewed), workers/leases_returned (given back or refused),
  /// workers/groups_carried_in (from earlier batches), workers/groups_carried_over (to later ones), workers/groups_stale
  /// (came too late and were dropped), workers/groups_given_up, workers/generate_s and workers/verify_s (summed over
  /// workers), weights/sent, seconds/weights (sending them), seconds/wait (for groups, sending included), and those of
  /// LoadMetrics, of retry buffer, exemplars and episodes.
  /// kCancelled: interrupted. kDeadlineExceeded: nothing came for patience_s, or every group was given up.
  absl::StatusOr<std::vector<Group>> Collect(int64_t step, const Meanwhile& meanwhile, trainer::StepMetrics& metrics) override;
  absl::Status Learned(int64_t policy_version, trainer::StepMetrics& metrics) override;

  /// As before the prompts of the first batch that has not been learned from were drawn: a run that goes on draws them again.
  absl::StatusOr<std::string> Save() override;
  absl::Status Restore(const std::string& state) override;

  /// The run has come to its end: workers are told, and end.
  void Finish();

  /// Called a few times a second while Collect waits: what else must be kept alive meanwhile. May be empty.
  std::function<absl::Status()> on_wait;

 private:
  WorkerGroups(const RlSettings& settings, const RolloutParts& parts, rollout::ExemplarStore* exemplars, WorkersPlan plan,
               PolicyWeights weights, std::unique_ptr<trainer::WeightServer> server, bool nccl);
  absl::StatusOr<trainer::Coordinator::Prompts> Prompts(int64_t number);
  absl::StatusOr<trainer::CutBatch> Await(int64_t step, trainer::StepMetrics& metrics);
  absl::Status SendWeights(trainer::StepMetrics& metrics);
  void DropGone();

  const RlSettings& settings_;
  RolloutParts parts_;
  const WorkersPlan plan_;
  PolicyWeights weights_;
  std::unique_ptr<trainer::WeightServer> server_;
  const bool nccl_;
  int64_t version_ = 0;
  int64_t learned_ = 0;   // batches
  int64_t meetings_ = 0;  // so far
  absl::Mutex mutex_;     // draws are made by the coordinator's thread
  PromptDraws draws_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, std::string> before_ ABSL_GUARDED_BY(mutex_);  // the draws' state before those of a batch
  std::unique_ptr<trainer::RunDesk> desk_;
  std::unique_ptr<trainer::Coordinator> coordinator_;
  std::unique_ptr<trainer::CoordinatorServer> service_;
};

}  // namespace hone::cli

#pragma once

// A learner's batches from workers that sample all the time: the gate of batch_queue.h before the leases of
// lease_table.h, and a thread between them.
//
//   prompts(b) ─▶ gate ─▶ leases ◀──▶ workers
//                           │ cut
//   Take ◀──── queue ◀──────┘            Learned(version) opens the gate
//
// A batch's prompts are asked for when the gate lets it begin, so that they can depend on what was learned from before.

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "trainer/coordinator/batch_queue.h"
#include "trainer/coordinator/lease_table.h"

namespace hone::trainer {

struct CoordinatorOptions {
  LeaseOptions leases;
  int64_t max_lag = 1;  // batches that sampling may be ahead of learning
  int64_t batches = INT64_MAX;  // of the run; none is begun after them
};

/// Thread-safe.
class Coordinator {
 public:
  struct Prompts {
    std::vector<rollout::GroupRequest> groups;  // ids unique in a run
    uint64_t seed = 0;
  };
  /// Of batch `number`; called from the coordinator's thread, in order. An error ends the run.
  using PromptSource = std::function<absl::StatusOr<Prompts>(int64_t number)>;

  /// Begins at once. kInvalidArgument names the option and its range.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(const CoordinatorOptions& options, PromptSource prompts,
                                                             BatchQueue<CutBatch>::Start start = {});
  ~Coordinator();

  /// What workers lease from: serve it (service.h).
  LeaseTable& leases() { return *leases_; }

  /// As BatchQueue's; kDeadlineExceeded also says which groups are missing and who has them.
  absl::StatusOr<CutBatch> Take(SteadyTime deadline);
  absl::Status Learned(int64_t version) { return queue_.Learned(version); }

  /// Ends everything: kCancelled at the planned end of a run. The first counts.
  void Close(const absl::Status& why);

 private:
  Coordinator(const CoordinatorOptions& options, std::unique_ptr<LeaseTable> leases, PromptSource prompts,
              BatchQueue<CutBatch>::Start start);
  void Run();
  absl::Status Open(const BatchPermit& permit);
  absl::Status Cut(SteadyTime deadline);

  const int64_t batches_;
  int64_t next_;  // batch to be begun
  std::unique_ptr<LeaseTable> leases_;
  const PromptSource prompts_;
  BatchQueue<CutBatch> queue_;
  std::deque<BatchPermit> open_;  // of batches that are being sampled, the oldest first
  std::thread thread_;
};

}  // namespace hone::trainer

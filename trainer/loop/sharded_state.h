#pragma once

// Checkpoints of weights that are spread over ranks. Each rank writes its part, as a checkpoint of its own, in the
// background:
//
//   folder/rank_0_of_8/step_00000120, folder/rank_1_of_8/step_00000120, ...
//
// A step counts when all ranks of its job have committed it. Any number of ranks may go on from it, one process alone as
// well: parts are named by weight and position, and each rank picks what it holds now. With the number unchanged a run goes
// on bit for bit. Ranks also go on from what a process alone left in the same folder (folder/step_00000120).

#include <future>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/learner.h"

namespace hone::trainer {

/// For a learner without ranks: goes on from the newest step in `folder` when it is one of ranks. False: it is not. `more` as
/// of ShardedCheckpointer::Restore.
absl::StatusOr<bool> RestoreFromRanks(const std::string& folder, Learner& learner, CheckpointData* more = nullptr);

class ShardedCheckpointer {
 public:
  /// The folder is on storage that all ranks share. Borrows `ranks`.
  static absl::StatusOr<std::unique_ptr<ShardedCheckpointer>> Create(const std::string& folder, Communicator& ranks,
                                                                     int64_t keep = 3);
  ~ShardedCheckpointer();

  /// Copies the rank's part to the host and returns; a thread writes it. Waits for the write before, whose error it
  /// returns.
  absl::Status Save(Learner& learner) { return Save(learner, learner.step(), {}); }
  /// The same under a number of the caller's, which grows, with counters and blobs beside the learner's: what belongs to all
  /// of the job is given on the first rank alone.
  absl::Status Save(Learner& learner, int64_t step, const CheckpointData& more);
  /// Until the last Save is on the disk; its error.
  absl::Status Wait();

  /// Goes on from the newest step that is whole, of any number of ranks or of one process; false: there is none. A
  /// collective operation.
  /// `more`, unless null: the step, counters and blobs that were saved.
  absl::StatusOr<bool> Restore(Learner& learner, CheckpointData* more = nullptr);

 private:
  ShardedCheckpointer(std::string folder, Communicator& ranks, std::unique_ptr<Checkpointer> own)
      : folder_(std::move(folder)), ranks_(ranks), own_(std::move(own)) {}

  std::string folder_;
  Communicator& ranks_;
  std::unique_ptr<Checkpointer> own_;
  std::future<absl::Status> writing_;
};

}  // namespace hone::trainer

#pragma once

// Checkpoints that are whole or not there.
//
// `folder`/step_00000120/ holds
//   tensors.safetensors   every tensor given, by name (weights under their HF names, optimiser state)
//   tensors-<n>.safetensors   in its place where there is a limit on a file: tensors in order, those that are over the limit
//                         cut into flat parts "<name>#<k>", whose shape state.json keeps
//   state.json            counters
//   blobs/<n>             the caller's named bytes (sampler, buffers, generators), one file each
//   COMMIT                written last: the list of all files with length and SHA-256, then that list's own SHA-256
// Everything is written into a hidden temporary folder beside it, synced, and renamed into place: a reader sees a
// checkpoint complete or not at all, whenever the writer is killed and wherever the disk fills up. A checkpoint whose
// COMMIT is missing or whose files do not match it is not a checkpoint.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"

namespace hone::trainer {

/// All that a run needs to go on exactly where it was.
struct CheckpointData {
  int64_t step = 0;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::map<std::string, int64_t> counters;
  std::map<std::string, std::string> blobs;
};

struct CheckpointOptions {
  std::string folder;
  int64_t keep = 3;        // newest ones kept; >= 1
  int64_t keep_every = 0;  // steps that are multiples of this are kept for ever; 0: none
  int64_t max_file_bytes = 0;  // of a file of tensors, its header apart, so that checkpoints travel in pieces; 0: no limit
  /// Called with the name of each file before it is written, for tests that kill the writer there; may be empty.
  std::function<void(const std::string& file)> on_file;
};

/// Not thread-safe; one writer a folder.
class Checkpointer {
 public:
  /// Makes the folder; removes temporary folders that a killed writer left. kInvalidArgument: keep < 1.
  static absl::StatusOr<std::unique_ptr<Checkpointer>> Create(const CheckpointOptions& options);

  /// Writes step_<data.step>, then removes the checkpoints that are no longer to be kept. A checkpoint of that step that
  /// is there already is replaced. kResourceExhausted: disk full; earlier checkpoints are untouched and nothing
  /// half-written stays.
  absl::Status Save(const CheckpointData& data);

  /// The newest checkpoint that is whole. kNotFound: there is none. Damaged ones that were passed over are listed in
  /// `skipped` (path: reason) unless it is null.
  absl::StatusOr<CheckpointData> LoadLatest(std::vector<std::string>* skipped = nullptr) const;
  /// kNotFound; kDataLoss when a file does not match COMMIT (names it).
  absl::StatusOr<CheckpointData> Load(int64_t step) const;

  /// Steps of committed checkpoints (COMMIT present), ascending.
  std::vector<int64_t> Steps() const;
  std::string PathOf(int64_t step) const;

 private:
  explicit Checkpointer(const CheckpointOptions& options) : options_(options) {}
  absl::Status WriteInto(const std::string& folder, const CheckpointData& data) const;
  absl::Status Prune() const;

  CheckpointOptions options_;
};

/// For readers of somebody else's checkpoints: nothing is made or removed. `path` is that of one, ".../step_00000120".
/// kNotFound; kInvalidArgument: another name; kDataLoss when a file does not match COMMIT.
absl::StatusOr<CheckpointData> LoadCheckpoint(const std::string& path);
/// The path of the newest committed one in `folder`; empty: none.
std::string NewestCheckpoint(const std::string& folder);

}  // namespace hone::trainer

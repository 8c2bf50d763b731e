#pragma once

// The record of what sampler and learner made of the same tokens: what `hone lab noise-floor` reads. The format is that of
// trainer/loss/filters/noise_floor.h, in the journal's frames.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/journal.h"
#include "trainer/data/sequence.h"

namespace hone::trainer {

/// One thread at a time.
class LogProbFile {
 public:
  /// Goes on where the file ends. Errors as of FramedLineWriter::Open.
  static absl::StatusOr<std::unique_ptr<LogProbFile>> Open(const std::string& path);

  /// `learner` [ids] of `sequence`: log-probs before the update at learner version `version`. Staleness is `version` less
  /// the oldest version that sampled a token; 0 where the versions are unknown.
  absl::Status Append(const std::string& episode_id, int64_t turn, int64_t version, const TrainSequence& sequence,
                      const std::vector<float>& learner);
  absl::Status Sync() { return lines_->Sync(); }

 private:
  explicit LogProbFile(std::unique_ptr<FramedLineWriter> lines) : lines_(std::move(lines)) {}
  std::unique_ptr<FramedLineWriter> lines_;
};

}  // namespace hone::trainer

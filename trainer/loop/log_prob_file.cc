#include "trainer/loop/log_prob_file.h"

#include <algorithm>

#include "base/status_macros.h"
#include "trainer/loss/filters/noise_floor.h"

namespace hone::trainer {

absl::StatusOr<std::unique_ptr<LogProbFile>> LogProbFile::Open(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(auto lines, FramedLineWriter::Open(path, LogProbHeader()));
  return std::unique_ptr<LogProbFile>(new LogProbFile(std::move(lines)));
}

absl::Status LogProbFile::Append(const std::string& episode_id, int64_t turn, int64_t version,
                                 const TrainSequence& sequence, const std::vector<float>& learner) {
  LogProbRecord record;
  record.episode = episode_id;
  record.turn = turn;
  for (const VersionSpan& span : sequence.versions) {
    record.staleness = std::max(record.staleness, version - span.policy_version);
  }
  for (size_t t = 0; t < sequence.ids.size(); ++t) {
    if (sequence.loss_mask[t] == 0) continue;
    record.learner.push_back(learner[t]);
    record.rollout.push_back(sequence.rollout_log_probs[t]);
  }
  return lines_->Append(LogProbRecordToJson(record));
}

}  // namespace hone::trainer

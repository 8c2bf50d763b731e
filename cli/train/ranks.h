#pragma once

// The ranks of a job, for the commands that learn with several: torchrun's or srun's environment says who they are.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/train/model_settings.h"
#include "cli/train/phases.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/rank_environment.h"

namespace hone::cli {

struct JobRanks {
  trainer::RankEnvironment environment;
  DeviceSettings device;                                // with the rank's own GPU
  std::unique_ptr<trainer::Communicator> communicator;  // null: alone

  bool first() const { return environment.rank == 0; }
};

/// Meets the others, who are tried: every rank must hear every other. With several ranks, device "cuda" is the rank's own. A
/// rank that dies later ends all processes with a line that names it. Errors of ReadRankEnvironment, FindDevice, Connect and
/// TestCollectives.
absl::StatusOr<JobRanks> MeetRanks(const DeviceSettings& device);

/// The first rank makes it; the others find it made. Errors as of RunFolder::Create.
absl::StatusOr<RunFolder> FolderOfJob(const JobRanks& job, const std::string& path, const std::string& config_yaml, bool resume);

}  // namespace hone::cli

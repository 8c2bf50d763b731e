#include "cli/train/ranks.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/device.h"
#include "trainer/loop/self_test.h"

namespace hone::cli {

absl::StatusOr<JobRanks> MeetRanks(const DeviceSettings& device) {
  JobRanks job;
  job.device = device;
  HONE_ASSIGN_OR_RETURN(job.environment, trainer::ReadRankEnvironment());
  if (job.environment.alone()) return job;
  if (device.device == "cuda") job.device.device = absl::StrCat("cuda:", job.environment.local_rank);
  HONE_ASSIGN_OR_RETURN(const at::Device own, policy::FindDevice(job.device.device));
  trainer::CommunicatorOptions options;
  options.on_dead_rank = trainer::ExitOnDeadRank();
  HONE_ASSIGN_OR_RETURN(job.communicator, trainer::Connect(job.environment, own, options));
  HONE_RETURN_IF_ERROR(trainer::TestCollectives(*job.communicator, own));
  return job;
}

absl::StatusOr<RunFolder> FolderOfJob(const JobRanks& job, const std::string& path, const std::string& config_yaml, bool resume) {
  if (job.communicator == nullptr) return RunFolder::Create(path, config_yaml, resume);
  absl::StatusOr<RunFolder> folder = absl::UnknownError("");
  if (job.first()) folder = RunFolder::Create(path, config_yaml, resume);
  HONE_RETURN_IF_ERROR(job.communicator->Barrier());
  if (!job.first()) folder = RunFolder::Join(path);
  return folder;
}

}  // namespace hone::cli

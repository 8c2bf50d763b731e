#include "cli/train/groups.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::cli {

absl::Status SampledGroups::Begin(int64_t, int64_t policy_version) { return parts_.engine->SetPolicyVersion(policy_version); }

absl::Status SampledGroups::Learned(int64_t policy_version, trainer::StepMetrics&) {
  return parts_.engine->SetPolicyVersion(policy_version);
}

absl::StatusOr<std::vector<Group>> SampledGroups::Collect(int64_t step, const Meanwhile& meanwhile, trainer::StepMetrics& metrics) {
  HONE_ASSIGN_OR_RETURN(const std::vector<rollout::GroupRequest> requests, draws_.Draw(step));
  DriverHooks hooks;
  if (meanwhile) {
    hooks.meanwhile = [&](absl::Span<const Turn* const> answers) -> absl::Status {
      HONE_RETURN_IF_ERROR(parts_.engine->ReleaseMemory());
      return meanwhile(answers);
    };
  }
  if (parts_.on_phase) {
    hooks.on_progress = [&](const rollout::DriverProgress& p) {
      parts_.on_phase(absl::StrCat("step ", step, ": ", p.awaiting, p.verifying ? " verdicts" : " answers", " of turn ", p.turn));
    };
  }
  rollout::EpisodeDriver driver = MakeDriver(parts_, EpisodesOf(settings_), std::move(hooks));
  HONE_ASSIGN_OR_RETURN(std::vector<Group> groups, driver.Run(requests, SamplingSeed(parts_.seed, step)));
  HONE_RETURN_IF_ERROR(parts_.engine->ReleaseMemory());  // to the learner, who is next
  HONE_RETURN_IF_ERROR(draws_.Learn(groups, step));

  const rollout::DriverSeconds& seconds = driver.seconds();
  metrics["seconds/generate"] = seconds.generate;
  metrics["seconds/verify"] = seconds.verify;
  metrics["seconds/judging"] = seconds.judging;
  metrics.merge(LoadMetrics(groups, seconds.judging, parts_.capabilities));
  if (seconds.generate > 0) metrics["rollout/tokens_per_s"] = metrics["rollout/tokens"] / seconds.generate;
  metrics.merge(draws_.TakeMetrics());
  metrics.merge(rollout::EpisodeMetrics(groups));
  return groups;
}

}  // namespace hone::cli

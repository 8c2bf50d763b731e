#include "cli/train/run.h"

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/train/phases.h"
#include "cli/train/setup.h"
#include "policy/model/hf_folder.h"

namespace hone::cli {

RlSettings TrainRl() {
  RlSettings settings;
  settings.turns = 3;
  settings.exemplars = rollout::ExemplarConfig();
  return settings;
}

struct TrainRun::State {
  State(const TrainConfig& config, PolicySetup setup, RunFolder folder)
      : config(config), setup(std::move(setup)), folder(std::move(folder)) {}

  TrainConfig config;
  PolicySetup setup;
  RunFolder folder;
  RealClock clock;
  std::unique_ptr<MetricsWriter> metrics;

  absl::Status Evaluate(const std::string& name);
};

absl::Status TrainRun::State::Evaluate(const std::string& name) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Problem> held_out, setup.problems().Listed(Split::kHeldOut));
  if (held_out.empty()) return absl::OkStatus();
  return folder.Timed(absl::StrCat("evaluate ", name), [&] {
    return SampleProblems(config.evaluation.sampling, config.rl.max_tokens, held_out,
                          setup.Parts({Baseline::kScalar, Baseline::kEager}), absl::StrCat("evaluation_", name), folder);
  });
}

TrainRun::TrainRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
TrainRun::~TrainRun() = default;

absl::StatusOr<std::unique_ptr<TrainRun>> TrainRun::Create(const TrainConfig& config, const std::string& folder, bool resume) {
  HONE_ASSIGN_OR_RETURN(PolicySetup setup, PolicySetup::Create(config.policy, config.threads, config.seed));
  HONE_ASSIGN_OR_RETURN(RunFolder run_folder, RunFolder::Create(folder, ToYaml(config), resume));
  auto state = std::make_unique<State>(config, std::move(setup), std::move(run_folder));
  HONE_RETURN_IF_ERROR(CopyPolicyFiles(state->setup.start().folder, state->folder.Path("policy")));
  HONE_ASSIGN_OR_RETURN(state->metrics, MetricsWriter::Create(folder, state->clock));
  return std::unique_ptr<TrainRun>(new TrainRun(std::move(state)));
}

absl::Status TrainRun::Run() {
  State& s = *state_;
  WatchForInterrupt();
  HONE_RETURN_IF_ERROR(s.folder.Timed("start the verifier", [&] {
    return s.setup.Connect(s.config.verifier, s.config.tasks, s.config.rl.named_share, s.folder.Path("verifier.log"));
  }));
  if (s.config.evaluation.before && !FileExists(s.folder.Path("evaluation_before.json"))) {
    HONE_RETURN_IF_ERROR(s.Evaluate("before"));
  }
  HONE_RETURN_IF_ERROR(s.folder.Timed("reinforce", [&] {
    return Reinforce(s.config.rl, s.config.rewards, s.setup.Parts({}), *s.setup.start().decoder, *s.metrics, s.folder);
  }));
  HONE_RETURN_IF_ERROR(policy::SaveHfWeights(*s.setup.start().decoder, s.folder.Path("policy")));
  HONE_RETURN_IF_ERROR(s.Evaluate("after"));
  return s.metrics->Flush();
}

}  // namespace hone::cli

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
  State(const TrainConfig& config, PolicySetup setup, RunFolder folder, SteadyTime started)
      : config(config), setup(std::move(setup)), folder(std::move(folder)), started(started) {}

  TrainConfig config;
  PolicySetup setup;
  RunFolder folder;
  SteadyTime started;
  RealClock clock;
  std::function<void(const std::string& what)> on_phase;
  std::unique_ptr<MetricsPage> page;  // null: none
  std::unique_ptr<MetricsWriter> metrics;

  absl::Status Evaluate(const std::string& name);
  absl::Status Export();
};

absl::Status TrainRun::State::Evaluate(const std::string& name) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Problem> held_out, setup.problems().Listed(Split::kHeldOut));
  if (held_out.empty()) return absl::OkStatus();
  return folder.Timed(absl::StrCat("evaluate ", name), [&] {
    return SampleProblems(config.evaluation.sampling, config.rl.max_tokens, held_out, setup.Parts(setup.ReportedBaselines()),
                          absl::StrCat("evaluation_", name), folder, setup.running());
  });
}

absl::Status TrainRun::State::Export() {
  if (setup.adapter() != nullptr) return setup.adapter()->Save(folder.Path("adapter"), setup.start().weights);
  return policy::SaveHfWeights(setup.decoder(), folder.Path("policy"));
}

TrainRun::TrainRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
TrainRun::~TrainRun() = default;

absl::StatusOr<std::unique_ptr<TrainRun>> TrainRun::Create(const TrainConfig& config, const std::string& folder, bool resume,
                                                           std::function<void(const std::string& what)> on_phase) {
  const SteadyTime started = SteadyTime::Now();
  HONE_ASSIGN_OR_RETURN(PolicySetup setup, PolicySetup::Create(config.policy, {config.device, config.lora, config.engine},
                                                               config.threads, config.seed));
  if (config.rl.kl_coefficient > 0 && setup.adapter() == nullptr) {
    return absl::InvalidArgumentError("rl.kl_coefficient: needs an adapter (lora.rank): the reference is the model without it");
  }
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<MetricsPage> page, ServeMetrics(config.metrics));
  HONE_ASSIGN_OR_RETURN(RunFolder run_folder, RunFolder::Create(folder, ToYaml(config), resume));
  auto state = std::make_unique<State>(config, std::move(setup), std::move(run_folder), started);
  state->on_phase = std::move(on_phase);
  HONE_RETURN_IF_ERROR(CopyPolicyFiles(state->setup.start().folder, state->folder.Path("policy")));
  state->page = std::move(page);
  HONE_ASSIGN_OR_RETURN(state->metrics, MetricsWriter::Create(folder, state->clock));
  if (state->page != nullptr) {
    state->metrics->AlsoTo([page = state->page.get()](int64_t step, const auto& values) { page->Set(step, values); });
  }
  return std::unique_ptr<TrainRun>(new TrainRun(std::move(state)));
}

absl::StatusOr<bool> TrainRun::Run() {
  State& s = *state_;
  WatchForInterrupt();
  HONE_RETURN_IF_ERROR(s.folder.Timed("start the verifier", [&] {
    return s.setup.Connect(s.config.verifier, s.config.tasks, s.config.rl.named_share, s.folder.Path("verifier.log"));
  }));
  if (s.config.evaluation.before && !FileExists(s.folder.Path("evaluation_before.json"))) {
    HONE_RETURN_IF_ERROR(s.Evaluate("before"));
  }
  bool finished = false;
  HONE_RETURN_IF_ERROR(s.folder.Timed("reinforce", [&]() -> absl::Status {
    RolloutParts parts = s.setup.Parts({});
    parts.on_phase = s.on_phase;
    const auto keep_adapter = [&] { return s.setup.adapter() != nullptr ? s.Export() : absl::OkStatus(); };
    HONE_ASSIGN_OR_RETURN(finished, Reinforce(s.config.rl, s.config.rewards, parts, s.setup.decoder(), *s.metrics, s.folder,
                                              s.started, s.config.device.offload_optimizer, keep_adapter));
    return absl::OkStatus();
  }));
  if (finished) HONE_RETURN_IF_ERROR(s.Export());
  if (finished && s.config.evaluation.after) HONE_RETURN_IF_ERROR(s.Evaluate("after"));
  HONE_RETURN_IF_ERROR(s.metrics->Flush());
  return finished;
}

}  // namespace hone::cli

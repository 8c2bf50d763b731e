#include "cli/train/run.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/train/phases.h"
#include "cli/train/ranks.h"
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
  State(const TrainConfig& config, JobRanks job, PolicySetup setup, RunFolder folder, SteadyTime started)
      : config(config), job(std::move(job)), setup(std::move(setup)), folder(std::move(folder)), started(started) {}

  TrainConfig config;
  JobRanks job;
  PolicySetup setup;
  RunFolder folder;
  SteadyTime started;
  RealClock clock;
  std::function<void(const std::string& what)> on_phase;
  std::unique_ptr<MetricsPage> page;  // null: none
  std::unique_ptr<MetricsWriter> metrics;

  absl::Status Evaluate(const std::string& name);
  absl::StatusOr<bool> Lead();
  absl::StatusOr<bool> Follow();
  absl::StatusOr<std::optional<WorkersPlan>> Workers();
};

absl::Status TrainRun::State::Evaluate(const std::string& name) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Problem> held_out, setup.problems().Listed(Split::kHeldOut));
  if (held_out.empty()) return absl::OkStatus();
  return folder.Timed(absl::StrCat("evaluate ", name), [&] {
    return SampleProblems(config.evaluation.sampling, config.rl.max_tokens, held_out, setup.Parts(setup.ReportedBaselines()),
                          absl::StrCat("evaluation_", name), folder, setup.running());
  });
}

// What they are told: this run's settings, with the adapter that is really trained.
absl::StatusOr<std::optional<WorkersPlan>> TrainRun::State::Workers() {
  if (config.workers.listen.empty()) return std::optional<WorkersPlan>();
  WorkersPlan plan;
  plan.settings = config.workers;
  TrainConfig told = config;
  told.policy.adapter.clear();
  told.lora.rank = 0;
  if (setup.adapter() != nullptr) {
    const policy::LoraOptions& adapter = setup.adapter()->options();
    told.lora = {adapter.rank, adapter.alpha, adapter.targets};
  }
  plan.run_settings = ToYaml(told);
  HONE_ASSIGN_OR_RETURN(plan.files, ReadPolicyFiles(setup.start().folder));
  return std::make_optional(std::move(plan));
}

TrainRun::TrainRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
TrainRun::~TrainRun() = default;

namespace {

// What several ranks cannot do.
absl::Status CheckRanks(const TrainConfig& config) {
  if (config.workers.listen.empty()) {
    return absl::InvalidArgumentError("workers.listen: with several ranks, workers sample: say where they find this run");
  }
  if (config.evaluation.before || config.evaluation.after) {
    return absl::InvalidArgumentError("evaluation.before, evaluation.after: not with several ranks; hone eval policy does it");
  }
  if (config.rl.checkpoint_moments != "fp32") {
    return absl::InvalidArgumentError(
        absl::StrCat("rl.checkpoint_moments: ", config.rl.checkpoint_moments, ", with several ranks allowed: fp32"));
  }
  return absl::OkStatus();
}

// Workers are listened for after the model is loaded and the policy evaluated: too late to learn that the port is taken.
absl::Status CheckWorkersAddress(const std::string& address) {
  if (address.empty() || absl::StartsWith(address, "unix:")) return absl::OkStatus();
  return CheckAddressFree("workers.listen", address, "unix:/path");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainRun>> TrainRun::Create(const TrainConfig& config, const std::string& folder, bool resume,
                                                           std::function<void(const std::string& what)> on_phase) {
  const SteadyTime started = SteadyTime::Now();
  HONE_ASSIGN_OR_RETURN(const trainer::RankEnvironment environment, trainer::ReadRankEnvironment());
  if (!environment.alone()) HONE_RETURN_IF_ERROR(CheckRanks(config));
  if (environment.rank == 0) HONE_RETURN_IF_ERROR(CheckWorkersAddress(config.workers.listen));
  HONE_ASSIGN_OR_RETURN(JobRanks job, MeetRanks(config.device));
  const bool samples = config.workers.listen.empty() || config.evaluation.before || config.evaluation.after;
  HONE_ASSIGN_OR_RETURN(PolicySetup setup,
                        PolicySetup::Create(config.policy,
                                            {job.device, config.lora, config.engine, samples, job.communicator != nullptr},
                                            config.threads, config.seed));
  if (config.rl.kl_coefficient > 0 && setup.adapter() == nullptr) {
    return absl::InvalidArgumentError("rl.kl_coefficient: needs an adapter (lora.rank): the reference is the model without it");
  }
  std::unique_ptr<MetricsPage> page;
  if (job.first()) {
    HONE_ASSIGN_OR_RETURN(page, ServeMetrics(config.metrics));
  }
  HONE_ASSIGN_OR_RETURN(RunFolder run_folder, FolderOfJob(job, folder, ToYaml(config), resume));
  auto state = std::make_unique<State>(config, std::move(job), std::move(setup), std::move(run_folder), started);
  state->on_phase = std::move(on_phase);
  state->page = std::move(page);
  if (state->job.first()) {
    HONE_RETURN_IF_ERROR(CopyPolicyFiles(state->setup.start().folder, state->folder.Path("policy")));
    HONE_ASSIGN_OR_RETURN(state->metrics, MetricsWriter::Create(folder, state->clock));
  }
  if (state->page != nullptr) {
    state->metrics->AlsoTo([page = state->page.get()](int64_t step, const auto& values) { page->Set(step, values); });
  }
  return std::unique_ptr<TrainRun>(new TrainRun(std::move(state)));
}

absl::StatusOr<bool> TrainRun::Run() {
  State& s = *state_;
  WatchForInterrupt();
  absl::StatusOr<bool> ended = s.job.first() ? s.Lead() : s.Follow();
  // The others are not to wait for what will not come.
  if (!ended.ok() && s.job.communicator != nullptr) s.job.communicator->Abort(std::string(ended.status().message()));
  return ended;
}

absl::StatusOr<bool> TrainRun::State::Follow() {
  HONE_RETURN_IF_ERROR(FollowReinforcement(config.rl, setup.decoder(), folder, config.device.offload_optimizer, *job.communicator));
  return true;
}

absl::StatusOr<bool> TrainRun::State::Lead() {
  HONE_RETURN_IF_ERROR(folder.Timed("start the verifier", [&] {
    return setup.Connect(config.verifier, config.tasks, config.rl.named_share, folder.Path("verifier.log"));
  }));
  if (config.evaluation.before && !FileExists(folder.Path("evaluation_before.json"))) HONE_RETURN_IF_ERROR(Evaluate("before"));
  HONE_ASSIGN_OR_RETURN(const std::optional<WorkersPlan> workers, Workers());
  bool finished = false;
  HONE_RETURN_IF_ERROR(folder.Timed("reinforce", [&]() -> absl::Status {
    Reinforcement run{config.rl, config.rewards, setup.Parts({}), setup.decoder(), *metrics, folder, started};
    run.offload_optimizer = config.device.offload_optimizer;
    run.workers = workers ? &*workers : nullptr;
    run.ranks = job.communicator.get();
    run.parts.on_phase = on_phase;
    const policy::Lora* adapter = setup.adapter();
    if (adapter != nullptr) {
      run.on_checkpoint = [&] { return adapter->Save(folder.Path("adapter"), setup.start().weights); };
    } else {
      run.at_end = [&] { return policy::SaveHfWeights(setup.decoder(), folder.Path("policy")); };
    }
    HONE_ASSIGN_OR_RETURN(finished, Reinforce(run));
    return absl::OkStatus();
  }));
  if (finished && config.evaluation.after) HONE_RETURN_IF_ERROR(Evaluate("after"));
  HONE_RETURN_IF_ERROR(metrics->Flush());
  return finished;
}

}  // namespace hone::cli

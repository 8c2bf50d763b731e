#include "cli/train/run.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/train/chat_language.h"
#include "cli/train/phases.h"
#include "cli/train/program_language.h"
#include "policy/model/hf_folder.h"
#include "policy/model/threads.h"
#include "rollout/engine/native_engine.h"

namespace hone::cli {

RlSettings TrainRl() {
  RlSettings settings;
  settings.turns = 3;
  settings.exemplars = rollout::ExemplarConfig();
  return settings;
}

struct TrainRun::State {
  State(const TrainConfig& config, RunFolder folder) : config(config), folder(std::move(folder)) {}

  TrainConfig config;
  RunFolder folder;
  RealClock clock;
  StartingPolicy start;
  std::unique_ptr<Prompter> prompter;
  std::unique_ptr<ProblemSource> problems;
  std::unique_ptr<rollout::NativeEngine> engine;
  RunVerifier verifier;
  std::unique_ptr<MetricsWriter> metrics;

  int64_t Context() const;
  RolloutParts Parts(std::vector<Baseline> baselines);
  absl::Status FindProblems();
  absl::Status Evaluate(const std::string& name);
};

namespace {

absl::StatusOr<std::unique_ptr<Prompter>> MakePrompter(const PolicySettings& settings, const std::string& folder) {
  if (settings.prompts == "program") return ProgramLanguage::Load(folder);
  rollout::PromptOptions options;
  return ChatLanguage::Load(folder, options, settings.thinking);
}

}  // namespace

int64_t TrainRun::State::Context() const {
  const int64_t model = start.decoder->config().max_position_embeddings;
  return config.policy.context > 0 ? std::min(config.policy.context, model) : model;
}

RolloutParts TrainRun::State::Parts(std::vector<Baseline> baselines) {
  return {*problems, *prompter, *engine, *verifier.client, VerifyWith(config.verifier, std::move(baselines)), Context(),
          config.seed};
}

absl::Status TrainRun::State::FindProblems() {
  const uint64_t seed = static_cast<uint64_t>(config.seed) * 2 + 1;
  if (config.tasks.from == "generated") {
    problems = GeneratedProblems(seed, config.rl.named_share);
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(problems, CollectedProblems(config.tasks, seed, *verifier.client));
  return absl::OkStatus();
}

absl::Status TrainRun::State::Evaluate(const std::string& name) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Problem> held_out, problems->HeldOut());
  if (held_out.empty()) return absl::OkStatus();
  return folder.Timed(absl::StrCat("evaluate ", name), [&] {
    return EvaluateHeldOut(config.evaluation, config.rl.max_tokens, held_out, Parts({Baseline::kScalar, Baseline::kEager}),
                           name, folder);
  });
}

TrainRun::TrainRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
TrainRun::~TrainRun() = default;

absl::StatusOr<std::unique_ptr<TrainRun>> TrainRun::Create(const TrainConfig& config, const std::string& folder, bool resume) {
  const int threads = config.threads > 0 ? static_cast<int>(config.threads) : static_cast<int>(std::thread::hardware_concurrency());
  policy::SetComputeThreads(threads);
  policy::SeedOperators(static_cast<uint64_t>(config.seed));
  HONE_ASSIGN_OR_RETURN(StartingPolicy start, LoadStart(config.policy.start));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Prompter> prompter, MakePrompter(config.policy, start.folder));
  HONE_ASSIGN_OR_RETURN(RunFolder run_folder, RunFolder::Create(folder, ToYaml(config), resume));
  auto state = std::make_unique<State>(config, std::move(run_folder));
  state->start = std::move(start);
  state->prompter = std::move(prompter);
  HONE_RETURN_IF_ERROR(CopyPolicyFiles(state->start.folder, state->folder.Path("policy")));
  HONE_ASSIGN_OR_RETURN(state->engine, rollout::NativeEngine::Create({}, *state->start.decoder));
  HONE_ASSIGN_OR_RETURN(state->metrics, MetricsWriter::Create(folder, state->clock));
  return std::unique_ptr<TrainRun>(new TrainRun(std::move(state)));
}

absl::Status TrainRun::Run() {
  State& s = *state_;
  WatchForInterrupt();
  HONE_RETURN_IF_ERROR(s.folder.Timed("start the verifier", [&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(s.verifier, StartVerifier(s.config.verifier, s.folder.Path("verifier.log")));
    return s.FindProblems();
  }));
  if (s.config.evaluation.before && !FileExists(s.folder.Path("evaluation_before.json"))) {
    HONE_RETURN_IF_ERROR(s.Evaluate("before"));
  }
  HONE_RETURN_IF_ERROR(s.folder.Timed("reinforce", [&] {
    return Reinforce(s.config.rl, s.config.rewards, s.Parts({}), *s.start.decoder, *s.metrics, s.folder);
  }));
  HONE_RETURN_IF_ERROR(policy::SaveHfWeights(*s.start.decoder, s.folder.Path("policy")));
  HONE_RETURN_IF_ERROR(s.Evaluate("after"));
  return s.metrics->Flush();
}

}  // namespace hone::cli

#include "cli/quickstart/run.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/metrics.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "cli/quickstart/demonstrations.h"
#include "cli/quickstart/groups.h"
#include "cli/quickstart/language.h"
#include "cli/report_error.h"
#include "policy/model/decoder.h"
#include "policy/model/threads.h"
#include "rollout/engine/native_engine.h"
#include "rollout/episode/evaluation.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/learner_state.h"
#include "trainer/loop/rl_loop.h"
#include "trainer/loop/sft_trainer.h"
#include "verifier/client/local_server.h"

namespace hone::cli {
namespace {

// Ctrl-C asks; the loop stops at the next step.
volatile std::sig_atomic_t interrupted = 0;
void OnInterrupt(int) { interrupted = 1; }

absl::Status Interrupted() {
  return interrupted ? absl::CancelledError("interrupted; --resume goes on from the last checkpoint") : absl::OkStatus();
}

policy::ModelConfig ModelOf(const QuickstartModel& config, int32_t vocabulary, int32_t end_id) {
  policy::ModelConfig model;
  model.vocab_size = vocabulary;
  model.hidden_size = config.hidden_size;
  model.intermediate_size = config.intermediate_size;
  model.num_hidden_layers = config.layers;
  model.num_attention_heads = config.heads;
  model.num_key_value_heads = config.heads;
  model.head_dim = config.hidden_size / config.heads;
  model.max_position_embeddings = config.context;
  model.eos_token_ids = {end_id};
  return model;
}

}  // namespace

struct QuickstartRun::State {
  QuickstartConfig config;
  std::string folder;
  bool resume = false;

  RealClock clock;
  std::unique_ptr<QuickstartLanguage> language;
  std::unique_ptr<policy::Decoder> decoder;
  std::unique_ptr<rollout::NativeEngine> engine;
  std::unique_ptr<verifier::LocalServer> server;
  std::unique_ptr<verifier::Client> client;
  std::unique_ptr<MetricsWriter> metrics;
  std::unique_ptr<trainer::Checkpointer> supervised;   // one checkpoint: the end of the supervised phase
  std::unique_ptr<trainer::Checkpointer> reinforced;   // every few steps of the reinforcement phase
  std::map<std::string, double> phase_seconds;

  std::string Path(const std::string& name) const { return folder + "/" + name; }

  absl::Status Timed(const std::string& phase, const std::function<absl::Status()>& work);
  absl::Status StartVerifier();
  absl::Status MakePolicy();
  absl::Status Supervise();
  absl::Status Reinforce();
  absl::Status EvaluateHeldOut(const std::string& name);
  absl::StatusOr<std::unique_ptr<trainer::RlTrainer>> MakeTrainer();
  Protocol ProtocolOf(std::vector<Baseline> baselines) const;
};

absl::Status QuickstartRun::State::Timed(const std::string& phase, const std::function<absl::Status()>& work) {
  HONE_RETURN_IF_ERROR(Interrupted());
  const absl::Time start = absl::Now();
  HONE_RETURN_IF_ERROR(work());
  phase_seconds[phase] += absl::ToDoubleSeconds(absl::Now() - start);
  return WriteFileAtomically(Path("phases.json"), nlohmann::json(phase_seconds).dump(2) + "\n");
}

Protocol QuickstartRun::State::ProtocolOf(std::vector<Baseline> baselines) const {
  Protocol protocol = *ProtocolById("quick");
  protocol.baselines = std::move(baselines);
  return protocol;
}

absl::Status QuickstartRun::State::StartVerifier() {
  std::string endpoint = config.verifier.endpoint;
  if (endpoint.empty()) {
    verifier::LocalServerOptions options;
    options.log_path = Path("verifier.log");
    options.extra_args = {"--set", absl::StrCat("build_slots=", config.verifier.build_slots), "--set",
                          absl::StrCat("lanes=", config.verifier.lanes)};
    if (!config.verifier.sandbox.empty()) {
      options.extra_args.insert(options.extra_args.end(), {"--set", absl::StrCat("sandbox=", config.verifier.sandbox)});
    }
    HONE_ASSIGN_OR_RETURN(server, verifier::LocalServer::Start(options));
    endpoint = server->endpoint();
  }
  verifier::ClientOptions options;
  options.endpoints = {endpoint};
  HONE_ASSIGN_OR_RETURN(client, verifier::Client::Create(options));
  HONE_ASSIGN_OR_RETURN(const Capabilities capabilities, client->GetCapabilities());
  WarnOfSandbox(capabilities.sandbox);
  return absl::OkStatus();
}

absl::Status QuickstartRun::State::MakePolicy() {
  HONE_ASSIGN_OR_RETURN(language, QuickstartLanguage::Train(config.model.vocabulary, config.seed));
  HONE_RETURN_IF_ERROR(MakeFolders(Path("policy")));
  HONE_RETURN_IF_ERROR(language->tokenizer().Save(Path("policy")));
  HONE_ASSIGN_OR_RETURN(decoder, policy::Decoder::Create(
                                     ModelOf(config.model, language->tokenizer().vocab_size(), language->end_id())));
  decoder->parameters().Initialize(config.seed);
  HONE_ASSIGN_OR_RETURN(engine, rollout::NativeEngine::Create({}, *decoder));
  return absl::OkStatus();
}

absl::Status QuickstartRun::State::Supervise() {
  trainer::SftOptions options;
  options.learner.schedule = {trainer::Schedule::Shape::kCosine, config.sft.learning_rate, config.sft.learning_rate * 0.02,
                              config.sft.warmup_steps, config.sft.steps};
  HONE_ASSIGN_OR_RETURN(const auto trainer, trainer::SftTrainer::Create(options, *decoder));
  if (!supervised->Steps().empty()) {
    HONE_ASSIGN_OR_RETURN(const trainer::CheckpointData data, supervised->LoadLatest());
    return trainer::RestoreLearnerState(data, trainer->learner());
  }
  Demonstrations demonstrations(config.sft, *language, static_cast<uint64_t>(config.seed) * 2);
  Progress progress("sft", config.sft.steps);
  for (int64_t step = 0; step < config.sft.steps; ++step) {
    HONE_RETURN_IF_ERROR(Interrupted());
    std::vector<trainer::TrainSequence> batch;
    for (int64_t tokens = 0; tokens < config.sft.batch_tokens; tokens += batch.back().length()) {
      HONE_ASSIGN_OR_RETURN(trainer::TrainSequence sequence, demonstrations.Next());
      batch.push_back(std::move(sequence));
    }
    HONE_ASSIGN_OR_RETURN(const trainer::StepMetrics learned, trainer->Step(batch));
    trainer::StepMetrics named;
    for (const auto& [name, value] : learned) named["sft/" + name] = value;
    HONE_RETURN_IF_ERROR(metrics->Write(step, named));
    progress.Update(step + 1, absl::StrFormat("loss %.3f  %.0f tok/s", learned.at("loss"), learned.at("tokens_per_s")));
  }
  progress.Finish();
  trainer::CheckpointData data;
  trainer::AddLearnerState(trainer->learner(), data);
  return supervised->Save(data);
}

absl::StatusOr<std::unique_ptr<trainer::RlTrainer>> QuickstartRun::State::MakeTrainer() {
  trainer::RlOptions options;
  options.learner.schedule = {trainer::Schedule::Shape::kConstant, config.rl.learning_rate, 0, 5, config.rl.steps};
  options.learner.adamw.weight_decay = 0;
  options.loss.eps_low = config.rl.clip_low;
  options.loss.eps_high = config.rl.clip_high;
  options.temperature = config.rl.temperature;
  if (!config.rl.filters.chain.empty()) options.filters = {trainer::MakeChain(config.rl.filters)};
  return trainer::RlTrainer::Create(options, *decoder);
}

absl::Status QuickstartRun::State::Reinforce() {
  HONE_ASSIGN_OR_RETURN(const rewards::Pipeline pipeline, rewards::Pipeline::Create(config.rewards));
  HONE_ASSIGN_OR_RETURN(const auto trainer, MakeTrainer());
  HONE_ASSIGN_OR_RETURN(const auto journal, JournalWriter::Open(Path("journal.jsonl.zst")));
  std::unique_ptr<rollout::ExemplarStore> exemplars;
  if (config.rl.exemplars.enabled) {
    HONE_ASSIGN_OR_RETURN(exemplars, rollout::ExemplarStore::Open(Path("exemplars.db"), config.rl.exemplars));
  }
  QuickstartGroups source({config, *language, *engine, *client, exemplars.get(), ProtocolOf(pipeline.NeededBaselines())});
  trainer::RlLoop loop({source, pipeline, *trainer, *engine, *journal, *metrics});
  if (!reinforced->Steps().empty()) {
    HONE_ASSIGN_OR_RETURN(const trainer::CheckpointData data, reinforced->LoadLatest());
    HONE_RETURN_IF_ERROR(loop.Restore(data));
  }

  Progress progress("rl", config.rl.steps);
  while (loop.step() < config.rl.steps) {
    HONE_RETURN_IF_ERROR(Interrupted());
    HONE_ASSIGN_OR_RETURN(const trainer::StepMetrics m, loop.Step());
    const auto figure = [&](const char* name) { return m.count(name) > 0 ? m.at(name) : 0.0; };
    progress.Update(loop.step(), absl::StrFormat("reward %+.2f  correct %.2f  speedup %.2fx (emulated)  %.0f verdicts/s",
                                              figure("reward/mean"), figure("correct/first_turn"), figure("speedup/scalar"),
                                              figure("verdicts") / std::max(1e-9, figure("seconds/verify"))));
    if (loop.step() % config.rl.checkpoint_every == 0 || loop.step() == config.rl.steps) {
      HONE_ASSIGN_OR_RETURN(const trainer::CheckpointData data, loop.Save());
      HONE_RETURN_IF_ERROR(reinforced->Save(data));
    }
  }
  progress.Finish();
  return absl::OkStatus();
}

absl::Status QuickstartRun::State::EvaluateHeldOut(const std::string& name) {
  const std::vector<rollout::GeneratedTask> tasks = rollout::NamedTasks(Split::kHeldOut);
  const std::string path = Path("evaluation_" + name + ".jsonl.zst");
  HONE_RETURN_IF_ERROR(RemoveTree(path));  // of an interrupted evaluation
  HONE_ASSIGN_OR_RETURN(const auto journal, JournalWriter::Open(path));
  rollout::SamplingOptions sampling;
  sampling.temperature = config.evaluation.temperature;
  sampling.max_tokens = config.rl.max_tokens;
  sampling.stop_ids = {language->end_id()};
  rollout::DriverConfig driver_config;
  driver_config.group_size = config.evaluation.samples;
  driver_config.turns = 1;
  rollout::EpisodeDriver::Parts parts;
  parts.engine = engine.get();
  parts.encoder = language.get();
  parts.client = client.get();
  rollout::EpisodeDriver driver(driver_config, sampling,
                                {Format::kNative, Backend::kCpu, ProtocolOf({Baseline::kScalar, Baseline::kEager})},
                                config.rl.exemplars.remeasure, std::move(parts));
  Progress progress("evaluate " + name, static_cast<int64_t>(tasks.size()));
  std::vector<Group> groups;
  for (const rollout::GeneratedTask& task : tasks) {
    HONE_RETURN_IF_ERROR(Interrupted());
    rollout::GroupRequest request{absl::StrCat("evaluation-", name, "-", groups.size()), task.task, {}, false};
    HONE_ASSIGN_OR_RETURN(request.prompt_ids, language->TaskPrompt(task.prompt));
    // The same draws before and after.
    HONE_ASSIGN_OR_RETURN(std::vector<Group> group,
                          driver.Run({&request, 1}, SamplingSeed(config.seed, -1 - static_cast<int64_t>(groups.size()))));
    HONE_RETURN_IF_ERROR(journal->Append(group.front()));
    groups.push_back(std::move(group.front()));
    progress.Update(static_cast<int64_t>(groups.size()));
  }
  const rollout::Evaluation evaluation = rollout::Evaluate(groups);
  HONE_RETURN_IF_ERROR(WriteFileAtomically(Path("evaluation_" + name + ".json"), rollout::ToJson(evaluation) + "\n"));
  progress.Finish(absl::StrFormat("correct %.2f [%.2f, %.2f]", evaluation.correct_rate.value, evaluation.correct_rate.low,
                                  evaluation.correct_rate.high));
  return journal->Sync();
}

QuickstartRun::QuickstartRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
QuickstartRun::~QuickstartRun() = default;

absl::StatusOr<std::unique_ptr<QuickstartRun>> QuickstartRun::Create(const QuickstartConfig& config,
                                                                     const std::string& folder, bool resume) {
  auto state = std::make_unique<State>();
  state->config = config;
  state->folder = folder;
  state->resume = resume;
  if (!resume && FileExists(folder + "/config.yaml")) {
    return absl::AlreadyExistsError(absl::StrCat(folder, " holds a run; choose another --name, or --resume it"));
  }
  HONE_RETURN_IF_ERROR(MakeFolders(folder));
  if (!resume) HONE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/config.yaml", ToYaml(config)));
  HONE_ASSIGN_OR_RETURN(state->supervised, trainer::Checkpointer::Create({.folder = folder + "/checkpoint/sft", .keep = 1}));
  HONE_ASSIGN_OR_RETURN(state->reinforced, trainer::Checkpointer::Create({.folder = folder + "/checkpoint/rl"}));
  HONE_ASSIGN_OR_RETURN(state->metrics, MetricsWriter::Create(folder, state->clock));
  return std::unique_ptr<QuickstartRun>(new QuickstartRun(std::move(state)));
}

absl::Status QuickstartRun::Run() {
  State& s = *state_;
  std::signal(SIGINT, OnInterrupt);
  const int threads = s.config.threads > 0 ? static_cast<int>(s.config.threads) : static_cast<int>(std::thread::hardware_concurrency());
  policy::SetComputeThreads(threads);
  policy::SeedOperators(static_cast<uint64_t>(s.config.seed));
  HONE_RETURN_IF_ERROR(s.Timed("start the verifier", [&] { return s.StartVerifier(); }));
  HONE_RETURN_IF_ERROR(s.Timed("make the policy", [&] { return s.MakePolicy(); }));
  HONE_RETURN_IF_ERROR(s.Timed("supervised", [&] { return s.Supervise(); }));
  if (!FileExists(s.Path("evaluation_before.json"))) {
    HONE_RETURN_IF_ERROR(s.Timed("evaluate before", [&] { return s.EvaluateHeldOut("before"); }));
  }
  HONE_RETURN_IF_ERROR(s.Timed("reinforce", [&] { return s.Reinforce(); }));
  HONE_RETURN_IF_ERROR(s.Timed("evaluate after", [&] { return s.EvaluateHeldOut("after"); }));
  return s.metrics->Flush();
}

}  // namespace hone::cli

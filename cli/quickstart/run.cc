#include "cli/quickstart/run.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/metrics.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "cli/quickstart/demonstrations.h"
#include "cli/train/phases.h"
#include "cli/train/problems.h"
#include "cli/train/program_language.h"
#include "policy/model/decoder.h"
#include "policy/model/hf_folder.h"
#include "policy/model/threads.h"
#include "rollout/engine/native_engine.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/learner_state.h"
#include "trainer/loop/sft_trainer.h"

namespace hone::cli {
namespace {

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

/// As HF's LlamaConfig writes it: with the weights beside it the folder is one that `hone train` and others load.
std::string HfConfigOf(const policy::ModelConfig& model) {
  const nlohmann::json json = {{"architectures", {"LlamaForCausalLM"}},
                               {"model_type", "llama"},
                               {"vocab_size", model.vocab_size},
                               {"hidden_size", model.hidden_size},
                               {"intermediate_size", model.intermediate_size},
                               {"num_hidden_layers", model.num_hidden_layers},
                               {"num_attention_heads", model.num_attention_heads},
                               {"num_key_value_heads", model.num_key_value_heads},
                               {"head_dim", model.head_dim},
                               {"max_position_embeddings", model.max_position_embeddings},
                               {"rms_norm_eps", model.rms_norm_eps},
                               {"rope_theta", model.rope.theta},
                               {"tie_word_embeddings", model.tie_word_embeddings},
                               {"hidden_act", "silu"},
                               {"torch_dtype", "float32"},
                               {"eos_token_id", model.eos_token_ids}};
  return json.dump(2) + "\n";
}

}  // namespace

struct QuickstartRun::State {
  State(const QuickstartConfig& config, RunFolder folder) : config(config), folder(std::move(folder)) {}

  QuickstartConfig config;
  RunFolder folder;
  RealClock clock;
  std::unique_ptr<ProgramLanguage> language;
  std::unique_ptr<ProblemSource> problems;
  std::unique_ptr<policy::Decoder> decoder;
  std::unique_ptr<rollout::NativeEngine> engine;
  RunVerifier verifier;
  std::unique_ptr<MetricsWriter> metrics;

  absl::Status MakePolicy();
  absl::Status Supervise();
  absl::Status Evaluate(const std::string& name);
  RolloutParts Parts(std::vector<Baseline> baselines);
};

absl::Status QuickstartRun::State::MakePolicy() {
  HONE_ASSIGN_OR_RETURN(language, ProgramLanguage::Train(config.model.vocabulary, config.seed));
  const policy::ModelConfig model = ModelOf(config.model, language->tokenizer().vocab_size(), language->end_id());
  HONE_RETURN_IF_ERROR(MakeFolders(folder.Path("policy")));
  HONE_RETURN_IF_ERROR(language->tokenizer().Save(folder.Path("policy")));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(folder.Path("policy/config.json"), HfConfigOf(model)));
  HONE_ASSIGN_OR_RETURN(decoder, policy::Decoder::Create(model));
  decoder->parameters().Initialize(config.seed);
  HONE_ASSIGN_OR_RETURN(engine, rollout::NativeEngine::Create({}, *decoder));
  problems = GeneratedProblems(static_cast<uint64_t>(config.seed) * 2 + 1, config.rl.named_share);
  return absl::OkStatus();
}

absl::Status QuickstartRun::State::Supervise() {
  trainer::SftOptions options;
  options.learner.schedule = {trainer::Schedule::Shape::kCosine, config.sft.learning_rate, config.sft.learning_rate * 0.02,
                              config.sft.warmup_steps, config.sft.steps};
  HONE_ASSIGN_OR_RETURN(const auto trainer, trainer::SftTrainer::Create(options, *decoder));
  // One checkpoint: the end of the phase.
  HONE_ASSIGN_OR_RETURN(const auto checkpoints,
                        trainer::Checkpointer::Create({.folder = folder.Path("checkpoint/sft"), .keep = 1}));
  if (!checkpoints->Steps().empty()) {
    HONE_ASSIGN_OR_RETURN(const trainer::CheckpointData data, checkpoints->LoadLatest());
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
  return checkpoints->Save(data);
}

RolloutParts QuickstartRun::State::Parts(std::vector<Baseline> baselines) {
  return {problems.get(),        language.get(),       engine.get(), verifier.client.get(), VerifyWith(config.verifier, std::move(baselines)),
          verifier.capabilities, config.model.context, config.seed,  {}};
}

absl::Status QuickstartRun::State::Evaluate(const std::string& name) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Problem> held_out, problems->Listed(Split::kHeldOut));
  return SampleProblems(config.evaluation.sampling, config.rl.max_tokens, held_out, Parts({Baseline::kScalar, Baseline::kEager}),
                        absl::StrCat("evaluation_", name), folder);
}

QuickstartRun::QuickstartRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
QuickstartRun::~QuickstartRun() = default;

absl::StatusOr<std::unique_ptr<QuickstartRun>> QuickstartRun::Create(const QuickstartConfig& config,
                                                                     const std::string& folder, bool resume) {
  if (config.model.hidden_size % (2 * config.model.heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model.hidden_size ", config.model.hidden_size,
                                                   " must be a multiple of twice model.heads (", config.model.heads, ")"));
  }
  HONE_ASSIGN_OR_RETURN(RunFolder run_folder, RunFolder::Create(folder, ToYaml(config), resume));
  auto state = std::make_unique<State>(config, std::move(run_folder));
  HONE_ASSIGN_OR_RETURN(state->metrics, MetricsWriter::Create(folder, state->clock));
  return std::unique_ptr<QuickstartRun>(new QuickstartRun(std::move(state)));
}

absl::StatusOr<bool> QuickstartRun::Run() {
  State& s = *state_;
  const SteadyTime started = SteadyTime::Now();
  WatchForInterrupt();
  const int threads = s.config.threads > 0 ? static_cast<int>(s.config.threads) : static_cast<int>(std::thread::hardware_concurrency());
  policy::SetComputeThreads(threads);
  policy::SeedOperators(static_cast<uint64_t>(s.config.seed));
  HONE_RETURN_IF_ERROR(s.folder.Timed("start the verifier", [&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(s.verifier, StartVerifier(s.config.verifier, s.folder.Path("verifier.log")));
    return absl::OkStatus();
  }));
  HONE_RETURN_IF_ERROR(s.folder.Timed("make the policy", [&] { return s.MakePolicy(); }));
  HONE_RETURN_IF_ERROR(s.folder.Timed("supervised", [&] { return s.Supervise(); }));
  if (s.config.evaluation.before && !FileExists(s.folder.Path("evaluation_before.json"))) {
    HONE_RETURN_IF_ERROR(s.folder.Timed("evaluate before", [&] { return s.Evaluate("before"); }));
  }
  bool finished = false;
  HONE_RETURN_IF_ERROR(s.folder.Timed("reinforce", [&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(finished, Reinforce({s.config.rl, s.config.rewards, s.Parts({}), *s.decoder, *s.metrics, s.folder, started}));
    return absl::OkStatus();
  }));
  if (finished && s.config.evaluation.after) {
    HONE_RETURN_IF_ERROR(s.folder.Timed("evaluate after", [&] { return s.Evaluate("after"); }));
  }
  HONE_RETURN_IF_ERROR(policy::SaveHfWeights(*s.decoder, s.folder.Path("policy")));
  HONE_RETURN_IF_ERROR(s.metrics->Flush());
  return finished;
}

}  // namespace hone::cli

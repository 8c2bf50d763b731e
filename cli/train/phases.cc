#include "cli/train/phases.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/candidate.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "cli/report_error.h"
#include "cli/train/verifier_probe.h"
#include "rollout/episode/evaluation.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/log_prob_file.h"
#include "trainer/loop/phase_watch.h"
#include "trainer/loop/rl_loop.h"
#include "trainer/loop/self_test.h"

namespace hone::cli {
namespace {

// Ctrl-C asks; phases stop at the next step.
volatile std::sig_atomic_t interrupted = 0;
void OnInterrupt(int) { interrupted = 1; }

constexpr int64_t kWarmupSteps = 5;
constexpr int64_t kMaxCheckpointFileBytes = int64_t{15} << 20;  // files of 16 MiB travel
constexpr rewards::RemeasureRule kNoDoubt = {.absolute = 1e9, .over_best = 1e9};  // an evaluation pays nobody

using OnPhase = std::function<void(const std::string& what)>;

absl::StatusOr<std::unique_ptr<trainer::RlTrainer>> MakeTrainer(const RlSettings& settings, policy::Decoder& decoder,
                                                                bool offload_optimizer, const OnPhase& on_phase) {
  trainer::RlOptions options;
  options.learner.adamw.offload = offload_optimizer;
  options.learner.on_phase = [on_phase](trainer::StepPhase phase) { on_phase(Name(phase)); };
  options.learner.schedule = {trainer::Schedule::Shape::kConstant, settings.learning_rate, 0, kWarmupSteps, settings.steps};
  options.learner.adamw.weight_decay = 0;
  options.learner.micro_batch_tokens = settings.micro_batch_tokens;
  options.loss = LossOf(settings);
  options.temperature = settings.temperature;
  options.score = settings.recorded_sequences > 0;
  if (!settings.filters.chain.empty()) options.filters = {trainer::MakeChain(settings.filters)};
  return trainer::RlTrainer::Create(options, decoder);
}

std::string StepFigures(const trainer::StepMetrics& m) {
  const auto figure = [&](const std::string& name) { return m.count(name) > 0 ? m.at(name) : 0.0; };
  std::string text = absl::StrFormat("reward %+.2f  correct %.2f", figure("reward/mean"), figure("correct/first_turn"));
  for (const auto& [name, value] : m) {
    if (name.rfind("speedup/", 0) != 0) continue;
    absl::StrAppendFormat(&text, "  %.2fx over %s", value, name.substr(sizeof("speedup/") - 1));
    break;
  }
  const double seconds = std::max(1e-9, figure("seconds/judging"));
  absl::StrAppendFormat(&text, "  %.0f verdicts/s", figure("verdicts") / seconds);
  const double gap = m.count("learn/mismatch_abs_log_ratio") > 0 ? figure("learn/mismatch_abs_log_ratio") : 0;
  if (gap > 0) absl::StrAppendFormat(&text, "  gap %.1e", gap);
  return text;
}

// Sampler and learner must agree on what they would train with. A policy of half precision rounds: by 2e-3 where logits are
// small, by more where they are large. A wrong rotation, norm or adapter is off by 0.1 and more.
absl::Status SelfTest(const RlSettings& settings, rollout::Engine& engine, policy::Decoder& decoder) {
  trainer::SelfTestOptions options;
  options.temperature = settings.temperature;
  const bool half = decoder.parameters().leaves()[0].value.scalar_type() != at::kFloat;
  options.mean_limit = settings.max_gap > 0 ? settings.max_gap : half ? 0.15 : 1e-4;
  for (int32_t t = 0; t < 16; ++t) options.prompt_ids.push_back(static_cast<int32_t>((t * 37 + 11) % decoder.config().vocab_size));
  options.tokens = std::min<int64_t>(32, decoder.config().max_position_embeddings - 16);
  HONE_ASSIGN_OR_RETURN(const trainer::SelfTestReport report, trainer::TestLogProbs(engine, decoder, options));
  if (half) std::fprintf(stderr, "self-test: sampler and learner are %.1e apart on %d tokens\n", report.mean_gap, static_cast<int>(report.tokens));
  return absl::OkStatus();
}

Backend BackendOf(const VerifierSettings& settings) {
  const std::string& device = settings.devices[0];  // "cuda:1"
  return ParseBackend(device.substr(0, device.find(':'))).value_or(Backend::kCpu);
}

// Halves them in a checkpoint: what is read back widens them again.
void RoundMoments(trainer::CheckpointData& data) {
  for (auto& [name, tensor] : data.tensors) {
    if (name == "optimizer/exp_avg" || name == "optimizer/exp_avg_sq") tensor = tensor.to(at::kBFloat16);
  }
}

absl::StatusOr<std::unique_ptr<trainer::LogProbFile>> OpenLogProbs(const RlSettings& settings, const RunFolder& folder) {
  if (settings.recorded_sequences == 0) return std::unique_ptr<trainer::LogProbFile>();
  return trainer::LogProbFile::Open(folder.Path("log_probs.jsonl.zst"));
}

}  // namespace

void WatchForInterrupt() { std::signal(SIGINT, OnInterrupt); }

absl::Status Interrupted() {
  return interrupted ? absl::CancelledError("interrupted; --resume goes on from the last checkpoint") : absl::OkStatus();
}

trainer::PolicyLossOptions LossOf(const RlSettings& settings) {
  const LossSettings& loss = settings.loss;
  trainer::PolicyLossOptions options;
  options.objective = loss.objective == "cispo"            ? trainer::PolicyObjective::kCispo
                      : loss.objective == "sequence_ratio" ? trainer::PolicyObjective::kSequenceRatio
                                                           : trainer::PolicyObjective::kClippedRatio;
  options.aggregation = loss.aggregation == "token_mean"        ? trainer::Aggregation::kTokenMean
                        : loss.aggregation == "constant_length" ? trainer::Aggregation::kConstantLength
                                                                : trainer::Aggregation::kSequenceMean;
  options.constant_length = loss.constant_length > 0 ? loss.constant_length : static_cast<double>(settings.max_tokens);
  options.kl_estimator = loss.kl_estimator == "k1"   ? trainer::KlEstimator::kK1
                         : loss.kl_estimator == "k2" ? trainer::KlEstimator::kK2
                                                     : trainer::KlEstimator::kK3;
  options.eps_low = settings.clip_low;
  options.eps_high = settings.clip_high;
  options.dual_clip = loss.dual_clip;
  options.kl_coefficient = settings.kl_coefficient;
  options.entropy_coefficient = loss.entropy_coefficient;
  return options;
}

absl::StatusOr<RunFolder> RunFolder::Create(const std::string& path, const std::string& config_yaml, bool resume) {
  RunFolder folder(path);
  if (resume) {
    if (!FileExists(folder.Path("config.yaml"))) return absl::NotFoundError(path + " holds no run to resume");
    if (const absl::StatusOr<std::string> text = ReadFile(folder.Path("phases.json")); text.ok()) {
      const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
      for (const auto& [name, seconds] : json.items()) {
        if (seconds.is_number()) folder.seconds_[name] = seconds.get<double>();
      }
    }
    return folder;
  }
  if (FileExists(folder.Path("config.yaml"))) {
    return absl::AlreadyExistsError(absl::StrCat(path, " holds a run; choose another --name, or --resume it"));
  }
  HONE_RETURN_IF_ERROR(MakeFolders(path));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(folder.Path("config.yaml"), config_yaml));
  return folder;
}

absl::Status RunFolder::Timed(const std::string& phase, const std::function<absl::Status()>& work) {
  HONE_RETURN_IF_ERROR(Interrupted());
  const SteadyTime start = SteadyTime::Now();
  HONE_RETURN_IF_ERROR(work());
  seconds_[phase] += absl::ToDoubleSeconds(SteadyTime::Now() - start);
  return WriteFileAtomically(Path("phases.json"), nlohmann::json(seconds_).dump(2) + "\n");
}

absl::StatusOr<std::unique_ptr<MetricsPage>> ServeMetrics(const std::string& address) {
  if (address.empty()) return std::unique_ptr<MetricsPage>();
  return MetricsPage::Serve(address);
}

absl::StatusOr<RunVerifier> StartVerifier(const VerifierSettings& settings, const std::string& log_path) {
  RunVerifier verifier;
  std::string endpoint = settings.endpoint;
  if (endpoint.empty()) {
    verifier::LocalServerOptions options;
    options.log_path = log_path;
    const auto set = [&](const std::string& setting) { options.extra_args.insert(options.extra_args.end(), {"--set", setting}); };
    set(absl::StrCat("devices=[", absl::StrJoin(settings.devices, ", "), "]"));
    if (settings.build_slots > 0) set(absl::StrCat("build_slots=", settings.build_slots));
    if (settings.lanes > 0) set(absl::StrCat("lanes=", settings.lanes));
    if (!settings.sandbox.empty()) set(absl::StrCat("sandbox=", settings.sandbox));
    for (const std::string& setting : settings.options) set(setting);
    HONE_ASSIGN_OR_RETURN(verifier.server, verifier::LocalServer::Start(options));
    endpoint = verifier.server->endpoint();
  }
  verifier::ClientOptions options;
  options.endpoints = {endpoint};
  HONE_ASSIGN_OR_RETURN(verifier.client, verifier::Client::Create(options));
  HONE_ASSIGN_OR_RETURN(verifier.capabilities, verifier.client->GetCapabilities());
  const std::vector<std::string>& backends = verifier.capabilities.backends;
  const std::string wanted(Name(BackendOf(settings)));
  if (std::find(backends.begin(), backends.end(), wanted) == backends.end()) {
    return absl::InvalidArgumentError(absl::StrCat("verifier.devices: ", settings.devices[0], ", but the verifier at ", endpoint,
                                                   " judges on ", absl::StrJoin(backends, ", ")));
  }
  WarnOfSandbox(verifier.capabilities.sandbox);
  return verifier;
}

rollout::VerifyTemplate VerifyWith(const VerifierSettings& settings, std::vector<Baseline> baselines) {
  rollout::VerifyTemplate verify = {Format::kNative, BackendOf(settings), *ProtocolById(settings.protocol)};
  if (!baselines.empty()) verify.protocol.baselines = std::move(baselines);
  return verify;
}

absl::StatusOr<bool> Reinforce(const RlSettings& settings, const rewards::PipelineConfig& rewards, RolloutParts parts,
                               policy::Decoder& decoder, MetricsWriter& metrics, RunFolder& folder, SteadyTime started,
                               bool offload_optimizer, const std::function<absl::Status()>& on_checkpoint) {
  HONE_ASSIGN_OR_RETURN(const rewards::Pipeline pipeline, rewards::Pipeline::Create(rewards));
  trainer::PhaseWatch watch({std::chrono::milliseconds(static_cast<int64_t>(settings.patience_s * 1000)),
                             [](const std::string& text) { std::fprintf(stderr, "\nhone: %s", text.c_str()); }});
  const OnPhase enter = [&watch, heard = std::move(parts.on_phase)](const std::string& what) {
    watch.Enter(what);
    if (heard) heard(what);
  };
  parts.on_phase = enter;
  HONE_ASSIGN_OR_RETURN(const auto trainer, MakeTrainer(settings, decoder, offload_optimizer, enter));
  HONE_ASSIGN_OR_RETURN(const auto journal, JournalWriter::Open(folder.Path("journal.jsonl.zst")));
  HONE_ASSIGN_OR_RETURN(const auto log_probs, OpenLogProbs(settings, folder));
  trainer::CheckpointOptions checkpoint_options{.folder = folder.Path("checkpoint/rl"), .max_file_bytes = kMaxCheckpointFileBytes};
  checkpoint_options.on_file = [&](const std::string& file) { enter("writing a checkpoint: " + file); };
  HONE_ASSIGN_OR_RETURN(const auto checkpoints, trainer::Checkpointer::Create(checkpoint_options));
  std::unique_ptr<rollout::ExemplarStore> exemplars;
  if (settings.exemplars.enabled) {
    HONE_ASSIGN_OR_RETURN(exemplars, rollout::ExemplarStore::Open(folder.Path("exemplars.db"), settings.exemplars));
  }
  if (!pipeline.NeededBaselines().empty()) parts.verify.protocol.baselines = pipeline.NeededBaselines();
  SampledGroups source(settings, parts, exemplars.get());
  trainer::RlLoopOptions loop_options;
  loop_options.lag = settings.lag;
  loop_options.overlap = settings.overlap;
  loop_options.fill = settings.dynamic_sampling;
  loop_options.recorded_sequences = settings.recorded_sequences;
  trainer::RlLoop loop({source, pipeline, *trainer, parts.engine, *journal, metrics, log_probs.get(), enter}, loop_options);
  int64_t saved = -1;
  if (!checkpoints->Steps().empty()) {
    HONE_ASSIGN_OR_RETURN(const trainer::CheckpointData data, checkpoints->LoadLatest());
    HONE_RETURN_IF_ERROR(loop.Restore(data));
    saved = loop.step();
    if (on_checkpoint) HONE_RETURN_IF_ERROR(on_checkpoint());  // it may have been killed in between
  }
  const auto save = [&]() -> absl::Status {
    if (saved == loop.step()) return absl::OkStatus();
    enter("a checkpoint");
    HONE_ASSIGN_OR_RETURN(trainer::CheckpointData data, loop.Save());
    if (settings.checkpoint_moments == "bf16") RoundMoments(data);
    HONE_RETURN_IF_ERROR(checkpoints->Save(data));
    saved = loop.step();
    return on_checkpoint ? on_checkpoint() : absl::OkStatus();
  };

  enter("the self-test of the verifier");
  HONE_RETURN_IF_ERROR(ProbeVerifier(parts.client, parts.verify));
  enter("the self-test of sampler and learner");
  HONE_RETURN_IF_ERROR(SelfTest(settings, parts.engine, decoder));
  Progress progress("rl", settings.steps);
  double longest = 0;  // seconds of a step
  while (loop.step() < settings.steps) {
    HONE_RETURN_IF_ERROR(Interrupted());
    if (settings.max_seconds > 0 && absl::ToDoubleSeconds(SteadyTime::Now() - started) + longest > settings.max_seconds) {
      HONE_RETURN_IF_ERROR(save());
      progress.Finish(absl::StrFormat("stopped at step %d: %.0f seconds are over; --resume goes on", loop.step(),
                                      settings.max_seconds));
      return false;
    }
    HONE_ASSIGN_OR_RETURN(const trainer::StepMetrics m, loop.Step());
    longest = std::max(longest, m.at("seconds/step"));
    progress.Update(loop.step(), StepFigures(m));
    if (loop.step() % settings.checkpoint_every == 0 || loop.step() == settings.steps) HONE_RETURN_IF_ERROR(save());
  }
  progress.Finish();
  return true;
}

absl::Status SampleProblems(const SamplingSettings& settings, int64_t max_tokens, const std::vector<Problem>& problems,
                            RolloutParts parts, const std::string& name, RunFolder& folder, int64_t running) {
  const std::string path = folder.Path(name + ".jsonl.zst");
  std::vector<Group> groups;
  if (FileExists(path)) {
    HONE_RETURN_IF_ERROR(ReadJournal(path, [&](const Group& group) {
                           groups.push_back(group);
                           return absl::OkStatus();
                         }).status());
  }
  HONE_ASSIGN_OR_RETURN(const auto journal, JournalWriter::Open(path));
  rollout::SamplingOptions sampling;
  sampling.temperature = settings.temperature;
  sampling.max_tokens = max_tokens;
  sampling.stop_ids = parts.prompter.stop_ids();
  rollout::DriverConfig driver_config;
  driver_config.group_size = settings.samples;
  driver_config.turns = settings.turns;
  driver_config.max_context_tokens = parts.context;
  rollout::EpisodeDriver::Parts driver_parts;
  driver_parts.engine = &parts.engine;
  driver_parts.encoder = &parts.prompter;
  driver_parts.client = &parts.client;
  rollout::EpisodeDriver driver(driver_config, sampling, parts.verify, kNoDoubt, std::move(driver_parts));
  Progress progress(name, static_cast<int64_t>(problems.size()));
  const size_t width = static_cast<size_t>(std::max<int64_t>(1, running / settings.samples));
  while (groups.size() < problems.size()) {
    HONE_RETURN_IF_ERROR(Interrupted());
    std::vector<rollout::GroupRequest> requests;
    for (size_t i = groups.size(); i < std::min(groups.size() + width, problems.size()); ++i) {
      // The same id and seed, hence the same draws, whatever is sampled for and beside it.
      rollout::GroupRequest request{absl::StrCat("sample-", i), problems[i].task, {}, false,
                                    SamplingSeed(parts.seed, -1 - static_cast<int64_t>(i))};
      HONE_ASSIGN_OR_RETURN(request.prompt_ids, parts.prompter.TaskPrompt(problems[i]));
      requests.push_back(std::move(request));
    }
    HONE_ASSIGN_OR_RETURN(std::vector<Group> judged, driver.Run(requests, /*seed=*/0));
    for (Group& group : judged) {
      HONE_RETURN_IF_ERROR(journal->Append(group));
      groups.push_back(std::move(group));
    }
    progress.Update(static_cast<int64_t>(groups.size()));
  }
  const rollout::Evaluation evaluation = rollout::Evaluate(groups);
  HONE_RETURN_IF_ERROR(journal->Sync());
  HONE_RETURN_IF_ERROR(WriteFileAtomically(folder.Path(name + ".json"), rollout::ToJson(evaluation) + "\n"));
  progress.Finish(absl::StrFormat("correct %.2f [%.2f, %.2f]", evaluation.correct_rate.value, evaluation.correct_rate.low,
                                  evaluation.correct_rate.high));
  return absl::OkStatus();
}

}  // namespace hone::cli

#include "cli/train/phases.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
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
#include "cli/train/groups.h"
#include "cli/train/verifier_probe.h"
#include "rollout/episode/evaluation.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/log_prob_file.h"
#include "trainer/loop/led_ranks.h"
#include "trainer/loop/phase_watch.h"
#include "trainer/loop/rl_loop.h"
#include "trainer/loop/self_test.h"
#include "trainer/loop/sharded_state.h"
#include "verifier/client/endpoints.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

// Ctrl-C and SIGTERM ask; phases stop at the next step.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);
void OnInterrupt(int) { interrupted = true; }

constexpr int64_t kWarmupSteps = 5;
constexpr int kRunnersAhead = 16;  // that an idle GPU lane starts for the next step; fewer where it has little memory
constexpr int64_t kMaxCheckpointFileBytes = int64_t{15} << 20;  // files of 16 MiB travel

using OnPhase = std::function<void(const std::string& what)>;

absl::StatusOr<std::unique_ptr<trainer::RlTrainer>> MakeTrainer(const RlSettings& settings, policy::Decoder& decoder,
                                                                bool offload_optimizer, trainer::Communicator* ranks,
                                                                const OnPhase& on_phase) {
  trainer::RlOptions options;
  options.learner.ranks = ranks;
  options.learner.adamw.offload = offload_optimizer;
  options.learner.on_phase = [on_phase](trainer::StepPhase phase) { on_phase(Name(phase)); };
  options.learner.schedule = {trainer::Schedule::Shape::kConstant, settings.learning_rate, 0, kWarmupSteps, settings.steps};
  options.learner.adamw.weight_decay = 0;
  options.learner.micro_batch_tokens = settings.micro_batch_tokens;
  // On a CPU the fp32 kernels give the engine's bits, which plain products would not.
  options.learner.share_prefixes = settings.share_prefixes && decoder.options().device.is_cuda();
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
  if (figure("seconds/judging") > 0) absl::StrAppendFormat(&text, "  %.0f verdicts/s", figure("verdicts") / figure("seconds/judging"));
  if (m.count("workers/alive") > 0) absl::StrAppendFormat(&text, "  %.0f workers", figure("workers/alive"));
  const double gap = figure("gap/abs_log_ratio");
  if (gap > 0) absl::StrAppendFormat(&text, "  gap %.1e", gap);
  return text;
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

/// Whether the run in `folder` failed before it sampled, learned or kept anything: its name is free, then, for another try.
bool NothingCameOf(const std::string& folder) {
  const fs::path root(folder);
  std::error_code error;
  if (fs::exists(root / "checkpoint", error)) return false;
  if (fs::exists(root / "metrics.jsonl", error) && fs::file_size(root / "metrics.jsonl", error) != 0) return false;
  for (const char* part : {"", "policy"}) {
    for (fs::directory_iterator entry(root / part, error), end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (absl::EndsWith(name, ".safetensors") || absl::EndsWith(name, ".jsonl.zst") || absl::StartsWith(name, "evaluation")) {
        return false;
      }
    }
    if (*part == '\0' && error) return false;
  }
  return true;
}

/// What a run that nothing came of left behind, apart from its settings.
void RemoveTraces(const std::string& folder) {
  std::error_code error;
  for (const char* name : {"policy", "phases.json", "metrics.jsonl", "verifier.log"}) fs::remove_all(fs::path(folder) / name, error);
}

/// Held until the descriptor is closed, by whatever end of the process. Where the file system knows no locks it is none.
absl::StatusOr<UniqueFd> LockRun(const std::string& folder) {
  const std::string path = folder + "/.lock";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("creating ", path));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0 || errno == ENOLCK || errno == EOPNOTSUPP) return fd;
  if (errno != EWOULDBLOCK) return ErrnoStatus(errno, absl::StrCat("locking ", path));
  return absl::FailedPreconditionError(absl::StrCat(folder, ": another process is at work on this run"));
}

}  // namespace

const std::atomic<bool>& WatchForInterrupt() {
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  return interrupted;
}

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
  const std::string config = folder.Path("config.yaml");
  if (resume && !FileExists(config)) return absl::NotFoundError(path + " holds no run to resume");
  HONE_RETURN_IF_ERROR(MakeFolders(path));
  HONE_ASSIGN_OR_RETURN(folder.lock_, LockRun(path));
  folder.first_ = true;
  if (!resume) {
    if (FileExists(config) && !NothingCameOf(path)) {
      return absl::AlreadyExistsError(absl::StrCat(path, " holds a run; choose another --name, or --resume it"));
    }
    if (FileExists(config)) RemoveTraces(path);
    HONE_RETURN_IF_ERROR(WriteFileAtomically(config, config_yaml));
    return folder;
  }
  if (const absl::StatusOr<std::string> text = ReadFile(folder.Path("phases.json")); text.ok()) {
    const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
    for (const auto& [name, seconds] : json.items()) {
      if (seconds.is_number()) folder.seconds_[name] = seconds.get<double>();
    }
  }
  return folder;
}

absl::Status RunFolder::Timed(const std::string& phase, const std::function<absl::Status()>& work) {
  HONE_RETURN_IF_ERROR(Interrupted());
  const SteadyTime start = SteadyTime::Now();
  HONE_RETURN_IF_ERROR(work());
  seconds_[phase] += absl::ToDoubleSeconds(SteadyTime::Now() - start);
  if (!first_) return absl::OkStatus();
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
    set("holds=true");
    if (BackendOf(settings) != Backend::kCpu) set(absl::StrCat("runners_ahead=", kRunnersAhead));
    for (const std::string& setting : settings.options) set(setting);
    HONE_ASSIGN_OR_RETURN(verifier.server, verifier::LocalServer::Start(options));
    endpoint = verifier.server->endpoint();
  }
  HONE_ASSIGN_OR_RETURN(verifier.client, verifier::Client::Create(verifier::OptionsFor(endpoint)));
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
  Protocol& protocol = verify.protocol;
  if (!baselines.empty()) protocol.baselines = std::move(baselines);
  if (settings.build_s > 0) protocol.build_timeout_ms = settings.build_s * 1000;
  if (settings.run_s > 0) protocol.run_timeout_ms = settings.run_s * 1000;
  if (settings.rounds > 0 && protocol.max_rounds > settings.rounds) {
    protocol.max_rounds = static_cast<int>(settings.rounds);
    protocol.min_rounds = std::min(protocol.min_rounds, protocol.max_rounds);
    absl::StrAppend(&protocol.id, "/", settings.rounds);  // fewer rounds: another protocol's figures
  }
  return verify;
}

// Sampler and learner must agree on what they would train with. A policy of half precision rounds: by 2e-3 where logits are
// small, by more where they are large. A wrong rotation, norm or adapter is off by 0.1 and more.
absl::Status TestSampler(const RlSettings& settings, rollout::Engine& engine, policy::Decoder& decoder) {
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

namespace {

struct Source {
  std::unique_ptr<trainer::GroupSource> groups;
  WorkerGroups* workers = nullptr;  // the same, where workers sample
};

// What workers get, gathered from the ranks that hold it.
trainer::VisitLeaves GatheredWeights(trainer::LedRanks& ranks, trainer::Learner& learner) {
  return [&](const std::function<absl::Status(const policy::Leaf&)>& visit) -> absl::Status {
    HONE_RETURN_IF_ERROR(ranks.Give(trainer::Order::kShow));
    HONE_RETURN_IF_ERROR(learner.sharded()->VisitWeights(visit));
    if (learner.decoder().lora() == nullptr) return absl::OkStatus();
    for (const policy::Leaf& leaf : learner.decoder().lora()->leaves()) HONE_RETURN_IF_ERROR(visit(leaf));
    return absl::OkStatus();
  };
}

absl::StatusOr<Source> MakeSource(const Reinforcement& run, const RolloutParts& parts, rollout::ExemplarStore* exemplars,
                                  trainer::LedRanks* ranks, trainer::Learner& learner) {
  Source source;
  if (run.workers == nullptr) {
    source.groups = std::make_unique<SampledGroups>(run.settings, parts, exemplars);
    return source;
  }
  PolicyWeights weights{run.decoder, {}};
  if (ranks != nullptr) weights.visit = GatheredWeights(*ranks, learner);
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<WorkerGroups> workers,
                        WorkerGroups::Create(run.settings, parts, exemplars, *run.workers, std::move(weights)));
  if (ranks != nullptr) workers->on_wait = [ranks] { return ranks->Give(trainer::Order::kStay); };
  source.workers = workers.get();
  source.groups = std::move(workers);
  return source;
}

// Where an interrupted run goes on: one file set, or each rank's own.
class RunCheckpoints {
 public:
  static absl::StatusOr<RunCheckpoints> Open(const std::string& folder, const std::string& moments, trainer::LedRanks* ranks,
                                             const OnPhase& enter) {
    RunCheckpoints checkpoints;
    checkpoints.folder_ = folder;
    checkpoints.moments_ = moments;
    checkpoints.ranks_ = ranks;
    if (ranks != nullptr) {
      HONE_ASSIGN_OR_RETURN(checkpoints.sharded_, trainer::ShardedCheckpointer::Create(folder, ranks->ranks()));
    } else {
      trainer::CheckpointOptions options{.folder = folder, .max_file_bytes = kMaxCheckpointFileBytes};
      options.on_file = [enter](const std::string& file) { enter("writing a checkpoint: " + file); };
      HONE_ASSIGN_OR_RETURN(checkpoints.whole_, trainer::Checkpointer::Create(options));
    }
    return checkpoints;
  }

  /// False: there is none.
  absl::StatusOr<bool> Restore(trainer::RlLoop& loop, trainer::Learner& learner) {
    trainer::CheckpointData data;
    HONE_ASSIGN_OR_RETURN(const bool sharded, sharded_ != nullptr ? sharded_->Restore(learner, &data)
                                                                  : trainer::RestoreFromRanks(folder_, learner, &data));
    if (sharded) {
      HONE_RETURN_IF_ERROR(loop.RestoreOwn(data));
    } else {
      if (sharded_ != nullptr || whole_->Steps().empty()) return false;
      HONE_ASSIGN_OR_RETURN(data, whole_->LoadLatest());
      HONE_RETURN_IF_ERROR(loop.Restore(data));
    }
    saved_ = loop.step();
    return true;
  }

  absl::Status Save(trainer::RlLoop& loop, trainer::Learner& learner) {
    if (saved_ == loop.step()) return absl::OkStatus();
    if (sharded_ != nullptr) {
      HONE_ASSIGN_OR_RETURN(const trainer::CheckpointData data, loop.SaveOwn());
      HONE_RETURN_IF_ERROR(ranks_->Give(trainer::Order::kSave, loop.step()));
      HONE_RETURN_IF_ERROR(sharded_->Save(learner, loop.step(), data));
    } else {
      HONE_ASSIGN_OR_RETURN(trainer::CheckpointData data, loop.Save());
      if (moments_ == "bf16") RoundMoments(data);
      HONE_RETURN_IF_ERROR(whole_->Save(data));
    }
    saved_ = loop.step();
    return absl::OkStatus();
  }

  absl::Status Wait() { return sharded_ != nullptr ? sharded_->Wait() : absl::OkStatus(); }

 private:
  std::string folder_, moments_;
  trainer::LedRanks* ranks_ = nullptr;
  std::unique_ptr<trainer::Checkpointer> whole_;
  std::unique_ptr<trainer::ShardedCheckpointer> sharded_;
  int64_t saved_ = -1;
};

std::unique_ptr<trainer::LedRanks> Led(trainer::Communicator* ranks, const policy::Decoder& decoder) {
  if (ranks == nullptr) return nullptr;
  return std::make_unique<trainer::LedRanks>(*ranks, decoder.parameters().leaves()[0].value.device());
}

trainer::PhaseWatch WatchOf(const RlSettings& settings) {
  return trainer::PhaseWatch({std::chrono::milliseconds(static_cast<int64_t>(settings.patience_s * 1000)),
                              [](const std::string& text) { std::fprintf(stderr, "\nhone: %s", text.c_str()); }});
}

absl::Status WithWholeWeights(trainer::Learner& learner, trainer::LedRanks* ranks, const std::function<absl::Status()>& body) {
  if (ranks == nullptr) return body();
  if (ranks->leads()) HONE_RETURN_IF_ERROR(ranks->Give(trainer::Order::kExport));
  return learner.sharded()->WithWholeWeights(body);
}

}  // namespace

absl::Status FollowReinforcement(const RlSettings& settings, policy::Decoder& decoder, RunFolder& folder,
                                 bool offload_optimizer, trainer::Communicator& ranks) {
  trainer::PhaseWatch watch = WatchOf(settings);
  HONE_ASSIGN_OR_RETURN(const auto trainer, MakeTrainer(settings, decoder, offload_optimizer, &ranks,
                                                        [&watch](const std::string& what) { watch.Enter(what); }));
  trainer::Learner& learner = trainer->learner();
  const auto led = Led(&ranks, decoder);
  HONE_ASSIGN_OR_RETURN(const auto checkpoints, trainer::ShardedCheckpointer::Create(folder.Path("checkpoint/rl"), ranks));
  HONE_RETURN_IF_ERROR(checkpoints->Restore(learner).status());
  const auto nothing = [] { return absl::OkStatus(); };
  while (true) {
    watch.Rest();
    HONE_ASSIGN_OR_RETURN(const trainer::GivenOrder given, led->Await());
    switch (given.order) {
      case trainer::Order::kStay:
        break;
      case trainer::Order::kLearn: {
        HONE_ASSIGN_OR_RETURN(const std::vector<trainer::TrainSequence> own, led->Deal({}));
        HONE_RETURN_IF_ERROR(trainer->Step(own).status());
        break;
      }
      case trainer::Order::kShow:
        HONE_RETURN_IF_ERROR(learner.sharded()->VisitWeights([](const policy::Leaf&) { return absl::OkStatus(); }));
        break;
      case trainer::Order::kSave:
        HONE_RETURN_IF_ERROR(checkpoints->Save(learner, given.number, {}));
        break;
      case trainer::Order::kExport:
        HONE_RETURN_IF_ERROR(WithWholeWeights(learner, led.get(), nothing));
        break;
      case trainer::Order::kEnd:
        return checkpoints->Wait();
    }
  }
}

absl::StatusOr<bool> Reinforce(const Reinforcement& run) {
  const RlSettings& settings = run.settings;
  RunFolder& folder = run.folder;
  RolloutParts parts = run.parts;
  HONE_ASSIGN_OR_RETURN(const rewards::Pipeline pipeline, rewards::Pipeline::Create(run.rewards));
  trainer::PhaseWatch watch = WatchOf(settings);
  const OnPhase enter = [&watch, heard = std::move(parts.on_phase)](const std::string& what) {
    watch.Enter(what);
    if (heard) heard(what);
  };
  parts.on_phase = enter;
  HONE_ASSIGN_OR_RETURN(const auto trainer, MakeTrainer(settings, run.decoder, run.offload_optimizer, run.ranks, enter));
  trainer::Learner& learner = trainer->learner();
  const auto led = Led(run.ranks, run.decoder);
  HONE_ASSIGN_OR_RETURN(const auto journal, JournalWriter::Open(folder.Path("journal.jsonl.zst")));
  HONE_ASSIGN_OR_RETURN(const auto log_probs, OpenLogProbs(settings, folder));
  std::unique_ptr<rollout::ExemplarStore> exemplars;
  if (settings.exemplars.enabled) {
    HONE_ASSIGN_OR_RETURN(exemplars, rollout::ExemplarStore::Open(folder.Path("exemplars.db"), settings.exemplars));
  }
  if (!pipeline.NeededBaselines().empty()) parts.verify.protocol.baselines = pipeline.NeededBaselines();
  HONE_ASSIGN_OR_RETURN(const Source source, MakeSource(run, parts, exemplars.get(), led.get(), learner));
  trainer::RlLoopOptions loop_options;
  loop_options.lag = source.workers == nullptr ? settings.lag : 0;  // workers are ahead by themselves
  loop_options.overlap = settings.overlap;
  loop_options.fill = settings.dynamic_sampling;
  loop_options.recorded_sequences = settings.recorded_sequences;
  trainer::RlLoop loop({*source.groups, pipeline, *trainer, *journal, run.metrics, log_probs.get(), led.get(), enter}, loop_options);
  HONE_ASSIGN_OR_RETURN(RunCheckpoints checkpoints,
                        RunCheckpoints::Open(folder.Path("checkpoint/rl"), settings.checkpoint_moments, led.get(), enter));
  HONE_ASSIGN_OR_RETURN(const bool goes_on, checkpoints.Restore(loop, learner));
  if (goes_on && run.on_checkpoint) HONE_RETURN_IF_ERROR(run.on_checkpoint());  // it may have been killed in between
  const auto save = [&]() -> absl::Status {
    enter("a checkpoint");
    HONE_RETURN_IF_ERROR(checkpoints.Save(loop, learner));
    return run.on_checkpoint ? run.on_checkpoint() : absl::OkStatus();
  };

  if (source.workers == nullptr) {
    enter("the self-test of the verifier");
    HONE_RETURN_IF_ERROR(ProbeVerifier(*parts.client, parts.verify));
    enter("the self-test of sampler and learner");
    HONE_RETURN_IF_ERROR(TestSampler(settings, *parts.engine, run.decoder));
  }
  Progress progress("rl", settings.steps);
  if (learner.options().share_prefixes && !trainer->prefix_sharing().ok()) {
    std::fprintf(stderr, "rl.share_prefixes: prompts are computed for each sample: %s\n",
                 std::string(trainer->prefix_sharing().message()).c_str());
  }
  double longest = 0;  // seconds of a step
  while (loop.step() < settings.steps) {
    HONE_RETURN_IF_ERROR(Interrupted());
    if (settings.max_seconds > 0 && absl::ToDoubleSeconds(SteadyTime::Now() - run.started) + longest > settings.max_seconds) {
      HONE_RETURN_IF_ERROR(save());
      HONE_RETURN_IF_ERROR(checkpoints.Wait());
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
  if (source.workers != nullptr) source.workers->Finish();
  HONE_RETURN_IF_ERROR(checkpoints.Wait());
  if (run.at_end) HONE_RETURN_IF_ERROR(WithWholeWeights(learner, led.get(), run.at_end));
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
  EpisodeSettings episodes;
  episodes.group_size = settings.samples;
  episodes.turns = settings.turns;
  episodes.max_tokens = max_tokens;
  episodes.temperature = settings.temperature;
  rollout::EpisodeDriver driver = MakeDriver(parts, episodes);
  Progress progress(name, static_cast<int64_t>(problems.size()));
  const size_t width = static_cast<size_t>(std::max<int64_t>(1, running / settings.samples));
  while (groups.size() < problems.size()) {
    HONE_RETURN_IF_ERROR(Interrupted());
    std::vector<rollout::GroupRequest> requests;
    for (size_t i = groups.size(); i < std::min(groups.size() + width, problems.size()); ++i) {
      // The same id and seed, hence the same draws, whatever is sampled for and beside it.
      rollout::GroupRequest request{absl::StrCat("sample-", i), problems[i].task, {}, false,
                                    SamplingSeed(parts.seed, -1 - static_cast<int64_t>(i))};
      HONE_ASSIGN_OR_RETURN(request.prompt_ids, parts.prompter->TaskPrompt(problems[i]));
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

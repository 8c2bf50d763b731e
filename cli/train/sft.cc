#include "cli/train/sft.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/metrics.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "cli/train/phases.h"
#include "cli/train/ranks.h"
#include "cli/train/start.h"
#include "policy/model/device.h"
#include "policy/model/hf_folder.h"
#include "policy/model/threads.h"
#include "rollout/sampler/random.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/comm/communicator.h"
#include "trainer/data/dataset.h"
#include "trainer/loop/learner_state.h"
#include "trainer/loop/phase_watch.h"
#include "trainer/loop/scorer.h"
#include "trainer/loop/sft_trainer.h"
#include "trainer/loop/sharded_state.h"

namespace hone::cli {
namespace {

trainer::SftObjective Objective(const std::string& name) {
  if (name == "cuset") return trainer::SftObjective::kCuset;
  if (name == "dft") return trainer::SftObjective::kDft;
  return name == "profit" ? trainer::SftObjective::kProfit : trainer::SftObjective::kPlain;
}

struct Examples {
  std::vector<trainer::TrainSequence> train, held_out;
  int64_t too_long = 0;
};

absl::StatusOr<Examples> ReadExamples(const SftConfig& config, const std::string& policy_folder) {
  HONE_ASSIGN_OR_RETURN(const std::vector<trainer::DatasetRecord> records, trainer::ReadDataset(config.data));
  HONE_ASSIGN_OR_RETURN(const auto tokenizer, policy::Tokenizer::Load(policy_folder));
  absl::StatusOr<std::unique_ptr<policy::ChatTemplate>> chat = policy::ChatTemplate::Load(policy_folder);
  if (absl::IsNotFound(chat.status())) chat = policy::ChatTemplate::ChatMl();
  HONE_RETURN_IF_ERROR(chat.status());
  const trainer::EncodeSettings settings{config.max_length, config.objective.name == "cuset"};
  Examples out;
  std::vector<trainer::TrainSequence> all;
  for (const trainer::DatasetRecord& record : records) {
    absl::StatusOr<trainer::TrainSequence> sequence = trainer::EncodeRecord(record, *tokenizer, **chat, settings);
    if (absl::IsOutOfRange(sequence.status())) {
      ++out.too_long;
      continue;
    }
    if (!sequence.ok())
      return absl::Status(sequence.status().code(), absl::StrCat(config.data, ": ", sequence.status().message()));
    all.push_back(*std::move(sequence));
  }
  const size_t held = static_cast<size_t>(std::floor(config.held_out * static_cast<double>(all.size())));
  if (all.size() <= held)
    return absl::InvalidArgumentError(
        absl::StrCat(config.data, ": no example of at most ", config.max_length, " tokens is left to train on"));
  out.held_out.assign(std::make_move_iterator(all.end() - held), std::make_move_iterator(all.end()));
  all.resize(all.size() - held);
  out.train = std::move(all);
  return out;
}

// The examples of a step: epoch after epoch, each in an order of its own that the seed decides.
std::vector<size_t> BatchOf(int64_t step, int64_t batch, size_t examples, int64_t seed) {
  std::vector<size_t> out, order;
  int64_t shuffled = -1;
  for (int64_t i = step * batch; i < (step + 1) * batch; ++i) {
    const int64_t epoch = i / static_cast<int64_t>(examples);
    if (epoch != shuffled) {
      order.resize(examples);
      std::iota(order.begin(), order.end(), size_t{0});
      rollout::SplitMix random(static_cast<uint64_t>(seed) * 1000003 + static_cast<uint64_t>(epoch));
      for (size_t k = examples; k > 1; --k) std::swap(order[k - 1], order[random.Below(static_cast<int64_t>(k))]);
      shuffled = epoch;
    }
    out.push_back(order[i % static_cast<int64_t>(examples)]);
  }
  return out;
}

class SftRun {
 public:
  SftRun(const SftConfig& config, RunFolder folder, std::function<void(const std::string& what)> on_phase)
      : config_(config),
        folder_(std::move(folder)),
        on_phase_(std::move(on_phase)),
        watch_({std::chrono::milliseconds(static_cast<int64_t>(config.patience_s * 1000)),
                [](const std::string& text) { std::fprintf(stderr, "\nhone: %s", text.c_str()); }}) {}

  absl::Status Prepare(const trainer::RankEnvironment& environment, std::unique_ptr<trainer::Communicator> ranks,
                       const at::Device& device) {
    ranks_ = std::move(ranks);
    first_ = environment.rank == 0;
    HONE_ASSIGN_OR_RETURN(start_,
                          LoadStart(config_.start, {.device = device,
                                                    .dtype = TypeNamed(config_.device.dtype),
                                                    .checkpoint_activations = config_.device.checkpoint_activations,
                                                    .separate_layers = ranks_ != nullptr}));
    HONE_ASSIGN_OR_RETURN(examples_, ReadExamples(config_, start_.folder));
    HONE_RETURN_IF_ERROR(AddAdapter(device));
    if (first_) HONE_RETURN_IF_ERROR(CopyPolicyFiles(start_.folder, folder_.Path("policy")));
    steps_ = config_.steps > 0
                 ? config_.steps
                 : (config_.epochs * static_cast<int64_t>(examples_.train.size()) + config_.batch - 1) / config_.batch;
    trainer::SftOptions options;
    options.learner.adamw.weight_decay = config_.weight_decay;
    options.learner.adamw.offload = config_.device.offload_optimizer;
    options.learner.clip_norm = config_.clip_norm;
    options.learner.micro_batch_tokens = config_.micro_batch_tokens;
    options.learner.ranks = ranks_.get();
    options.learner.shards.replicate_frozen = config_.replicate_frozen;
    options.learner.on_phase = [this](trainer::StepPhase phase) { Enter(Name(phase)); };
    options.learner.schedule = {
        config_.schedule == "cosine" ? trainer::Schedule::Shape::kCosine : trainer::Schedule::Shape::kConstant,
        config_.learning_rate, 0, static_cast<int64_t>(std::ceil(config_.warmup * static_cast<double>(steps_))),
        steps_};
    options.weights = {Objective(config_.objective.name), config_.objective.tau, config_.objective.lambda,
                       config_.objective.window};
    HONE_ASSIGN_OR_RETURN(trainer_, trainer::SftTrainer::Create(options, *start_.decoder));
    if (first_) {
      HONE_ASSIGN_OR_RETURN(page_, ServeMetrics(config_.metrics));
      HONE_ASSIGN_OR_RETURN(metrics_, MetricsWriter::Create(folder_.path(), clock_));
      if (page_ != nullptr) metrics_->AlsoTo([this](int64_t step, const auto& values) { page_->Set(step, values); });
    }
    return OpenCheckpoints();
  }

  absl::Status Run() {
    nlohmann::json figures{{"examples", examples_.train.size()},
                           {"held_out", examples_.held_out.size()},
                           {"too_long", examples_.too_long},
                           {"steps", steps_}};
    if (trainer_->learner().step() == 0) HONE_RETURN_IF_ERROR(Measure("held_out_nll_before", figures));
    HONE_RETURN_IF_ERROR(folder_.Timed("fine-tune", [&] { return Steps(); }));
    HONE_RETURN_IF_ERROR(Measure("held_out_nll_after", figures));
    HONE_RETURN_IF_ERROR(Export());
    if (!first_) return absl::OkStatus();
    HONE_RETURN_IF_ERROR(metrics_->Flush());
    return WriteFileAtomically(folder_.Path("sft.json"), figures.dump(2) + "\n");
  }

 private:
  void Enter(const std::string& what) {
    watch_.Enter(what);
    if (on_phase_) on_phase_(what);
  }

  absl::Status AddAdapter(const at::Device& device) {
    if (config_.lora.rank == 0) return absl::OkStatus();
    for (const policy::Leaf& leaf : start_.decoder->parameters().leaves()) {
      at::Tensor value = leaf.value;
      value.set_requires_grad(false);
    }
    policy::LoraOptions options;
    options.rank = config_.lora.rank;
    options.alpha = config_.lora.alpha;
    options.targets = config_.lora.targets;
    const at::ScalarType dtype = start_.decoder->parameters().leaves()[0].value.scalar_type();
    HONE_ASSIGN_OR_RETURN(
        lora_, policy::Lora::Create(start_.decoder->config(), options, at::TensorOptions(device).dtype(dtype),
                                    static_cast<uint64_t>(config_.seed)));
    start_.decoder->UseLora(lora_.get());
    return absl::OkStatus();
  }

  absl::Status OpenCheckpoints() {
    const std::string path = folder_.Path("checkpoint/sft");
    if (ranks_ != nullptr) {
      HONE_ASSIGN_OR_RETURN(sharded_, trainer::ShardedCheckpointer::Create(path, *ranks_));
      return sharded_->Restore(trainer_->learner()).status();
    }
    trainer::CheckpointOptions options{.folder = path};
    options.on_file = [this](const std::string& file) { Enter("writing a checkpoint: " + file); };
    HONE_ASSIGN_OR_RETURN(checkpoints_, trainer::Checkpointer::Create(options));
    HONE_ASSIGN_OR_RETURN(const bool of_ranks, trainer::RestoreFromRanks(path, trainer_->learner()));
    if (of_ranks || checkpoints_->Steps().empty()) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(const trainer::CheckpointData data, checkpoints_->LoadLatest());
    return trainer::RestoreLearnerState(data, trainer_->learner());
  }

  absl::Status Save() {
    Enter("a checkpoint");
    if (ranks_ != nullptr) {
      HONE_RETURN_IF_ERROR(sharded_->Save(trainer_->learner()));
    } else {
      trainer::CheckpointData data;
      trainer::AddLearnerState(trainer_->learner(), data);
      HONE_RETURN_IF_ERROR(checkpoints_->Save(data));
    }
    return SaveAdapter();
  }

  absl::Status SaveAdapter() {
    return lora_ != nullptr && first_ ? lora_->Save(folder_.Path("adapter"), start_.weights) : absl::OkStatus();
  }

  // This rank's part of examples that all ranks know.
  std::vector<trainer::TrainSequence> Own(const std::vector<trainer::TrainSequence>& from,
                                          const std::vector<size_t>& which) const {
    std::vector<int64_t> lengths;
    for (size_t index : which) lengths.push_back(from[index].length());
    std::vector<trainer::TrainSequence> own;
    for (size_t i : trainer::ShareOfRank(lengths, ranks_ ? ranks_->size() : 1, ranks_ ? ranks_->rank() : 0))
      own.push_back(from[which[i]]);
    return own;
  }

  // Ctrl-C reaches the ranks at different steps: they stop together, after a checkpoint.
  absl::StatusOr<bool> Stopping() {
    std::vector<double> asked{Interrupted().ok() ? 0.0 : 1.0};
    HONE_RETURN_IF_ERROR(trainer::SumOverRanks(ranks_.get(), asked));
    return asked[0] > 0;
  }

  absl::Status Steps() {
    std::optional<Progress> progress;
    if (first_) progress.emplace("sft", steps_);
    while (trainer_->learner().step() < steps_) {
      const int64_t step = trainer_->learner().step();
      HONE_ASSIGN_OR_RETURN(const bool stopping, Stopping());
      if (stopping) {
        HONE_RETURN_IF_ERROR(Save());
        if (sharded_) HONE_RETURN_IF_ERROR(sharded_->Wait());
        return absl::CancelledError("interrupted; --resume goes on from here");
      }
      const SteadyTime started = SteadyTime::Now();
      Enter(absl::StrCat("step ", step));
      HONE_ASSIGN_OR_RETURN(
          const trainer::StepMetrics m,
          trainer_->Step(Own(examples_.train, BatchOf(step, config_.batch, examples_.train.size(), config_.seed))));
      if (first_) {
        trainer::StepMetrics named;
        for (const auto& [name, value] : m) named["sft/" + name] = value;
        const policy::DeviceMemory memory = policy::MemoryOf(start_.decoder->parameters().leaves()[0].value.device());
        if (memory.peak_bytes > 0) {
          named["sft/peak_gb"] = static_cast<double>(memory.peak_bytes) / 1e9;
          named["sft/device_gb"] = static_cast<double>(memory.used_bytes) / 1e9;
        }
        named["seconds/step"] = absl::ToDoubleSeconds(SteadyTime::Now() - started);
        HONE_RETURN_IF_ERROR(metrics_->Write(step, named));
        progress->Update(step + 1, absl::StrFormat("nll %.4f  norm %.2f  %.0f tok/s", m.at("nll"),
                                                   m.at("gradient_norm"), m.at("tokens_per_s")));
      }
      if ((step + 1) % config_.checkpoint_every == 0 || step + 1 == steps_) HONE_RETURN_IF_ERROR(Save());
    }
    if (sharded_) HONE_RETURN_IF_ERROR(sharded_->Wait());
    watch_.Rest();
    if (progress) progress->Finish();
    return absl::OkStatus();
  }

  // Mean negative log-likelihood a token of what was never trained on.
  absl::Status Measure(const char* name, nlohmann::json& figures) {
    if (examples_.held_out.empty()) return absl::OkStatus();
    std::vector<size_t> all(examples_.held_out.size());
    std::iota(all.begin(), all.end(), size_t{0});
    const std::vector<trainer::TrainSequence> own = Own(examples_.held_out, all);
    HONE_ASSIGN_OR_RETURN(const auto scores,
                          trainer::ScoreSequences(*start_.decoder, own, 1.0, config_.micro_batch_tokens, ranks_.get()));
    std::vector<double> sums{0, 0};
    for (size_t i = 0; i < own.size(); ++i) {
      sums[0] -= std::accumulate(scores[i].begin(), scores[i].end(), 0.0);
      sums[1] += static_cast<double>(own[i].LossTokens());
    }
    HONE_RETURN_IF_ERROR(trainer::SumOverRanks(ranks_.get(), sums));
    figures[name] = sums[0] / sums[1];
    return absl::OkStatus();
  }

  absl::Status Export() {
    if (lora_ != nullptr) return SaveAdapter();
    const auto save = [&] {
      return first_ ? policy::SaveHfWeights(*start_.decoder, folder_.Path("policy")) : absl::OkStatus();
    };
    return ranks_ != nullptr ? trainer_->learner().sharded()->WithWholeWeights(save) : save();
  }

  SftConfig config_;
  RunFolder folder_;
  RealClock clock_;
  std::function<void(const std::string& what)> on_phase_;
  trainer::PhaseWatch watch_;
  bool first_ = true;
  std::unique_ptr<trainer::Communicator> ranks_;
  StartingPolicy start_;
  std::unique_ptr<policy::Lora> lora_;
  Examples examples_;
  int64_t steps_ = 0;
  std::unique_ptr<trainer::SftTrainer> trainer_;
  std::unique_ptr<trainer::Checkpointer> checkpoints_;
  std::unique_ptr<trainer::ShardedCheckpointer> sharded_;
  std::unique_ptr<MetricsPage> page_;  // null: none
  std::unique_ptr<MetricsWriter> metrics_;
};

}  // namespace

absl::Status RunSft(const SftConfig& config, const std::string& folder, bool resume,
                    std::function<void(const std::string& what)> on_phase) {
  for (const auto& [name, value] :
       {std::pair<const char*, const std::string*>{"start", &config.start}, {"data", &config.data}}) {
    if (value->empty()) return absl::InvalidArgumentError(absl::StrCat(name, " is not set"));
  }
  policy::SetComputeThreads(config.threads > 0 ? static_cast<int>(config.threads)
                                               : static_cast<int>(std::thread::hardware_concurrency()));
  policy::SeedOperators(static_cast<uint64_t>(config.seed));
  WatchForInterrupt();
  HONE_ASSIGN_OR_RETURN(JobRanks job, MeetRanks(config.device));
  HONE_ASSIGN_OR_RETURN(const at::Device device, policy::FindDevice(job.device.device));
  HONE_ASSIGN_OR_RETURN(RunFolder run_folder, FolderOfJob(job, folder, ToYaml(config), resume));
  SftRun run(config, std::move(run_folder), std::move(on_phase));
  HONE_RETURN_IF_ERROR(run.Prepare(job.environment, std::move(job.communicator), device));
  return run.Run();
}

}  // namespace hone::cli

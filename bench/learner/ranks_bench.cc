// Two ranks with a GPU each, under torchrun's environment: full sharding against one GPU, new weights for an engine on
// the other GPU, sampling and learning side by side, and what happens when a rank is killed. One JSON object a line;
// the first rank records. On the CPU it runs tiny shapes: the same code, figures of no meaning.
//
//   RANK=r LOCAL_RANK=r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29517 ranks_bench PART [options]
//   PART: comm, scaling, lora_8b, scaling_8b, curve, weights, one_step_off, killed
// How FLOP are counted: workload.h.

#include <unistd.h>

#include <c10/core/CachingDeviceAllocator.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/results.h"
#include "base/steady_time.h"
#include "bench/learner/workload.h"
#include "cmake/torch_pch.h"
#include "policy/model/lora.h"
#include "rollout/engine/native_engine.h"
#include "trainer/comm/weight_channel.h"
#include "trainer/coordinator/batch_queue.h"
#include "trainer/loop/rl_trainer.h"
#include "trainer/loop/sft_trainer.h"

namespace hone::bench {
namespace {

using policy::Decoder;
using policy::ModelConfig;
using trainer::Communicator;
using trainer::RankEnvironment;
using trainer::TrainSequence;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

struct Arguments {
  std::string part;
  std::string device = "cuda";
  std::string record;
  std::string machine = "2 x NVIDIA H200";
  std::string commit = "unknown";
};

template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::printf("{\"failed\": \"%s\"}\n", std::string(value.status().message()).c_str());
  std::fflush(stdout);
  _exit(1);
}
void OrDie(const absl::Status& status) {
  OrDie(status.ok() ? absl::StatusOr<bool>(true) : absl::StatusOr<bool>(status));
}

class Bench {
 public:
  Bench(const Arguments& arguments, const RankEnvironment& environment, const at::Device& device)
      : arguments_(arguments), environment_(environment), device_(device), cpu_(device.is_cpu()) {
    if (cpu_) at::set_num_threads(1);
  }

  int Run() {
    const std::map<std::string, std::function<void()>> parts = {
        {"comm", [&] { Comm(); }},       {"scaling", [&] { Scaling(); }},     {"scaling_8b", [&] { Scaling8B(); }},
        {"curve", [&] { Curve(); }},     {"weights", [&] { Weights(); }},     {"one_step_off", [&] { OneStepOff(); }},
        {"lora_8b", [&] { Lora8B(); }},  {"killed", [&] { Killed(); }}};
    const auto part = parts.find(arguments_.part);
    if (part == parts.end()) return 2;
    part->second();
    return 0;
  }

 private:
  bool first() const { return environment_.rank == 0; }

  void Say(const std::string& row) const {
    std::printf("{\"rank\": %d, %s}\n", environment_.rank, row.c_str());
    std::fflush(stdout);
  }
  void Record(const std::string& id, double value, const std::string& unit) const {
    Say(absl::StrCat("\"figure\": \"", id, "\", \"value\": ", value, ", \"unit\": \"", unit, "\""));
    if (arguments_.record.empty() || !first()) return;
    const BenchResult result{
        id, value, unit, "bench/device/learner_x2.sh", arguments_.machine, Today(), arguments_.commit};
    OrDie(RecordResults(arguments_.record, std::vector<BenchResult>{result}));
  }

  // Gives up sooner than a job would, so that a failure leaves time for the other parts.
  static trainer::CommunicatorOptions Impatient() {
    trainer::CommunicatorOptions options;
    options.dead_after = absl::Seconds(15);
    options.on_dead_rank = trainer::ExitOnDeadRank(absl::Seconds(2));
    return options;
  }

  // A communicator of these ranks; each at a port of its own.
  std::unique_ptr<Communicator> Meet(const at::Device& device, int port_offset,
                                     trainer::CommunicatorOptions options = Impatient()) const {
    RankEnvironment environment = environment_;
    environment.master_port += port_offset;
    options.rendezvous = absl::Seconds(60);
    const Clock::time_point start = Clock::now();
    auto ranks = OrDie(trainer::Connect(environment, device, options));
    Say(absl::StrCat("\"connected\": \"", device.str(), "\", \"seconds\": ", Seconds(start)));
    return ranks;
  }

  at::ScalarType dtype() const { return cpu_ ? at::kFloat : at::kBFloat16; }
  ModelConfig Tiny() const { return Shape(512, 64, 128, 3, 4, 2, 16); }

  std::unique_ptr<Decoder> Make(const ModelConfig& config, bool separate, bool checkpoint = false) const {
    auto decoder = OrDie(Decoder::Create(
        config,
        {.device = device_, .dtype = dtype(), .checkpoint_activations = checkpoint, .separate_layers = separate}));
    FillRandom(*decoder);
    return decoder;
  }
  void DropCaches() const {
    if (!cpu_) c10::getDeviceAllocator(device_.type())->emptyCache();
  }

  // --- comm

  void Check(const char* what, const at::Tensor& got, double want) const {
    const double worst = (got.to(at::kDouble) - want).abs().max().item<double>();
    Say(absl::StrCat("\"check\": \"", what, "\", \"error\": ", worst, ", \"ok\": ", worst == 0 ? "true" : "false"));
  }

  void Comm() {
    const auto ranks = Meet(device_, 0);
    const int n = ranks->size(), r = ranks->rank();
    const auto on = at::TensorOptions(device_).dtype(at::kFloat);
    const at::Tensor all = at::empty({4 * n}, on), part = at::empty({4}, on), whole = at::full({4 * n}, r + 1.0, on),
                     sum = at::full({5}, r + 1.0, on), told = at::full({3}, r == 0 ? 7.0 : 0.0, on);
    OrDie(OrDie(ranks->AllGather(all, at::full({4}, r + 1.0, on)))->Wait());
    Check("all-gather", all.narrow(0, 4 * (n - 1), 4), n);
    OrDie(OrDie(ranks->ReduceScatter(part, whole))->Wait());
    Check("reduce-scatter", part, n * (n + 1) / 2.0);
    OrDie(ranks->AllReduce(sum));
    Check("all-reduce", sum, n * (n + 1) / 2.0);
    OrDie(ranks->Broadcast(told, 0));
    Check("broadcast", told, 7);
    const int64_t numbers = cpu_ ? 1 << 10 : int64_t{256} << 20;
    const at::Tensor large = at::zeros({numbers}, on), mine = at::zeros({numbers / n}, on);
    const auto time = [&](const char* what, double bytes, const std::function<void()>& body) {
      const double seconds = MedianSeconds(device_, 2, 5, body);
      Say(absl::StrCat("\"collective\": \"", what, "\", \"bytes\": ", bytes, ", \"ms\": ", seconds * 1e3,
                       ", \"gb_s\": ", bytes / seconds / 1e9));
    };
    const double bytes = static_cast<double>(numbers) * 4;
    time("all-gather", bytes, [&] { OrDie(OrDie(ranks->AllGather(large, mine))->Wait()); });
    time("reduce-scatter", bytes, [&] { OrDie(OrDie(ranks->ReduceScatter(mine, large))->Wait()); });
    time("all-reduce", bytes, [&] { OrDie(ranks->AllReduce(large)); });
    time("broadcast", bytes, [&] { OrDie(ranks->Broadcast(large, 0)); });
    time("barrier", 8, [&] { OrDie(ranks->Barrier()); });
  }

  // --- full sharding

  /// What is timed: steps on 4 x 4096 tokens a rank.
  struct StepJob {
    std::string name;
    ModelConfig config;
    Communicator* ranks = nullptr;  // null: alone
    bool checkpoint = false, lora = false;
    trainer::ShardOptions shards;
    int warm = 2, runs = 7;
  };
  struct StepFigures {
    double seconds = 0, loss = 0, flops_per_token = 0, optimizer_s = 0;
  };

  // Where a step's time goes, once it is asked for: waits at the border of each phase.
  struct Phases {
    explicit Phases(const at::Device& device) : device(device) {}
    void Start() { on = true; }
    void Enter(int next) {
      if (!on) return;
      policy::Synchronize(device);
      if (phase >= 0) seconds[phase] += Seconds(last);
      last = Clock::now();
      phase = next;
    }
    at::Device device;
    bool on = false;
    int phase = -1;
    Clock::time_point last;
    std::map<int, double> seconds;
  };

  std::unique_ptr<policy::Lora> Adapt(Decoder& decoder) const {
    for (const policy::Leaf& leaf : decoder.parameters().leaves()) {
      at::Tensor value = leaf.value;
      value.set_requires_grad(false);
    }
    auto lora = OrDie(policy::Lora::Create(decoder.config(), {}, at::TensorOptions(device_).dtype(dtype()), 1));
    decoder.UseLora(lora.get());
    return lora;
  }

  StepFigures TimeSteps(const StepJob& job) {
    const int64_t length = cpu_ ? 32 : 4096;
    const auto decoder = Make(job.config, job.ranks != nullptr, job.checkpoint);
    const auto lora = job.lora ? Adapt(*decoder) : nullptr;
    StepFigures figures;
    figures.flops_per_token = FlopsPerToken(*decoder, length, trainer::TrainPasses(*decoder));
    trainer::SftOptions options;
    options.learner.micro_batch_tokens = 1 << 20;
    options.learner.schedule.peak = 1e-5;
    options.learner.ranks = job.ranks;
    options.learner.shards = job.shards;
    Phases phases(device_);
    options.learner.on_phase = [&](trainer::StepPhase phase) { phases.Enter(static_cast<int>(phase)); };
    const auto sft = OrDie(trainer::SftTrainer::Create(options, *decoder));
    const auto sequences = Sequences(4, length, job.config.vocab_size);
    policy::ResetPeakMemory(device_);
    figures.seconds =
        MedianSeconds(device_, job.warm, job.runs, [&] { figures.loss = OrDie(sft->Step(sequences)).at("loss"); });
    const policy::DeviceMemory memory = policy::MemoryOf(device_);
    const double tokens = 4.0 * static_cast<double>(length);  // of one rank
    Say(absl::StrCat("\"steps\": \"", job.name, "\", \"seconds\": ", figures.seconds,
                     ", \"tok_s_of_a_gpu\": ", tokens / figures.seconds,
                     ", \"mfu\": ", tokens / figures.seconds * figures.flops_per_token / kPeakFlops,
                     ", \"loss\": ", figures.loss, ", \"peak_gb\": ", static_cast<double>(memory.peak_bytes) / 1e9,
                     ", \"reserved_gb\": ", static_cast<double>(memory.reserved_peak_bytes) / 1e9));
    phases.Start();
    for (int i = 0; i < 2; ++i) {
      OrDie(sft->Step(sequences));
      phases.Enter(-1);
    }
    figures.optimizer_s = phases.seconds[3] / 2;
    Say(absl::StrCat("\"steps\": \"", job.name, "\", \"forward_s\": ", phases.seconds[1] / 2,
                     ", \"backward_and_norm_s\": ", phases.seconds[2] / 2, ", \"optimizer_s\": ", figures.optimizer_s));
    if (job.ranks != nullptr && !job.shards.replicate_frozen) TimeGathers(*sft->learner().sharded());
    return figures;
  }

  // What the gathers of one pass take when nothing is computed meanwhile.
  void TimeGathers(trainer::ShardedAdamW& sharded) {
    const double seconds = MedianSeconds(
        device_, 1, 3, [&] { OrDie(sharded.VisitWeights([](const policy::Leaf&) { return absl::OkStatus(); })); });
    Say(absl::StrCat("\"gathers_of_a_pass_alone_s\": ", seconds));
  }

  // One after another, each with a GPU's memory to itself; all ranks are done with it when this returns.
  StepFigures Next(Communicator& ranks, const StepJob& job) {
    const StepFigures figures = TimeSteps(job);
    DropCaches();
    OrDie(ranks.Barrier());
    return figures;
  }
  // The faster of the GPUs is what all together are measured against.
  double Fastest(Communicator& ranks, double seconds) const {
    std::vector<double> best{-seconds};
    OrDie(ranks.Max(best));
    return -best[0];
  }

  void Scaling() {
    const ModelConfig config = cpu_ ? Tiny() : Qwen1_5B();
    const auto ranks = Meet(device_, 0);
    const StepFigures alone = Next(*ranks, {.name = "alone", .config = config});  // both GPUs at once
    const StepFigures sharded = Next(*ranks, {.name = "sharded", .config = config, .ranks = ranks.get()});
    const StepFigures serial = Next(*ranks, {.name = "sharded, transfers in turn",
                                             .config = config,
                                             .ranks = ranks.get(),
                                             .shards = {.overlap = false}});
    const double n = ranks->size(), one = Fastest(*ranks, alone.seconds);
    Record("learner.two_gpu_scaling", n * one / sharded.seconds, "x of one GPU's tokens/s, 1.5B full fine-tune");
    Record("learner.qwen1_5b.two_gpu_tok_s", n * 16384 / sharded.seconds, "tok/s");
    // Two GPUs' step without its transfers: one GPU's, with half of the optimiser's work.
    const double computing = one - alone.optimizer_s + sharded.optimizer_s;
    Record("learner.two_gpu_serial_step", serial.seconds / sharded.seconds,
           "x of the step's time when gathers and scatters wait their turn");
    Record("learner.two_gpu_transfers_hidden", (serial.seconds - sharded.seconds) / (serial.seconds - computing),
           "share of the transfers' time that computing hides, 1.5B full fine-tune");
  }

  // An adapter over 8B fits one GPU: what two make of it, the frozen weights spread or whole on each.
  void Lora8B() {
    const ModelConfig config = cpu_ ? Tiny() : Qwen8B();
    const auto ranks = Meet(device_, 0);
    StepJob job{.name = "8B lora, alone", .config = config, .lora = true, .warm = 1, .runs = 3};
    const double n = ranks->size(), one = Fastest(*ranks, Next(*ranks, job).seconds);
    job.ranks = ranks.get();
    job.name = "8B lora, spread";
    const StepFigures spread = Next(*ranks, job);
    job.name = "8B lora, replicated";
    job.shards.replicate_frozen = true;
    const StepFigures replicated = Next(*ranks, job);
    Record("learner.qwen8b.two_gpu_lora_scaling", n * one / spread.seconds, "x of one GPU's tokens/s, frozen weights spread");
    Record("learner.qwen8b.two_gpu_lora_scaling_replicated", n * one / replicated.seconds,
           "x of one GPU's tokens/s, frozen weights whole on each");
    Record("learner.qwen8b.two_gpu_lora_tok_s", n * 16384 / std::min(spread.seconds, replicated.seconds), "tok/s");
  }

  void Scaling8B() {
    const ModelConfig config = cpu_ ? Tiny() : Qwen8B();
    const auto ranks = Meet(device_, 0);
    const StepFigures sharded = TimeSteps(
        {.name = "8B sharded", .config = config, .ranks = ranks.get(), .checkpoint = true, .warm = 1, .runs = 3});
    const double tokens = 16384.0 * ranks->size();
    Record("learner.qwen8b.two_gpu_full_tok_s", tokens / sharded.seconds, "tok/s, full fine-tune, checkpointed");
    Record("learner.qwen8b.two_gpu_full_mfu", 16384 / sharded.seconds * sharded.flops_per_token / kPeakFlops, "share");
    OrDie(ranks->Barrier());
  }

  // A step's 8 sequences, new in every step: each of 1,000 tokens is followed by one of four, so that there is
  // something to learn and nothing to learn by heart, which would make the curve's own slope the figure.
  static std::vector<TrainSequence> Language(int step, int64_t length, int64_t vocab) {
    const uint64_t words = static_cast<uint64_t>(std::min<int64_t>(1000, vocab));
    std::vector<TrainSequence> out;
    uint64_t state = 1000003ull * static_cast<uint64_t>(step + 1);
    const auto next = [&] { return (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33; };
    for (int i = 0; i < 8; ++i) {
      std::vector<int32_t> ids{static_cast<int32_t>(next() % words)};
      for (int64_t t = 0; t < length; ++t)
        ids.push_back(
            static_cast<int32_t>((static_cast<uint64_t>(ids.back()) * 7919 + next() % 4 * 104729 + 13) % words));
      out.push_back(trainer::PromptAndResponse({ids[0]}, {ids.begin() + 1, ids.end()}));
    }
    return out;
  }

  // Losses of 50 steps on the same sequences, whatever the number of ranks: each takes a run of them, and a micro-batch
  // is half of them.
  std::vector<double> Losses(const ModelConfig& config, Communicator* ranks, int64_t length, double rate) {
    const int n = ranks == nullptr ? 1 : ranks->size(), r = ranks == nullptr ? 0 : ranks->rank();
    const auto decoder = Make(config, ranks != nullptr);
    trainer::SftOptions options;
    options.learner.schedule.peak = rate;
    options.learner.schedule.warmup_steps = 10;
    options.learner.micro_batch_tokens = 4 * (length + 1);
    options.learner.ranks = ranks;
    const auto sft = OrDie(trainer::SftTrainer::Create(options, *decoder));
    std::vector<double> losses;
    for (int step = 0; step < 50; ++step) {
      const auto all = Language(step, length, config.vocab_size);
      const std::vector<TrainSequence> own(all.begin() + 8 / n * r, all.begin() + 8 / n * (r + 1));
      losses.push_back(OrDie(sft->Step(own)).at("loss"));
    }
    return losses;
  }

  double LossGap(Communicator& ranks, const char* name, const ModelConfig& config, int64_t length, double rate) {
    const std::vector<double> alone = Losses(config, nullptr, length, rate);
    DropCaches();
    OrDie(ranks.Barrier());
    const std::vector<double> sharded = Losses(config, &ranks, length, rate);
    DropCaches();
    double gap = 0;
    for (size_t i = 0; i < alone.size(); ++i) gap = std::max(gap, std::abs(alone[i] - sharded[i]));
    std::vector<double> largest = alone, smallest = alone;  // two GPUs alone: do they agree with each other?
    for (double& loss : smallest) loss = -loss;
    OrDie(ranks.Max(largest));
    OrDie(ranks.Max(smallest));
    double noise = 0;
    for (size_t i = 0; i < alone.size(); ++i) noise = std::max(noise, largest[i] + smallest[i]);
    for (size_t i = 0; i < alone.size(); i += 7) {
      Say(absl::StrCat("\"curve\": \"", name, "\", \"step\": ", i, ", \"alone\": ", alone[i],
                       ", \"sharded\": ", sharded[i]));
    }
    Say(absl::StrCat("\"curve\": \"", name, "\", \"gap\": ", gap, ", \"gap_of_two_alone\": ", noise));
    return gap;
  }

  void Curve() {
    const auto ranks = Meet(device_, 0);
    const double small =
        LossGap(*ranks, "125M", cpu_ ? Tiny() : Shape(32000, 1024, 2816, 8, 8, 2, 128), cpu_ ? 32 : 1024, 3e-4);
    Record("learner.shard_loss_gap_125m", small, "largest of 50 steps, 125M");
    const double gap = LossGap(*ranks, "1.5B", cpu_ ? Tiny() : Qwen1_5B(), cpu_ ? 32 : 1024, 1e-5);
    Record("learner.shard_loss_gap", gap, "largest of 50 steps, 1.5B");
    OrDie(ranks->Barrier());
  }

  // --- weights from a learner to an engine

  std::unique_ptr<rollout::NativeEngine> MakeEngine(Decoder& decoder, int64_t rows) const {
    rollout::NativeEngineOptions options;
    options.max_running = rows;
    options.prefill_tokens = cpu_ ? 512 : 8192;
    options.cache_bytes = int64_t{cpu_ ? 1 : 256} << 26;
    return OrDie(rollout::NativeEngine::Create(options, decoder));
  }

  std::vector<rollout::GenerationRequest> Requests(const ModelConfig& config, int64_t prompts, int64_t samples,
                                                   int64_t prompt, int64_t tokens, uint64_t seed) const {
    std::vector<rollout::GenerationRequest> requests;
    for (int64_t i = 0; i < prompts; ++i) {
      rollout::GenerationRequest request;
      for (int64_t t = 0; t < prompt; ++t)
        request.prompt_ids.push_back(static_cast<int32_t>((7919 * t + 104729 * i + 13) % config.vocab_size));
      request.samples = samples;
      request.seed = seed + static_cast<uint64_t>(i);
      request.sampling.max_tokens = tokens;
      requests.push_back(std::move(request));
    }
    return requests;
  }

  void Weights() {
    const ModelConfig config = cpu_ ? Tiny() : Qwen8B();
    const auto job = Meet(device_, 0);
    trainer::CommunicatorOptions quiet;  // an engine that is gone does not end the learner
    const auto members = Meet(device_, 1, quiet);
    const auto decoder = Make(config, false);
    const auto& leaves = decoder->parameters().leaves();
    const auto engine = first() ? nullptr : MakeEngine(*decoder, 16);
    int64_t version = 0;
    std::vector<double> seconds;
    for (const int64_t bucket : {int64_t{64} << 20, trainer::WeightChannel::kBucketBytes, int64_t{2} << 30}) {
      trainer::WeightChannel channel(*members, device_, bucket);
      std::vector<double> own;
      for (int i = 0; i < 6; ++i) {
        ++version;
        if (first()) {
          at::NoGradGuard no_grad;
          for (const policy::Leaf& leaf : leaves) leaf.value.detach().add_(1e-4);
        }
        policy::Synchronize(device_);
        OrDie(members->Barrier());
        const Clock::time_point start = Clock::now();
        const trainer::WeightUpdate update = Update(channel, *decoder, engine.get(), version);
        own.push_back(Seconds(start));
        Say(absl::StrCat("\"update\": ", update.version, ", \"bucket_mb\": ", bucket >> 20,
                         ", \"bytes\": ", update.bytes, ", \"seconds\": ", own.back(), ", \"checksum\": \"",
                         absl::Hex(update.checksum, absl::kZeroPad16), "\""));
      }
      std::sort(own.begin(), own.end());
      if (bucket == trainer::WeightChannel::kBucketBytes) seconds = own;
    }
    Record("learner.weight_sync_8b_s", seconds[seconds.size() / 2], "s, median of 6, checksums included");
    InFlight(*members, *decoder, engine.get(), version);
    AbortAlone(*job, *members, *decoder, version);
    OrDie(job->Barrier());
  }

  trainer::WeightUpdate Update(trainer::WeightChannel& channel, Decoder& decoder, rollout::NativeEngine* engine,
                               int64_t version) {
    const auto& leaves = decoder.parameters().leaves();
    if (engine == nullptr) return OrDie(channel.Send(version, leaves));
    trainer::WeightUpdate update;
    OrDie(engine->UpdateWeights([&]() -> absl::StatusOr<int64_t> {
      auto received = channel.Receive(leaves, engine->policy_version());
      if (!received.ok()) return received.status();
      update = *received;
      return update.version;
    }));
    return update;
  }

  // An update in the middle of a generation: nobody is lost, and tokens carry the version that wrote them.
  void InFlight(Communicator& members, Decoder& decoder, rollout::NativeEngine* engine, int64_t& version) {
    trainer::WeightChannel channel(members, device_);
    ++version;
    if (engine == nullptr) {
      Update(channel, decoder, nullptr, version);
      return;
    }
    rollout::GenerateOptions options;
    int64_t tokens = 0;
    double stall = 0;
    options.stop = [&](size_t, size_t, const rollout::Sample&) {
      if (++tokens == 200) {
        const Clock::time_point start = Clock::now();
        Update(channel, decoder, engine, version);
        stall = Seconds(start);
      }
      return false;
    };
    const auto results = OrDie(engine->Generate(Requests(decoder.config(), 16, 1, 32, 32, 5), options));
    size_t short_ones = 0, both = 0;
    for (const auto& request : results) {
      short_ones += request[0].ids.size() != 32;
      both += request[0].versions.size() == 2;
    }
    Say(absl::StrCat("\"in_flight\": 1, \"stall_s\": ", stall, ", \"cut_samples\": ", short_ones,
                     ", \"samples_of_two_versions\": ", both, ", \"samples\": ", results.size()));
  }

  // The engine does not come: the learner's transfer is aborted and training's own communicator goes on.
  void AbortAlone(Communicator& job, Communicator& members, Decoder& decoder, int64_t version) {
    if (first()) {
      trainer::WeightChannel channel(members, device_);
      Clock::time_point aborted;
      std::thread timer([&] {
        absl::SleepFor(absl::Seconds(1));
        aborted = Clock::now();
        channel.Abort("the engine did not come");
      });
      const auto sent = channel.Send(version + 1, decoder.parameters().leaves());
      timer.join();
      Say(absl::StrCat("\"aborted\": ", sent.ok() ? "false" : "true", ", \"seconds_from_abort\": ", Seconds(aborted),
                       ", \"why\": \"", std::string(sent.status().message()), "\""));
    }
    OrDie(job.Barrier());
    Say("\"training_goes_on_after_abort\": true");
  }

  // --- sampling and learning side by side

  struct Load {
    int64_t prompts, samples, prompt, tokens;
    int64_t count() const { return prompts * samples; }
    int64_t width() const { return prompt + 2 * tokens + 1; }  // of a sequence's row on the wire
  };

  // A batch on the wire, a row each: ids, log-probs by their bits, the oldest policy version of a token.
  at::Tensor ToRows(const std::vector<rollout::GenerationRequest>& requests,
                    const std::vector<std::vector<rollout::Sample>>& results, const Load& load) const {
    const at::Tensor rows = at::zeros({load.count(), load.width()}, at::kInt);
    int32_t* to = rows.mutable_data_ptr<int32_t>();
    for (size_t i = 0; i < requests.size(); ++i) {
      for (const rollout::Sample& sample : results[i]) {
        std::copy(requests[i].prompt_ids.begin(), requests[i].prompt_ids.end(), to);
        std::copy(sample.ids.begin(), sample.ids.end(), to + load.prompt);
        std::memcpy(to + load.prompt + load.tokens, sample.log_probs.data(), sample.log_probs.size() * sizeof(float));
        to[load.width() - 1] = static_cast<int32_t>(sample.versions.front().policy_version);
        to += load.width();
      }
    }
    return rows;
  }
  std::vector<TrainSequence> FromRows(const at::Tensor& rows, const Load& load, int64_t count) const {
    std::vector<TrainSequence> out;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t* row = rows.const_data_ptr<int32_t>() + i * load.width();
      const int32_t* answer = row + load.prompt;
      TrainSequence sequence = trainer::PromptAndResponse({row, answer}, {answer, answer + load.tokens});
      sequence.rollout_log_probs.assign(sequence.ids.size(), 0.0f);
      std::memcpy(sequence.rollout_log_probs.data() + load.prompt, answer + load.tokens, load.tokens * sizeof(float));
      sequence.advantage = i % 2 == 0 ? 1 : -1;
      out.push_back(std::move(sequence));
    }
    return out;
  }

  static constexpr int kWarm = 2;  // batches before a mode is timed

  // The engine's side of one mode: a batch may be begun when the weights after batch b - lag - 1 have come.
  double Sample(rollout::NativeEngine& engine, Decoder& decoder, Communicator& wire, trainer::WeightChannel& channel,
                const Load& load, int64_t lag, int batches, int64_t first_version) {
    double generate = 0;
    for (int b = 0; b < batches; ++b) {
      while (engine.policy_version() < first_version + b - lag) {
        OrDie(engine.UpdateWeights([&]() -> absl::StatusOr<int64_t> {
          const auto update = channel.Receive(decoder.parameters().leaves(), engine.policy_version());
          if (!update.ok()) return update.status();
          return update->version;
        }));
      }
      const auto requests = Requests(decoder.config(), load.prompts, load.samples, load.prompt, load.tokens, 1000 * b);
      const Clock::time_point start = Clock::now();
      const auto results = OrDie(engine.Generate(requests, {}));
      if (b >= kWarm) generate += Seconds(start);
      OrDie(wire.Broadcast(ToRows(requests, results, load), 1));
    }
    return generate / (batches - kWarm);
  }

  struct LearnFigures {
    double step = 0, train = 0, send = 0, wait = 0, staleness = 0;
  };

  // The learner's side: a thread takes batches off the wire into the queue, this one learns from them.
  LearnFigures Learn(trainer::RlTrainer& rl, Decoder& decoder, Communicator& wire, trainer::WeightChannel& channel,
                     const Load& load, int64_t trained, int64_t lag, int batches, int64_t first_version) {
    trainer::BatchQueue<at::Tensor> queue(lag, {0, first_version});
    std::thread receiver([&] {
      for (int b = 0; b < batches; ++b) {
        const auto permit = OrDie(queue.Begin(SteadyTime::Now() + absl::Seconds(60)));
        const at::Tensor rows = at::zeros({load.count(), load.width()}, at::kInt);
        OrDie(wire.Broadcast(rows, 1));
        OrDie(queue.Put(permit.number, rows.select(1, load.width() - 1).min().item<int64_t>(), rows));
      }
    });
    LearnFigures figures;
    Clock::time_point begun = Clock::now();
    for (int b = 0; b < batches; ++b) {
      if (b == kWarm) begun = Clock::now();
      const Clock::time_point start = Clock::now();
      const at::Tensor rows = OrDie(queue.Take(SteadyTime::Now() + absl::Seconds(60)));
      const Clock::time_point got = Clock::now();
      OrDie(rl.Step(FromRows(rows, load, trained)));
      policy::Synchronize(device_);
      const Clock::time_point learned = Clock::now();
      const int64_t version = first_version + b + 1;
      OrDie(queue.Learned(version));
      if (b + 1 + lag < batches) OrDie(channel.Send(version, decoder.parameters().leaves()));
      if (b < kWarm) continue;
      figures.wait += std::chrono::duration<double>(got - start).count();
      figures.train += std::chrono::duration<double>(learned - got).count();
      figures.send += Seconds(learned);
    }
    const double steps = batches - kWarm;
    figures.step = Seconds(begun) / steps;
    figures.wait /= steps;
    figures.train /= steps;
    figures.send /= steps;
    receiver.join();
    return figures;
  }

  void OneStepOff() {
    const ModelConfig config = cpu_ ? Tiny() : Qwen1_5B();
    const Load load = cpu_ ? Load{2, 4, 16, 32} : Load{16, 8, 64, 192};
    const int batches = kWarm + 8;
    const auto members = Meet(device_, 0);
    const auto wire = Meet(at::kCPU, 1);
    const auto decoder = Make(config, false);
    trainer::WeightChannel channel(*members, device_);
    std::unique_ptr<rollout::NativeEngine> engine;
    std::unique_ptr<trainer::RlTrainer> rl;
    if (first()) {
      trainer::RlOptions options;
      options.learner.micro_batch_tokens = 16384;
      options.learner.schedule.peak = 1e-6;
      rl = OrDie(trainer::RlTrainer::Create(options, *decoder));
    } else {
      engine = MakeEngine(*decoder, load.count());
    }
    // How many sequences take as long to learn from as the batch takes to sample: measured first, synchronously.
    int64_t trained = load.count(), version = 0;
    const auto mode = [&](const char* name, int64_t lag, int count) {
      double step = 0, generate = 0, train = 0;
      OrDie(members->Barrier());
      if (engine != nullptr) {
        generate = Sample(*engine, *decoder, *wire, channel, load, lag, count, version);
        Say(absl::StrCat("\"mode\": \"", name, "\", \"generate_s\": ", generate));
      } else {
        const LearnFigures f = Learn(*rl, *decoder, *wire, channel, load, trained, lag, count, version);
        step = f.step;
        train = f.train;
        Say(absl::StrCat("\"mode\": \"", name, "\", \"step_s\": ", f.step, ", \"train_s\": ", f.train,
                         ", \"send_s\": ", f.send, ", \"wait_s\": ", f.wait, ", \"sequences\": ", trained));
      }
      // The last 1 + lag updates of a mode were not sent: both sides start the next one from what the engine has.
      version += count + 1;
      if (first()) {
        OrDie(channel.Send(version, decoder->parameters().leaves()));
      } else {
        OrDie(engine->UpdateWeights([&]() -> absl::StatusOr<int64_t> {
          const auto update = channel.Receive(decoder->parameters().leaves(), engine->policy_version());
          if (!update.ok()) return update.status();
          return update->version;
        }));
      }
      std::vector<double> shared{step, generate, train};
      OrDie(members->Sum(shared));
      return shared;
    };
    const std::vector<double> probe = mode("probe", 0, kWarm + 2);
    trained = std::max<int64_t>(2, std::min<int64_t>(load.count(), std::llround(load.count() * probe[1] / probe[2])));
    const std::vector<double> synchronous = mode("synchronous", 0, batches), off = mode("one step off", 1, batches);
    Record("learner.one_step_off_ratio", synchronous[0] / off[0], "x steps/s of synchronous");
    Record("learner.one_step_off_balance", synchronous[1] / synchronous[2], "generation / training time");
    OrDie(members->Barrier());
  }

  // --- a rank is killed in the middle of a step

  void Killed() {
    Clock::time_point killed = Clock::now();
    trainer::CommunicatorOptions options;  // as in a job
    options.on_dead_rank = [&](const std::string& message) {
      Record("learner.dead_rank_s", Seconds(killed), "s until the others know");
      Say(absl::StrCat("\"dead_rank\": \"", message, "\""));
      trainer::ExitOnDeadRank()(message);
    };
    const auto ranks = Meet(device_, 0, options);
    const ModelConfig config = cpu_ ? Tiny() : Shape(32000, 1024, 2816, 8, 8, 2, 128);
    const auto decoder = Make(config, true);
    trainer::SftOptions sft_options;
    sft_options.learner.ranks = ranks.get();
    int steps = 0;
    sft_options.learner.on_phase = [&](trainer::StepPhase phase) {
      if (phase != trainer::StepPhase::kBackward || steps < 3) return;
      killed = Clock::now();
      if (!first()) raise(SIGKILL);
    };
    const auto sft = OrDie(trainer::SftTrainer::Create(sft_options, *decoder));
    const auto sequences = Sequences(2, cpu_ ? 32 : 512, config.vocab_size);
    for (; steps < 5; ++steps) {
      const auto step = sft->Step(sequences);
      if (step.ok()) continue;
      Say(absl::StrCat("\"step_ended_after_s\": ", Seconds(killed), ", \"error\": \"",
                       std::string(step.status().message()), "\""));
      std::fflush(stdout);
      absl::SleepFor(absl::Seconds(30));  // the watching thread ends the process
    }
    Say("\"failed\": \"a rank was killed and nobody noticed\"");
  }

  const Arguments& arguments_;
  const RankEnvironment environment_;
  const at::Device device_;
  const bool cpu_;
};

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"The learner on two GPUs"};
  app.add_option("part", arguments.part)
      ->required()
      ->check(CLI::IsMember(
          {"comm", "scaling", "lora_8b", "scaling_8b", "curve", "weights", "one_step_off", "killed"}));
  app.add_option("--device", arguments.device)->check(CLI::IsMember({"cuda", "cpu"}));
  app.add_option("--record", arguments.record, "results.json to put the figures into");
  app.add_option("--machine", arguments.machine, "In the record");
  app.add_option("--commit", arguments.commit, "Of this build, in the record");
  CLI11_PARSE(app, argc, argv);
  const auto environment = OrDie(trainer::ReadRankEnvironment());
  if (environment.world_size != 2) {
    std::fprintf(stderr, "ranks_bench: WORLD_SIZE = %d, allowed 2\n", environment.world_size);
    return 2;
  }
  const Clock::time_point start = Clock::now();
  const at::Device device = OrDie(policy::FindDevice(
      arguments.device == "cuda" ? absl::StrCat("cuda:", environment.local_rank) : arguments.device));
  std::printf("{\"rank\": %d, \"device\": \"%s\", \"seconds\": %.2f}\n", environment.rank, device.str().c_str(),
              Seconds(start));
  std::fflush(stdout);
  int code = 1;
  try {
    code = Bench(arguments, environment, device).Run();
  } catch (const std::exception& error) {
    std::printf("{\"failed\": \"%.600s\"}\n", error.what());
  }
  std::fflush(stdout);
  // Nothing of the run is worth waiting for; the host of the store goes last.
  if (environment.rank == 0) absl::SleepFor(absl::Milliseconds(300));
  _exit(code);
}

}  // namespace
}  // namespace hone::bench

int main(int argc, char** argv) { return hone::bench::Main(argc, argv); }

// One rank of a job, for tests: rank_program <what> [argument]. The environment says which rank it is.

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "cmake/torch_pch.h"
#include "rollout/engine/native_engine.h"
#include "tests/support/tiny_model.h"
#include "trainer/comm/weight_channel.h"
#include "trainer/loop/rl_trainer.h"
#include "trainer/loop/sft_trainer.h"
#include "trainer/loop/sharded_state.h"

namespace hone::trainer {
namespace {

#define REQUIRE_OK(expression)                                             \
  do {                                                                     \
    const absl::Status status_ = (expression);                             \
    if (!status_.ok()) {                                                   \
      std::printf("failed: %s\n", std::string(status_.message()).c_str()); \
      return 1;                                                            \
    }                                                                      \
  } while (false)

int Collectives(Communicator& ranks) {
  const int n = ranks.size(), r = ranks.rank();
  for (int round = 0; round < 20; ++round) {
    const at::Tensor mine = at::full({3}, r + 1.0 + round), all = at::empty({3 * n});
    REQUIRE_OK(ranks.AllGather(all, mine).value()->Wait());
    for (int o = 0; o < n; ++o) {
      if (all[3 * o + 2].item<double>() != o + 1 + round) return 2;
    }
    const at::Tensor part = at::empty({2}), whole = at::arange(2 * n, at::kFloat) * (r + 1);
    REQUIRE_OK(ranks.ReduceScatter(part, whole).value()->Wait());
    if (part[1].item<double>() != (2 * r + 1) * n * (n + 1) / 2.0) return 3;
    const at::Tensor sum = at::full({2, 2}, r + 1.0);
    REQUIRE_OK(ranks.AllReduce(sum));
    if (sum[1][1].item<double>() != n * (n + 1) / 2.0) return 4;
    const at::Tensor told = at::full({4}, r == n - 1 ? 7.0 : 0.0);
    REQUIRE_OK(ranks.Broadcast(told, n - 1));
    if (told[3].item<double>() != 7) return 5;
    std::vector<double> most{static_cast<double>(r), -static_cast<double>(r)};
    REQUIRE_OK(ranks.Max(most));
    if (most[0] != n - 1 || most[1] != 0) return 6;
  }
  return 0;
}

std::vector<TrainSequence> Sequences() {
  std::vector<TrainSequence> out;
  for (int i = 0; i < 16; ++i) {
    std::vector<int32_t> prompt(1 + i % 4), response(3 + (i * 7) % 11);
    for (size_t t = 0; t < prompt.size(); ++t) prompt[t] = (i * 5 + static_cast<int32_t>(t)) % 37;
    for (size_t t = 0; t < response.size(); ++t) response[t] = (i * 11 + static_cast<int32_t>(t) * 3) % 37;
    out.push_back(PromptAndResponse(prompt, response));
    out.back().rollout_log_probs.assign(out.back().ids.size(), -3.6f);
    out.back().advantage = i % 3 - 1.0;
  }
  return out;
}

// Two steps of SFT and two of RL; the batch of each step is the same whatever the number of ranks.
int Train(Communicator* ranks, const std::string& options) {
  const bool checkpointed = options.find("checkpointed") != std::string::npos,
             half = options.find("half") != std::string::npos;
  const bool with_lora = options.find("lora") != std::string::npos;
  policy::ModelConfig config = testing::TinyConfig();
  config.tie_word_embeddings = false;
  at::set_num_threads(1);
  const policy::DecoderOptions decoder_options{.dtype = half ? at::kBFloat16 : at::kFloat,
                                               .checkpoint_activations = checkpointed,
                                               .separate_layers = ranks != nullptr};
  auto decoder = policy::Decoder::Create(config, decoder_options).value();
  decoder->parameters().Initialize(5);
  std::unique_ptr<policy::Lora> lora;
  if (with_lora) {
    for (const policy::Leaf& leaf : decoder->parameters().leaves()) {
      at::Tensor value = leaf.value;
      value.set_requires_grad(false);
    }
    lora = policy::Lora::Create(config, {}, at::TensorOptions(decoder_options.dtype), 3).value();
    decoder->UseLora(lora.get());
  }
  const int n = ranks == nullptr ? 1 : ranks->size(), r = ranks == nullptr ? 0 : ranks->rank();
  std::vector<TrainSequence> own;
  const std::vector<TrainSequence> all = Sequences();
  for (size_t i = r; i < all.size(); i += n) own.push_back(all[i]);
  if (options.find("uneven") != std::string::npos && n > 1 &&
      r == n - 1) {  // the last rank has nothing, the first all of it
    own.clear();
  } else if (options.find("uneven") != std::string::npos && n > 1 && r == 0) {
    for (size_t i = n - 1; i < all.size(); i += n) own.push_back(all[i]);
  }
  LearnerOptions learner;
  learner.schedule.peak = 1e-2;
  learner.clip_norm = 0.5;
  learner.micro_batch_tokens = 24;
  learner.ranks = ranks;
  learner.shards.replicate_frozen = options.find("replicated") != std::string::npos;
  learner.shards.overlap = options.find("serial") == std::string::npos;
  const auto report = [&](const StepMetrics& metrics) {
    std::printf("loss %.9g norm %.9g tokens %.0f\n", metrics.at("loss"), metrics.at("gradient_norm"),
                metrics.at("loss_tokens"));
  };
  const auto finish = [&](Learner& done) {
    const auto print = [&] {
      for (const policy::Leaf& leaf : with_lora ? lora->leaves() : decoder->parameters().leaves()) {
        const at::Tensor value = leaf.value.detach().to(at::kDouble);
        std::printf("%s %.9g %.9g\n", leaf.name.c_str(), value.norm().item<double>(),
                    value.view({-1})[value.numel() / 2].item<double>());
      }
      return absl::OkStatus();
    };
    return done.sharded() == nullptr ? print() : done.sharded()->WithWholeWeights(print);
  };
  if (options.find("rl") == std::string::npos) {
    auto sft = SftTrainer::Create({.learner = learner}, *decoder).value();
    for (int step = 0; step < 3; ++step) report(sft->Step(own).value());
    REQUIRE_OK(finish(sft->learner()));
  } else {
    RlOptions rl{.learner = learner};
    rl.old_policy = OldPolicy::kRecomputed;
    rl.loss.aggregation = Aggregation::kTokenMean;
    auto trainer = RlTrainer::Create(rl, *decoder).value();
    for (int step = 0; step < 3; ++step) {
      const StepMetrics metrics = trainer->Step(own).value();
      std::printf("loss %.9g norm %.9g\n", metrics.at("loss"), metrics.at("gradient_norm"));
    }
    REQUIRE_OK(finish(trainer->learner()));
  }
  return 0;
}

// Steps [from, to) of a run whose checkpoint lies in `folder`; prints each step's loss.
int Resume(Communicator& ranks, const std::string& folder, int64_t to, bool half) {
  at::set_num_threads(1);
  policy::ModelConfig config = testing::TinyConfig();
  auto decoder =
      policy::Decoder::Create(config, {.dtype = half ? at::kBFloat16 : at::kFloat, .separate_layers = true}).value();
  decoder->parameters().Initialize(5);
  LearnerOptions learner;
  learner.schedule.peak = 1e-2;
  learner.micro_batch_tokens = 24;
  learner.ranks = &ranks;
  auto sft = SftTrainer::Create({.learner = learner}, *decoder).value();
  auto checkpoints = ShardedCheckpointer::Create(folder, ranks).value();
  REQUIRE_OK(checkpoints->Restore(sft->learner()).status());
  std::vector<TrainSequence> own;
  const std::vector<TrainSequence> all = Sequences();
  for (size_t i = ranks.rank(); i < all.size(); i += ranks.size()) own.push_back(all[i]);
  while (sft->learner().step() < to) {
    const StepMetrics metrics = sft->Step(own).value();
    std::printf("step %lld loss %.9g norm %.9g\n", static_cast<long long>(sft->learner().step()), metrics.at("loss"),
                metrics.at("gradient_norm"));
  }
  REQUIRE_OK(checkpoints->Save(sft->learner()));
  REQUIRE_OK(checkpoints->Wait());
  return 0;
}

// --- weights from a job of two learners (ranks 0 and 1) to an engine (rank 2)

CommunicatorOptions Quick() {
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  options.rendezvous = absl::Seconds(60);
  options.heartbeat = absl::Milliseconds(100);
  options.dead_after = absl::Seconds(2);
  return options;
}

RankEnvironment Member(const RankEnvironment& job, int rank, int port) {
  RankEnvironment member = job;
  member.rank = rank;
  member.world_size = 2;
  member.master_port = port;
  return member;
}

void PrintWeights(policy::Decoder& decoder, const WeightUpdate& update) {
  std::printf("version %lld checksum %llx\n", static_cast<long long>(update.version),
              static_cast<unsigned long long>(update.checksum));
  for (const policy::Leaf& leaf : decoder.parameters().leaves()) {
    const at::Tensor value = leaf.value.detach().to(at::kDouble);
    std::printf("%s %.17g %.17g\n", leaf.name.c_str(), value.norm().item<double>(),
                value.view({-1})[value.numel() / 2].item<double>());
  }
}

int Learn(const RankEnvironment& environment, const std::string& what, int channel_port) {
  const auto job = Connect(Member(environment, environment.rank, environment.master_port), at::kCPU, Quick()).value();
  const bool sends = environment.rank == 0;
  auto decoder = policy::Decoder::Create(testing::TinyConfig(), {.separate_layers = true}).value();
  decoder->parameters().Initialize(5);
  LearnerOptions learner;
  learner.schedule.peak = 1e-2;
  learner.ranks = job.get();
  auto sft = SftTrainer::Create({.learner = learner}, *decoder).value();
  ShardedAdamW& sharded = *sft->learner().sharded();
  const std::vector<TrainSequence> all = Sequences();
  std::vector<TrainSequence> own;
  for (size_t i = environment.rank; i < all.size(); i += 2) own.push_back(all[i]);
  std::unique_ptr<Communicator> members;
  if (sends) members = Connect(Member(environment, 0, channel_port), at::kCPU, Quick()).value();
  std::thread watch;
  if (sends && what == "weights_abort") {
    watch = std::thread([&] {
      absl::SleepFor(absl::Milliseconds(300));
      members->Abort("the learner has waited long enough");
    });
  }
  const auto send = [&](int64_t version) -> absl::Status {
    if (!sends) return sharded.VisitWeights([](const policy::Leaf&) { return absl::OkStatus(); });
    WeightChannel channel(*members, at::kCPU, 1000);
    const auto sent = channel.Send(version, decoder->parameters().leaves(),
                                   [&](const auto& visit) { return sharded.VisitWeights(visit); });
    if (!sent.ok()) {
      std::printf("send: %s\n", std::string(sent.status().message()).c_str());
      return absl::OkStatus();
    }
    return sharded.WithWholeWeights([&] {
      PrintWeights(*decoder, *sent);
      return absl::OkStatus();
    });
  };
  if (what == "weights") {
    for (int step = 0; step < 2; ++step) {
      REQUIRE_OK(sft->Step(own).status());
      REQUIRE_OK(send(sft->learner().policy_version()));
      if (!sends) REQUIRE_OK(sharded.WithWholeWeights([] { return absl::OkStatus(); }));
    }
  }
  if (sends) {  // refused, aborted, or to a member that is gone
    WeightChannel channel(*members, at::kCPU);
    std::printf("send: %s\n", std::string(channel.Send(2, decoder->parameters().leaves(), [](const auto&) {
                                                    return absl::InternalError("sent what was refused");
                                                  }).status().message()).c_str());
  }
  if (watch.joinable()) watch.join();
  const StepMetrics metrics = sft->Step(own).value();  // training goes on whatever became of the channel
  std::printf("trained on, loss %.9g\n", metrics.at("loss"));
  return 0;
}

int Sample(const RankEnvironment& environment, const std::string& what, int channel_port) {
  policy::ModelConfig config = testing::TinyConfig();
  if (what == "weights_other") config.vocab_size += 1;
  auto decoder = testing::MakeDecoder(config, 99);
  auto engine = rollout::NativeEngine::Create({}, *decoder).value();
  const auto members = Connect(Member(environment, 1, channel_port), at::kCPU, Quick()).value();
  if (what == "weights_dead") raise(SIGKILL);
  if (what == "weights_abort") absl::SleepFor(absl::Seconds(1));
  WeightChannel channel(*members, at::kCPU, 1000);
  const auto receive = [&] {
    WeightUpdate update;
    const absl::Status status = engine->UpdateWeights([&]() -> absl::StatusOr<int64_t> {
      const auto received = channel.Receive(decoder->parameters().leaves(), engine->policy_version());
      if (!received.ok()) return received.status();
      update = *received;
      return update.version;
    });
    if (status.ok()) PrintWeights(*decoder, update);
    if (!status.ok()) std::printf("receive: %s\n", std::string(status.message()).c_str());
  };
  const auto generate = [&] {
    rollout::GenerationRequest request{.prompt_ids = {1, 2, 3}};
    request.sampling.max_tokens = 4;
    const auto samples = engine->Generate({&request, 1}, {});
    if (!samples.ok()) std::printf("generate: %s\n", std::string(samples.status().message()).c_str());
    if (samples.ok()) std::printf("sampled by %lld\n", static_cast<long long>((*samples)[0][0].versions[0].policy_version));
  };
  for (int update = 0; what == "weights" && update < 2; ++update) {
    receive();
    generate();
  }
  receive();
  generate();
  return 0;
}

int Weights(const RankEnvironment& environment, const std::string& what, int channel_port) {
  at::set_num_threads(1);
  return environment.rank < 2 ? Learn(environment, what, channel_port) : Sample(environment, what, channel_port);
}

int Main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "", argument = argc > 2 ? argv[2] : "";
  const absl::StatusOr<RankEnvironment> environment = ReadRankEnvironment();
  REQUIRE_OK(environment.status());
  if (what.rfind("weights", 0) == 0) return Weights(*environment, what, std::atoi(argument.c_str()));
  CommunicatorOptions options;
  options.timeout = absl::Seconds(argument == "impatient" ? 1 : 60);
  options.rendezvous = absl::Seconds(argument == "impatient" ? 1 : 60);
  options.heartbeat = absl::Milliseconds(100);
  options.dead_after = absl::Seconds(2);
  options.on_dead_rank = ExitOnDeadRank(absl::Seconds(5));
  absl::StatusOr<std::unique_ptr<Communicator>> ranks = Connect(*environment, at::kCPU, options);
  REQUIRE_OK(ranks.status());
  if (what == "collectives") return Collectives(**ranks);
  if (what == "resume" || what == "resume_half")
    return Resume(**ranks, argument, std::atoll(argv[3]), what == "resume_half");
  if (what == "train") return Train(ranks->get(), argument);
  if (what == "die") {
    REQUIRE_OK((*ranks)->Barrier());
    if (std::to_string(environment->rank) == argument) raise(SIGKILL);
    REQUIRE_OK((*ranks)->Barrier());
    return 9;
  }
  if (what == "absent") {  // one rank never calls the operation
    if (environment->rank == 1) absl::SleepFor(absl::Seconds(3));
    if (environment->rank != 1) REQUIRE_OK((*ranks)->Barrier());
  }
  return 0;
}

}  // namespace
}  // namespace hone::trainer

int main(int argc, char** argv) { return hone::trainer::Main(argc, argv); }

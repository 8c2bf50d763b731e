// One rank of a job, for tests: rank_program <what> [argument]. The environment says which rank it is.

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "cmake/torch_pch.h"
#include "tests/support/tiny_model.h"
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

int Main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "", argument = argc > 2 ? argv[2] : "";
  const absl::StatusOr<RankEnvironment> environment = ReadRankEnvironment();
  REQUIRE_OK(environment.status());
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

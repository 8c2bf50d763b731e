#include "tests/support/catch_torch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "rollout/engine/native_engine.h"
#include "tests/support/tiny_model.h"
#include "trainer/loop/rl_trainer.h"
#include "trainer/loop/scorer.h"
#include "trainer/loop/self_test.h"
#include "trainer/loop/sft_trainer.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::WithinAbs;
using testing::MakeDecoder;
using testing::TinyConfig;

std::vector<TrainSequence> RandomSequences(int count, uint64_t seed) {
  std::mt19937 random(seed);
  std::vector<TrainSequence> out;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt(1 + random() % 5), response(1 + random() % 20);
    for (int32_t& id : prompt) id = random() % 37;
    for (int32_t& id : response) id = random() % 37;
    out.push_back(PromptAndResponse(prompt, response));
    out.back().rollout_log_probs.assign(out.back().ids.size(), -3.6f);
    out.back().advantage = i % 3 - 1.0;
  }
  return out;
}

LearnerOptions Rate(double rate, int64_t micro_batch_tokens = 4096) {
  LearnerOptions options;
  options.schedule.peak = rate;
  options.micro_batch_tokens = micro_batch_tokens;
  return options;
}

double LargestDifference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST_CASE("One big batch and many micro-batches give the same gradient", "[trainer][loop]") {
  const std::vector<TrainSequence> sequences = RandomSequences(16, 1);
  for (bool rl : {false, true}) {
    std::vector<at::Tensor> gradients;
    std::vector<double> losses;
    for (int64_t tokens : {100000, 24}) {
      const auto decoder = MakeDecoder(TinyConfig());
      if (rl) {
        const auto trainer = RlTrainer::Create({.learner = Rate(0, tokens)}, *decoder).value();
        losses.push_back(trainer->Step(sequences).value().at("loss"));
        gradients.push_back(trainer->learner().optimizer().gradients().clone());
      } else {
        const auto trainer = SftTrainer::Create({Rate(0, tokens)}, *decoder).value();
        losses.push_back(trainer->Step(sequences).value().at("loss"));
        gradients.push_back(trainer->learner().optimizer().gradients().clone());
      }
    }
    CHECK(gradients[0].abs().max().item<double>() > 1e-3);
    CHECK(LargestDifference(gradients[0], gradients[1]) < 1e-6);
    CHECK_THAT(losses[0], WithinAbs(losses[1], 1e-5));
  }
}

TEST_CASE("The SFT loss is the mean negative log-likelihood of exactly the masked tokens", "[trainer][loop]") {
  const auto decoder = MakeDecoder(TinyConfig());
  std::vector<TrainSequence> sequences = RandomSequences(5, 2);
  sequences[1].loss_mask.back() = 0;
  const auto scores = ScoreSequences(*decoder, sequences, 1.0, 1000).value();
  double sum = 0, count = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    for (size_t t = 0; t < sequences[i].ids.size(); ++t) {
      if (sequences[i].loss_mask[t] == 0) continue;
      sum -= scores[i][t];
      ++count;
    }
  }
  const auto trainer = SftTrainer::Create({Rate(0)}, *decoder).value();
  CHECK_THAT(trainer->Step(sequences).value().at("loss"), WithinAbs(sum / count, 1e-5));
}

TEST_CASE("A rejected sequence leaves the other sequences' gradients as they would be without it", "[trainer][loop]") {
  std::vector<TrainSequence> sequences = RandomSequences(6, 3);
  const LossFilter reject_second = [](const FilterBatch& batch, FilterDecision& decision) {
    for (int64_t t = batch.offsets[1]; t < batch.offsets[2]; ++t) decision.weight[t] = decision.counted[t] = 0;
    decision.stats["test/rejected"] = 1;
    return absl::OkStatus();
  };
  const auto gradient_of = [&](const std::vector<TrainSequence>& batch, std::vector<LossFilter> filters) {
    const auto decoder = MakeDecoder(TinyConfig());
    RlOptions options{.learner = Rate(0), .filters = std::move(filters)};
    const auto trainer = RlTrainer::Create(options, *decoder).value();
    const StepMetrics metrics = trainer->Step(batch).value();
    CHECK(metrics.count("test/rejected") == options.filters.size());
    return trainer->learner().optimizer().gradients().clone();
  };
  std::vector<TrainSequence> without = sequences;
  without.erase(without.begin() + 1);
  CHECK(LargestDifference(gradient_of(sequences, {reject_second}), gradient_of(without, {})) < 1e-6);
}

TEST_CASE("In fp16 a gradient far below its smallest number is the one of fp32", "[trainer][loop]") {
  std::vector<TrainSequence> sequences = RandomSequences(6, 3);
  for (TrainSequence& sequence : sequences) sequence.advantage *= 1e-6;  // of a logit below 1e-8; fp16 ends at 6e-8
  std::vector<double> norms;
  std::vector<at::Tensor> gradients;
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) {
    const auto decoder = MakeDecoder(TinyConfig(), 7, dtype);
    const auto trainer = RlTrainer::Create({.learner = Rate(0)}, *decoder).value();
    norms.push_back(trainer->Step(sequences).value().at("gradient_norm"));
    gradients.push_back(trainer->learner().optimizer().gradients().clone());
  }
  CHECK(norms[0] < 1e-5);
  CHECK(std::abs(norms[1] / norms[0] - 1) < 0.05);
  const at::Tensor back = gradients[1] / std::ldexp(1.0, 14);
  CHECK((at::sum(back * gradients[0]) / (back.norm() * gradients[0].norm())).item<double>() > 0.99);
}

TEST_CASE("After a step that overflows fp16 the next is scaled by half as much", "[trainer][loop]") {
  const auto decoder = MakeDecoder(TinyConfig(), 7, at::kHalf);
  const auto trainer = RlTrainer::Create({.learner = Rate(1e-3)}, *decoder).value();
  std::vector<TrainSequence> sequences = RandomSequences(6, 3);
  for (TrainSequence& sequence : sequences) sequence.advantage *= 1e5;
  CHECK(trainer->learner().Counters().at("learner/scale_exponent") == 14);
  CHECK(trainer->Step(sequences).value().at("updated") == 0);
  CHECK(trainer->learner().skipped_steps() == 1);
  CHECK(trainer->learner().Counters().at("learner/scale_exponent") == 13);
  for (TrainSequence& sequence : sequences) sequence.advantage *= 1e-5;
  CHECK(trainer->Step(sequences).value().at("updated") == 1);

  const auto resumed = RlTrainer::Create({.learner = Rate(1e-3)}, *decoder).value();
  REQUIRE(resumed->learner().RestoreCounters(trainer->learner().Counters()).ok());
  CHECK(resumed->learner().Counters().at("learner/scale_exponent") == 13);
}

TEST_CASE("A batch with nothing left to learn from is skipped and counted, and changes no weight", "[trainer][loop]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const at::Tensor before = decoder->parameters().flat().clone();
  const LossFilter reject_all = [](const FilterBatch&, FilterDecision& decision) {
    std::fill(decision.weight.begin(), decision.weight.end(), 0.0f);
    return absl::OkStatus();
  };
  const auto filtered = RlTrainer::Create({.learner = Rate(0.1), .filters = {reject_all}}, *decoder).value();
  StepMetrics metrics = filtered->Step(RandomSequences(4, 4)).value();
  CHECK(metrics.at("updated") == 0);
  CHECK(metrics.at("skipped_steps") == 1);
  CHECK(metrics.at("rejected_share") == 1);
  CHECK(filtered->learner().policy_version() == 0);

  const auto plain = RlTrainer::Create({.learner = Rate(0.1)}, *decoder).value();
  std::vector<TrainSequence> level = RandomSequences(4, 4);
  for (TrainSequence& s : level) s.advantage = 0;
  CHECK(plain->Step(level).value().at("updated") == 0);
  std::vector<TrainSequence> lost = RandomSequences(4, 4);
  for (TrainSequence& s : lost) s.rollout_log_probs.assign(s.ids.size(), std::numeric_limits<float>::quiet_NaN());
  CHECK(plain->Step(lost).value().at("updated") == 0);
  CHECK(plain->learner().skipped_steps() == 2);

  std::vector<TrainSequence> masked = RandomSequences(2, 5);
  for (TrainSequence& s : masked) std::fill(s.loss_mask.begin(), s.loss_mask.end(), uint8_t{0});
  const auto sft = SftTrainer::Create({Rate(0.1)}, *decoder).value();
  CHECK(sft->Step(masked).value().at("updated") == 0);
  CHECK(at::equal(before, decoder->parameters().flat()));
}

TEST_CASE("A loss that is not finite changes no weight and does not end the run", "[trainer][loop]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto trainer = SftTrainer::Create({Rate(0.01)}, *decoder).value();
  std::vector<TrainSequence> sequences = RandomSequences(4, 6);
  std::vector<TrainSequence> poisoned = sequences;
  poisoned[0].token_weights.assign(poisoned[0].ids.size(), std::numeric_limits<float>::infinity());
  const at::Tensor before = decoder->parameters().flat().clone();
  CHECK(trainer->Step(poisoned).value().at("updated") == 0);
  CHECK(at::equal(before, decoder->parameters().flat()));
  CHECK(trainer->Step(sequences).value().at("updated") == 1);
  CHECK(trainer->learner().skipped_steps() == 1);
  CHECK(trainer->learner().policy_version() == 1);
}

TEST_CASE("On samples of its own weights the ratio is exactly 1", "[trainer][loop]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto engine = rollout::NativeEngine::Create({}, *decoder).value();
  rollout::GenerationRequest request{{1, 2, 3}, 8, 5, {}};
  request.sampling.max_tokens = 25;
  request.sampling.temperature = 0.9;
  std::vector<TrainSequence> sequences;
  const std::vector<std::vector<rollout::Sample>> samples = engine->Generate({request}, {}).value();
  for (const rollout::Sample& sample : samples[0]) {
    Turn turn;
    turn.prompt_ids = request.prompt_ids;
    turn.response_ids = sample.ids;
    turn.log_probs = sample.log_probs;
    turn.versions = sample.versions;
    sequences.push_back(SampledTurn(turn, sequences.size() % 2 == 0 ? 1 : -1));
  }
  const auto trainer = RlTrainer::Create({.learner = Rate(1e-3), .temperature = 0.9}, *decoder).value();
  const StepMetrics first = trainer->Step(sequences).value();
  CHECK(first.at("mean_abs_log_ratio") == 0);
  CHECK(first.at("ratio") == 1);
  CHECK(first.at("clip_fraction") == 0);
  CHECK(first.at("staleness_max") == 0);
  const StepMetrics second = trainer->Step(sequences).value();
  CHECK(second.at("mean_abs_log_ratio") > 0);
  CHECK(second.at("staleness_max") == 1);
}

TEST_CASE("CuSeT's loss is its weights times the negative log-likelihood over the sequences, however it is cut", "[trainer][loop]") {
  std::vector<TrainSequence> sequences = RandomSequences(5, 8);
  for (TrainSequence& s : sequences) {
    s.kernel_tokens.assign(s.ids.size(), 0);
    s.kernel_tokens.back() = 1;
  }
  const SftWeightOptions weights{.objective = SftObjective::kCuset, .tau = 0.03, .window = 4};
  const auto decoder = MakeDecoder(TinyConfig());
  const auto scores = ScoreSequences(*decoder, sequences, 1.0, 1000).value();
  double wanted = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TrainSequence& s = sequences[i];
    std::vector<float> p, log_p;
    std::vector<uint8_t> kernel;
    for (size_t t = 0; t < s.ids.size(); ++t) {
      if (s.loss_mask[t] == 0) continue;
      p.push_back(std::exp(scores[i][t]));
      log_p.push_back(scores[i][t]);
      kernel.push_back(s.kernel_tokens[t]);
    }
    const std::vector<float> w = CusetWeights(p, kernel, weights);
    for (size_t t = 0; t < p.size(); ++t) wanted -= w[t] * log_p[t] / 5;
  }
  for (int64_t tokens : {100000, 24}) {
    const auto trainer = SftTrainer::Create({Rate(0, tokens), weights}, *decoder).value();
    CHECK_THAT(trainer->Step(sequences).value().at("loss"), WithinAbs(wanted, 1e-4 * wanted));
  }
}

// Prompt: four digits and a mark. Answer: the digits reversed and the end.
constexpr int32_t kMark = 10, kEnd = 11;

policy::ModelConfig ReverseConfig() {
  policy::ModelConfig config = TinyConfig();
  config.vocab_size = 12;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_key_value_heads = 4;
  config.head_dim = 16;
  config.initializer_range = 0.05;
  return config;
}

// An engine whose log-probs are off by `error`.
class LyingEngine : public rollout::Engine {
 public:
  LyingEngine(rollout::Engine& honest, float error) : honest_(honest), error_(error) {}
  absl::StatusOr<std::vector<std::vector<rollout::Sample>>> Generate(absl::Span<const rollout::GenerationRequest> requests,
                                                                     const rollout::GenerateOptions& options) override {
    auto results = honest_.Generate(requests, options);
    for (float& value : (*results)[0][0].log_probs) value += error_;
    return results;
  }
  absl::Status SetPolicyVersion(int64_t version) override { return honest_.SetPolicyVersion(version); }
  int64_t policy_version() const override { return honest_.policy_version(); }

 private:
  rollout::Engine& honest_;
  const float error_;
};

TEST_CASE("The self-test passes an engine that agrees, and refuses one that does not by its side", "[trainer][loop]") {
  const auto decoder = MakeDecoder(TinyConfig());
  const auto engine = rollout::NativeEngine::Create({}, *decoder).value();
  const SelfTestOptions options{.temperature = 0.8, .tokens = 16, .prompt_ids = {3, 1, 4, 1, 5}};
  const SelfTestReport report = TestLogProbs(*engine, *decoder, options).value();
  CHECK(report.tokens == 16);
  CHECK(report.mean_gap == 0);  // on the CPU in fp32 to the bit
  CHECK(report.learner_error < 1e-5);
  LyingEngine lying(*engine, 0.01f);
  const absl::Status refused = TestLogProbs(lying, *decoder, options).status();
  INFO(refused.ToString());
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(refused.message().find("the engine is the side that is off") != absl::string_view::npos);
  CHECK(refused.message().find("first at token 0") != absl::string_view::npos);
}

TEST_CASE("SFT teaches a small model to reverse, and RL makes it surer", "[trainer][loop]") {
  const auto decoder = MakeDecoder(ReverseConfig(), 1);
  LearnerOptions learner = Rate(3e-3);
  learner.adamw.weight_decay = 0.01;
  const auto sft = SftTrainer::Create({learner}, *decoder).value();
  std::mt19937 random(1);
  const auto prompt = [&] {
    std::vector<int32_t> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(random() % 10);
    ids.push_back(kMark);
    return ids;
  };
  const auto answer = [](const std::vector<int32_t>& ids) { return std::vector<int32_t>{ids[3], ids[2], ids[1], ids[0], kEnd}; };
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    std::vector<TrainSequence> batch;
    for (int i = 0; i < 64; ++i) {
      const std::vector<int32_t> p = prompt();
      batch.push_back(PromptAndResponse(p, answer(p)));
    }
    last = sft->Step(batch).value().at("loss");
    if (step == 0) first = last;
  }
  CHECK(first > 2.0);  // ln 12 = 2.48
  CHECK(last < 0.7);

  const auto engine = rollout::NativeEngine::Create({}, *decoder).value();
  const auto rl = RlTrainer::Create({.learner = Rate(3e-4)}, *decoder).value();
  const auto round = [&](int prompts, uint64_t seed, bool learn) {
    std::vector<rollout::GenerationRequest> requests;
    for (int i = 0; i < prompts; ++i) {
      requests.push_back({prompt(), 8, seed + i, {}});
      requests.back().sampling.max_tokens = 6;
      requests.back().sampling.stop_ids = {kEnd};
    }
    const auto samples = engine->Generate(requests, {}).value();
    double correct = 0;
    std::vector<TrainSequence> batch;
    for (int i = 0; i < prompts; ++i) {
      std::vector<double> rewards;
      for (const rollout::Sample& sample : samples[i]) rewards.push_back(sample.ids == answer(requests[i].prompt_ids));
      double mean = 0;
      for (double r : rewards) mean += r / 8;
      correct += mean / prompts;
      for (int j = 0; j < 8; ++j) {
        Turn turn;
        turn.prompt_ids = requests[i].prompt_ids;
        turn.response_ids = samples[i][j].ids;
        turn.log_probs = samples[i][j].log_probs;
        batch.push_back(SampledTurn(turn, rewards[j] - mean));
      }
    }
    if (learn) REQUIRE(rl->Step(batch).ok());
    return correct;
  };
  const double before = round(64, 1000, false);
  for (uint64_t step = 0; step < 60; ++step) round(32, 5000 + 100 * step, true);
  const double after = round(64, 1000, false);
  INFO("SFT loss " << first << " -> " << last << ", correct " << before << " -> " << after);
  CHECK(before > 0.05);
  CHECK(after > before + 0.1);
}

}  // namespace
}  // namespace hone::trainer

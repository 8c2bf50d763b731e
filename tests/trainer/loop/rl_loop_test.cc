#include "tests/support/catch_torch.h"

#include "base/status_macros.h"
#include "tests/support/fake_clock.h"
#include "tests/support/memory_folder.h"
#include "tests/support/tiny_model.h"
#include "trainer/loop/rl_loop.h"
#include "trainer/loop/scorer.h"
#include "trainer/loss/filters/noise_floor.h"

namespace hone::trainer {
namespace {

using testing::FakeClock;
using testing::MakeDecoder;
using testing::TinyConfig;

constexpr int64_t kInfraStep = 1;

/// One group a step; on kInfraStep the verifier failed throughout.
class ScriptedSource final : public GroupSource {
 public:
  absl::StatusOr<std::vector<Group>> Collect(int64_t step, const Meanwhile& meanwhile, StepMetrics&) override {
    asked.push_back(step);
    Group group;
    for (int i = 0; i < 4; ++i) {
      Turn turn;
      turn.prompt_ids = {1, 2, 3};
      turn.response_ids = {static_cast<int32_t>(4 + step), static_cast<int32_t>(8 + i), 5};
      turn.log_probs = {-3.6f, -3.6f, -3.6f};
      turn.versions = {{0, 3, version}};
      turn.verdict.status = step == kInfraStep ? VerdictStatus::kInfra : i % 2 == 0 ? VerdictStatus::kOk : VerdictStatus::kCompile;
      Episode episode;
      episode.id = "step-" + std::to_string(step) + "/" + std::to_string(i);
      episode.turns = {turn};
      group.episodes.push_back(episode);
    }
    std::vector<const Turn*> answers;
    for (const Episode& episode : group.episodes) answers.push_back(&episode.turns[0]);
    if (meanwhile) HONE_RETURN_IF_ERROR(meanwhile(answers));
    return std::vector<Group>{group};
  }
  absl::Status Begin(int64_t step, int64_t policy_version) override {
    begun = step;
    policy = policy_version;
    return absl::OkStatus();
  }
  absl::Status Learned(int64_t policy_version, StepMetrics&) override {
    policy = policy_version;
    ++learned;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Save() override { return "drawn " + std::to_string(asked.size()); }
  absl::Status Restore(const std::string& state) override {
    restored = state;
    return absl::OkStatus();
  }

  int64_t version = 0;  // that the responses are labelled with
  int64_t begun = -1, policy = -1, learned = 0;  // what it was told
  std::vector<int64_t> asked;
  std::string restored;
};

struct Run {
  TempFolder folder = MemoryFolder("rl_loop_test");
  FakeClock clock;
  std::unique_ptr<policy::Decoder> decoder = MakeDecoder(TinyConfig());
  std::unique_ptr<RlTrainer> trainer;
  std::unique_ptr<JournalWriter> journal = JournalWriter::Open(folder.path() + "/journal").value();
  std::unique_ptr<MetricsWriter> metrics = MetricsWriter::Create(folder.path(), clock).value();
  rewards::Pipeline pipeline = rewards::Pipeline::Create(Rewards()).value();
  std::unique_ptr<LogProbFile> log_probs = LogProbFile::Open(LogProbs()).value();
  RlLoopOptions loop_options;
  ScriptedSource source;

  explicit Run(RlLoopOptions loop_options = {}) : loop_options(loop_options) {
    RlOptions options;
    options.learner.schedule.peak = 1e-2;
    options.score = true;
    trainer = RlTrainer::Create(options, *decoder).value();
  }
  static rewards::PipelineConfig Rewards() {
    rewards::PipelineConfig config;
    config.terms = {{rewards::Choice<rewards::Term>("correct"), 1.0}};
    return config;
  }
  RlLoop Loop() {
    return RlLoop({source, pipeline, *trainer, *journal, *metrics, log_probs.get()}, loop_options);
  }
  std::string LogProbs() const { return folder.path() + "/log_probs.jsonl.zst"; }
  at::Tensor Weights() const {
    std::vector<at::Tensor> all;
    for (const policy::NamedTensor& named : decoder->parameters().named()) all.push_back(named.tensor.flatten());
    return at::cat(all).clone();
  }
};

TEST_CASE("A step without a trained turn counts, and a resume does not repeat it", "[trainer][loop]") {
  Run whole;
  RlLoop loop = whole.Loop();
  for (int i = 0; i < 4; ++i) REQUIRE(loop.Step().ok());
  CHECK(loop.step() == 4);
  CHECK(whole.trainer->learner().step() == 3);  // the learner's own count cannot tell

  Run killed;
  RlLoop before = killed.Loop();
  for (int i = 0; i <= kInfraStep; ++i) REQUIRE(before.Step().ok());
  const absl::StatusOr<CheckpointData> data = before.Save();
  REQUIRE(data.ok());
  CHECK(data->step == 2);

  Run resumed;
  RlLoop after = resumed.Loop();
  REQUIRE(after.Restore(*data).ok());
  CHECK(resumed.source.restored == "drawn 2");
  CHECK(after.step() == 2);
  CHECK(killed.source.learned == 2);  // a batch without a trained turn is told of, too
  while (after.step() < 4) REQUIRE(after.Step().ok());
  CHECK(resumed.source.asked == std::vector<int64_t>{2, 3});
  CHECK(resumed.source.begun == 2);
  CHECK(resumed.source.policy == whole.source.policy);
  CHECK(at::equal(resumed.Weights(), whole.Weights()));
  CHECK_FALSE(at::equal(resumed.Weights(), killed.Weights()));
}

TEST_CASE("A checkpoint of something else is refused by what it lacks", "[trainer][loop]") {
  Run run;
  RlLoop loop = run.Loop();
  CheckpointData data = loop.Save().value();
  data.counters.erase("loop/steps");
  const absl::Status status = loop.Restore(data);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message().find("loop/steps") != std::string_view::npos);
}

TEST_CASE("With a lag of one a batch is learned from a step after it was sampled, and a resume loses none",
          "[trainer][loop]") {
  Run on_policy;
  RlLoop immediate = on_policy.Loop();
  Run whole({.lag = 1});
  RlLoop loop = whole.Loop();
  const at::Tensor before = whole.Weights();
  REQUIRE(loop.Step().ok());
  CHECK(at::equal(whole.Weights(), before));
  REQUIRE(loop.Step().ok());
  REQUIRE(immediate.Step().ok());
  CHECK(at::equal(whole.Weights(), on_policy.Weights()));  // the first batch, and nothing of the second

  Run resumed({.lag = 1});
  RlLoop after = resumed.Loop();
  REQUIRE(after.Restore(loop.Save().value()).ok());
  REQUIRE(loop.Step().ok());  // learns from the second, which is all INFRA
  REQUIRE(loop.Step().ok());  // and from the third
  while (after.step() < 4) REQUIRE(after.Step().ok());
  CHECK(at::equal(resumed.Weights(), whole.Weights()));
  CHECK_FALSE(at::equal(resumed.Weights(), on_policy.Weights()));
}

TEST_CASE("With dynamic sampling a batch is whole when enough groups have something to learn from, and a resume loses none",
          "[trainer][loop]") {
  Run whole({.fill = 2});
  RlLoop loop = whole.Loop();
  const at::Tensor start = whole.Weights();
  CHECK(loop.Step().value().at("reward/filling_groups") == 1);
  const StepMetrics infra = loop.Step().value();  // all INFRA: nothing is added
  CHECK(infra.at("reward/filling_groups") == 1);
  CHECK(infra.count("learn/loss") == 0);
  CHECK(at::equal(whole.Weights(), start));

  Run resumed({.fill = 2});
  RlLoop after = resumed.Loop();
  REQUIRE(after.Restore(loop.Save().value()).ok());
  for (RlLoop* each : {&loop, &after}) {
    const StepMetrics full = each->Step().value();
    CHECK(full.at("reward/filling_groups") == 2);
    CHECK(full.at("learn/sequences") == 8);  // both groups, in one update
    CHECK(full.at("learn/updated") == 1);
  }
  CHECK(at::equal(resumed.Weights(), whole.Weights()));
  CHECK_FALSE(at::equal(whole.Weights(), start));
  CHECK(loop.Step().value().at("reward/filling_groups") == 1);  // the next batch begins empty
}

TEST_CASE("Learning while verdicts are waited for gives the weights of the same lag without it", "[trainer][loop]") {
  Run plain({.lag = 1}), overlapped({.lag = 1, .overlap = true});
  RlLoop one = plain.Loop(), other = overlapped.Loop();
  const at::Tensor start = plain.Weights();
  for (int i = 0; i < 4; ++i) {
    REQUIRE(one.Step().ok());
    REQUIRE(other.Step().ok());
    CHECK(at::equal(plain.Weights(), overlapped.Weights()));
  }
  CHECK_FALSE(at::equal(plain.Weights(), start));
  CHECK(plain.source.policy == overlapped.source.policy);
}

TEST_CASE("What sampler and learner made of the same tokens is recorded with its staleness, and survives a reopening",
          "[trainer][loop]") {
  Run run({.lag = 1, .recorded_sequences = 2});
  RlLoop loop = run.Loop();
  const Group first = run.source.Collect(0, {}, *std::make_unique<StepMetrics>()).value()[0];
  const auto expected = ScoreSequences(*run.decoder, {SampledTurn(first.episodes[2].turns[0], 0)}, 1.0, 100).value()[0];
  for (int i = 0; i < 4; ++i) REQUIRE(loop.Step().ok());  // learns from steps 0 and 2; step 1 is INFRA
  run.log_probs.reset();
  run.log_probs = LogProbFile::Open(run.LogProbs()).value();

  std::vector<LogProbRecord> records;
  const auto read = ReadLogProbs(run.LogProbs(), [&](const LogProbRecord& record) {
    records.push_back(record);
    return absl::OkStatus();
  });
  REQUIRE(read.ok());
  CHECK(read->empty());
  REQUIRE(records.size() == 4);
  CHECK(records[0].episode == "step-0/0");
  CHECK(records[1].episode == "step-0/2");
  CHECK(records[1].turn == 1);
  CHECK(records[1].staleness == 0);
  CHECK(records[1].rollout == std::vector<float>{-3.6f, -3.6f, -3.6f});
  CHECK(records[1].learner == std::vector<float>(expected.begin() + 3, expected.end()));  // of before the update
  CHECK(records[2].episode == "step-2/0");
  CHECK(records[2].staleness == 1);  // labelled with version 0, learned from at version 1
}

TEST_CASE("The gap of a step is that of answers by the learner's present weights, before it learns", "[trainer][loop]") {
  Run run({.lag = 1, .overlap = true, .recorded_sequences = 4});
  RlLoop loop = run.Loop();
  const Group first = run.source.Collect(0, {}, *std::make_unique<StepMetrics>()).value()[0];
  std::vector<TrainSequence> sequences;
  for (const Episode& episode : first.episodes) sequences.push_back(SampledTurn(episode.turns[0], 0));
  double sum = 0;
  const auto all = ScoreSequences(*run.decoder, sequences, 1.0, 100).value();
  for (const std::vector<float>& scores : all) {
    for (size_t t = 3; t < scores.size(); ++t) sum += std::abs(scores[t] - -3.6f);
  }
  const StepMetrics step = loop.Step().value();
  CHECK(step.at("gap/tokens") == 12);
  CHECK(std::abs(step.at("gap/abs_log_ratio") - sum / 12) < 1e-6);
  REQUIRE(loop.Step().ok());                               // learns from the first: version 1
  CHECK(loop.Step().value().count("gap/tokens") == 0);     // labelled with version 0 still
  run.source.version = 1;
  const at::Tensor before = run.Weights();
  CHECK(loop.Step().value().at("gap/tokens") == 12);       // of before the update that it makes
  CHECK_FALSE(at::equal(run.Weights(), before));
}

/// Two episodes of two turns: the first repaired, the second not.
std::vector<Group> TwoTurnGroup() {
  Group group;
  for (int e = 0; e < 2; ++e) {
    Episode episode;
    std::vector<int32_t> prompt = {1, 2, 3};
    for (int t = 0; t < 2; ++t) {
      Turn turn;
      turn.prompt_ids = prompt;
      turn.response_ids = {static_cast<int32_t>(5 + e), static_cast<int32_t>(7 + 2 * t), 9};
      turn.log_probs = {-3.6f, -3.6f, -3.6f};
      turn.verdict.status = e == 0 && t == 1 ? VerdictStatus::kOk : VerdictStatus::kCompile;
      prompt.insert(prompt.end(), turn.response_ids.begin(), turn.response_ids.end());
      prompt.push_back(4);
      episode.turns.push_back(turn);
    }
    group.episodes.push_back(episode);
  }
  return {group};
}

/// The gradient that a rule gives the weights.
at::Tensor GradientUnder(const char* rule, const std::vector<Group>& groups) {
  rewards::PipelineConfig config;
  config.terms = {{rewards::Choice<rewards::Term>("correct"), 1.0}};
  config.turns.rule = rewards::Choice<rewards::TurnRule>(rule);
  const auto decoder = MakeDecoder(TinyConfig());
  RlOptions options;
  options.learner.schedule.peak = 0;
  const auto trainer = RlTrainer::Create(options, *decoder).value();
  const auto sequences = TrainedTurns(groups, rewards::Pipeline::Create(config).value().Score(groups));
  REQUIRE(trainer->Step(sequences).value().at("updated") == 1);
  return trainer->learner().optimizer().gradients().clone();
}

TEST_CASE("PrimeEcho gives gradient to the first response's tokens alone, Kevin's return to all", "[trainer][loop]") {
  const std::vector<Group> groups = TwoTurnGroup();
  std::vector<Group> other_second = groups, other_first = groups;
  for (int e = 0; e < 2; ++e) {
    // Other tokens in the second response: same verdicts, so that advantages stay.
    other_second[0].episodes[e].turns[1].response_ids = {20, 21, 22};
    other_second[0].episodes[e].turns[1].log_probs = {-1.0f, -9.0f, -2.0f};
    other_first[0].episodes[e].turns[0].response_ids[1] = 30;
  }
  const at::Tensor prime = GradientUnder("primeecho", groups);
  CHECK(prime.abs().max().item<double>() > 1e-3);
  CHECK(at::equal(prime, GradientUnder("primeecho", other_second)));
  CHECK((prime - GradientUnder("primeecho", other_first)).abs().max().item<double>() > 1e-3);

  const at::Tensor kevin = GradientUnder("discounted_return", groups);
  CHECK((kevin - GradientUnder("discounted_return", other_second)).abs().max().item<double>() > 1e-3);
  CHECK((kevin - prime).abs().max().item<double>() > 1e-3);
}

TEST_CASE("An INFRA storm changes no gradient of the other samples", "[trainer][loop]") {
  const std::vector<Group> calm = TwoTurnGroup();
  std::vector<Group> storm = calm;
  Episode lost = calm[0].episodes[0];
  lost.turns[0].verdict.status = VerdictStatus::kInfra;
  lost.turns.resize(1);
  for (int i = 0; i < 3; ++i) storm[0].episodes.insert(storm[0].episodes.begin() + i, lost);
  for (const char* rule : {"primeecho", "discounted_return"}) CHECK(at::equal(GradientUnder(rule, calm), GradientUnder(rule, storm)));
}

}  // namespace
}  // namespace hone::trainer

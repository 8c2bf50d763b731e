#include "tests/support/catch_torch.h"

#include "tests/support/fake_clock.h"
#include "tests/support/memory_folder.h"
#include "tests/support/tiny_model.h"
#include "trainer/loop/rl_loop.h"

namespace hone::trainer {
namespace {

using testing::FakeClock;
using testing::MakeDecoder;
using testing::TinyConfig;

constexpr int64_t kInfraStep = 1;

/// One group a step; on kInfraStep the verifier failed throughout.
class ScriptedSource final : public GroupSource {
 public:
  absl::StatusOr<std::vector<Group>> Collect(int64_t step, StepMetrics&) override {
    asked.push_back(step);
    Group group;
    for (int i = 0; i < 4; ++i) {
      Turn turn;
      turn.prompt_ids = {1, 2, 3};
      turn.response_ids = {static_cast<int32_t>(4 + step), static_cast<int32_t>(8 + i), 5};
      turn.log_probs = {-3.6f, -3.6f, -3.6f};
      turn.verdict.status = step == kInfraStep ? VerdictStatus::kInfra : i % 2 == 0 ? VerdictStatus::kOk : VerdictStatus::kCompile;
      Episode episode;
      episode.turns = {turn};
      group.episodes.push_back(episode);
    }
    return std::vector<Group>{group};
  }
  absl::StatusOr<std::string> Save() override { return "drawn " + std::to_string(asked.size()); }
  absl::Status Restore(const std::string& state) override {
    restored = state;
    return absl::OkStatus();
  }

  std::vector<int64_t> asked;
  std::string restored;
};

class VersionOnlyEngine final : public rollout::Engine {
 public:
  absl::StatusOr<std::vector<std::vector<rollout::Sample>>> Generate(absl::Span<const rollout::GenerationRequest>,
                                                                     const rollout::GenerateOptions&) override {
    return absl::UnimplementedError("the source is scripted");
  }
  absl::Status SetPolicyVersion(int64_t version) override {
    version_ = version;
    return absl::OkStatus();
  }
  int64_t policy_version() const override { return version_; }

 private:
  int64_t version_ = 0;
};

struct Run {
  TempFolder folder = MemoryFolder("rl_loop_test");
  FakeClock clock;
  std::unique_ptr<policy::Decoder> decoder = MakeDecoder(TinyConfig());
  std::unique_ptr<RlTrainer> trainer;
  std::unique_ptr<JournalWriter> journal = JournalWriter::Open(folder.path() + "/journal").value();
  std::unique_ptr<MetricsWriter> metrics = MetricsWriter::Create(folder.path(), clock).value();
  rewards::Pipeline pipeline = rewards::Pipeline::Create(Rewards()).value();
  ScriptedSource source;
  VersionOnlyEngine engine;

  Run() {
    RlOptions options;
    options.learner.schedule.peak = 1e-2;
    trainer = RlTrainer::Create(options, *decoder).value();
  }
  static rewards::PipelineConfig Rewards() {
    rewards::PipelineConfig config;
    config.terms = {{rewards::Choice<rewards::Term>("correct"), 1.0}};
    return config;
  }
  RlLoop Loop() { return RlLoop({source, pipeline, *trainer, engine, *journal, *metrics}); }
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
  CHECK(resumed.engine.policy_version() == killed.engine.policy_version());
  CHECK(after.step() == 2);
  while (after.step() < 4) REQUIRE(after.Step().ok());
  CHECK(resumed.source.asked == std::vector<int64_t>{2, 3});
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

}  // namespace
}  // namespace hone::trainer

#include "rewards/lab/replay.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

#include "rewards/lab/explain.h"
#include "rewards/lab/lab_report.h"
#include "rewards/lab/statistics.h"
#include "tests/rewards/lab/files.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

NamedPipeline Named(const std::string& name, const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<Pipeline> pipeline = LoadPipeline("", overrides);
  INFO(pipeline.status());
  REQUIRE(pipeline.ok());
  return {name, *std::move(pipeline)};
}

LabGroup GroupOfOutcomes(const std::string& id, const GroupOutcomes& outcomes) {
  LabGroup group;
  group.id = id;
  group.outcomes = outcomes;
  for (size_t i = 0; i < outcomes.size(); ++i) group.episode_ids.push_back("e" + std::to_string(i));
  return group;
}

TEST_CASE("Ranks of equal values are shared, and Spearman sees order alone", "[lab]") {
  CHECK(MeanRanks(std::vector<float>{10, 20, 20, 5}) == std::vector<double>{2, 3.5, 3.5, 1});
  const auto matrix = SpearmanMatrix({{1, 2, 3, 4}, {1, 10, 100, 1000}, {4, 3, 2, 1}});
  CHECK_THAT(matrix[0][1], WithinAbs(1, 1e-12));
  CHECK_THAT(matrix[0][2], WithinAbs(-1, 1e-12));
  // 1 - 6 * (1 + 1) / (4 * 15)
  CHECK_THAT(SpearmanMatrix({{1, 2, 3, 4}, {2, 1, 3, 4}})[0][1], WithinAbs(0.8, 1e-12));
}

TEST_CASE("Rows without a reward in some column are left out of the correlation", "[lab]") {
  CHECK_THAT(SpearmanMatrix({{1, 2, 3, kNan}, {1, 2, 3, -9}})[0][1], WithinAbs(1, 1e-12));
  CHECK(std::isnan(SpearmanMatrix({{1, 1, 1}, {1, 2, 3}})[0][1]));  // no order to compare with
}

TEST_CASE("Quantiles interpolate and leave missing values out", "[lab]") {
  CHECK(Quantile({4, 1, kNan, 3, 2}, 0.5) == 2.5);
  CHECK(Quantile({1, 2, 3}, 1) == 3);
  CHECK(std::isnan(Quantile({kNan}, 0.5)));
}

TEST_CASE("A replay sums up what each pipeline paid", "[lab]") {
  Replay replay({Named("default"), Named("binary", {"terms.0.name=correct"})}, 64);
  replay.Add(GroupOfOutcomes("a", {{Passed(3)}, {Failed(VerdictStatus::kCompile)}, {Infra()}}));
  replay.Add(GroupOfOutcomes("b", {{Failed(VerdictStatus::kCompile)}, {Failed(VerdictStatus::kCompile)}}));
  replay.Finish();
  const PipelineSummary& paid = replay.summaries()[0];
  CHECK(paid.groups == 2);
  CHECK(paid.zero_signal_groups == 1);
  CHECK(paid.episodes == 5);
  CHECK(paid.episodes_unscored == 1);
  CHECK(paid.samples == 4);
  // 1 + 0.5 * 2 + 0.15 = 2.15, and three times -1
  CHECK_THAT(paid.RewardMean(), WithinAbs((2.15 - 3) / 4, 1e-12));
  CHECK_THAT(paid.group_spreads[0], WithinAbs(1.575, 1e-6));  // half of 2.15 + 1
  CHECK(paid.group_spreads[1] == 0);
  CHECK(std::isnan(paid.rewards[2]));
  CHECK_THAT(replay.summaries()[1].RewardMean(), WithinAbs(1.15 / 4, 1e-12));
  CHECK(replay.first_turn_verdicts()[static_cast<size_t>(VerdictStatus::kCompile)] == 3);
  CHECK(replay.EpisodeName(3) == "b e0");
}

TEST_CASE("A replay pays what the pipeline pays when asked directly, whatever the size of its batches", "[lab]") {
  const std::vector<Group> groups = RandomGroups(60, 31);
  const NamedPipeline pipeline = Named("default");
  const BatchCredit direct = pipeline.pipeline.Score(groups);
  for (const int64_t batch : {1, 7, 1000}) {
    Replay replay({pipeline}, batch);
    for (const Group& group : groups) {
      LabGroup lab = GroupOfOutcomes(group.id, OutcomesOf(group));
      replay.Add(std::move(lab));
    }
    replay.Finish();
    CHECK(replay.summaries()[0].samples == direct.samples);
    CHECK(replay.summaries()[0].zero_signal_groups == direct.zero_signal_groups);
    size_t e = 0;
    for (const GroupCredit& group : direct.groups) {
      for (const EpisodeCredit& episode : group.episodes) {
        const bool scored = !episode.turns.empty() && episode.turns[0].reward.has_value();
        const float reward = replay.summaries()[0].rewards[e++];
        CHECK(scored == !std::isnan(reward));
        if (scored) CHECK(reward == static_cast<float>(*episode.turns[0].reward));
      }
    }
  }
}

TEST_CASE("A sweep makes one pipeline of each value, both ends included", "[lab]") {
  const Sweep range = *ParseSweep("turns.alpha=0:1:0.1");
  CHECK(range.values.size() == 11);
  CHECK(range.values.back() == 1.0);
  CHECK(ParseSweep("terms.0.lambda=0.25,1,4")->values == std::vector<double>{0.25, 1, 4});
  for (const char* bad : {"alpha", "=1,2", "a=1:2", "a=0:1:0", "a=1:0:0.1", "a=0:1:1e-9", "a=x", "a=nan"}) {
    INFO(bad);
    CHECK(ParseSweep(bad).status().code() == absl::StatusCode::kInvalidArgument);
  }
  const std::vector<NamedPipeline> swept = *SweepPipelines("", {}, *ParseSweep("turns.alpha=0,1"));
  REQUIRE(swept.size() == 2);
  CHECK(swept[0].name == "alpha=0");
  // alpha 0: the best turn alone; alpha 1: the first.
  const GroupOutcomes group = {{Failed(VerdictStatus::kCompile), Failed(VerdictStatus::kIncorrect, 0.5)}};
  CHECK(swept[0].pipeline.Score({group}).groups[0].episodes[0].turns[0].reward == -0.25);
  CHECK(swept[1].pipeline.Score({group}).groups[0].episodes[0].turns[0].reward == -1.0);
  CHECK_FALSE(SweepPipelines("", {}, *ParseSweep("turns.alpha=0,2")).ok());  // outside [0, 1]
}

TEST_CASE("A pipeline is read from the rewards section of a larger file, other sections left alone", "[lab]") {
  const TempFolder folder = *TempFolder::Create("lab");
  WriteText(folder.path() + "/train.yaml",
            "policy: {layers: 4}\nrewards:\n  terms: [{}]\n  turns: {alpha: 0.25}\nsteps: 10\n");
  const absl::StatusOr<Pipeline> pipeline = LoadPipeline(folder.path() + "/train.yaml", {"terms.0.name=log_speed"});
  INFO(pipeline.status());
  REQUIRE(pipeline.ok());
  CHECK_THAT(pipeline->InWords(), ContainsSubstring("0.25 * s_1") && ContainsSubstring("log2"));
  WriteText(folder.path() + "/typo.yaml", "rewards:\n  trns: {alpha: 0.25}\n");
  CHECK_THAT(std::string(LoadPipeline(folder.path() + "/typo.yaml", {}).status().message()),
             ContainsSubstring("typo.yaml:2") && ContainsSubstring("turns"));
  CHECK(LoadPipeline(folder.path() + "/none.yaml", {}).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("An explanation's worked example is what the formula says", "[lab]") {
  const std::string text = Explain(Named("default").pipeline);
  // Passes at a lower bound of 1.7: 1 + 0.5 * 0.7 = 1.35, plus the bonus of 0.15.
  CHECK_THAT(text, ContainsSubstring("     1.35       1.5"));
  // Fails, then passes at 1.1: 0.75 * -1 + 0.25 * 1.05 + 0.08 = -0.4075.
  CHECK_THAT(text, ContainsSubstring("       -1   -0.4075"));
  CHECK_THAT(text, ContainsSubstring("our own failure (INFRA)           none      none  untrained"));
  CHECK_THAT(text, ContainsSubstring("0.75 * s_1 + 0.25 * max s_k"));
}

TEST_CASE("The table of candidates has one row a turn, quoted where needed, and appears only when whole", "[lab]") {
  const TempFolder folder = *TempFolder::Create("lab");
  const std::string path = folder.path() + "/candidates.csv";
  const std::vector<NamedPipeline> pipelines = {Named("default")};
  {
    std::unique_ptr<CandidateCsv> csv = *CandidateCsv::Create(path, pipelines);
    Replay replay(pipelines, 2, [&](const CandidateRow& row) { csv->Add(row); });
    LabGroup group = GroupOfOutcomes("odd, \"name\"", {{Passed(3, 2, 4)}, {Failed(VerdictStatus::kCompile), Infra()}});
    group.task_id = "softmax";
    replay.Add(std::move(group));
    replay.Finish();
    CHECK_FALSE(FileExists(path));
    REQUIRE(csv->Finish().ok());
  }
  CHECK(*ReadFile(path) ==
        "group,task,episode,turn,status,correct_rate,speedup,speedup_low,speedup_high,default score,default reward,"
        "default advantage\n"
        "\"odd, \"\"name\"\"\",softmax,e0,1,OK,1,3,2,4,1.5,1.65,0\n"
        "\"odd, \"\"name\"\"\",softmax,e1,1,COMPILE,0,,,,-1,,\n"
        "\"odd, \"\"name\"\"\",softmax,e1,2,INFRA,0,,,,,,\n");
  { std::unique_ptr<CandidateCsv> dropped = *CandidateCsv::Create(path + "2", pipelines); }
  CHECK_FALSE(FileExists(path + "2"));
  CHECK_FALSE(FileExists(path + "2.partial"));
}

TEST_CASE("The report names what a reader must know: emulation, missing timings, cut files", "[lab]") {
  Replay replay({Named("default"), Named("graph", {"terms.0.baseline=graph"}), Named("alpha=0", {"turns.alpha=0"})},
                64);
  for (const Group& group : RandomGroups(30, 3)) replay.Add(GroupOfOutcomes(group.id, OutcomesOf(group)));
  replay.Finish();
  ReadSummary read;
  read.emulated = true;
  read.warnings = {"x.jsonl: cut inside line 9"};
  const LabResult result = MakeResult(replay, read, {"x.jsonl"}, {{*ParseSweep("turns.alpha=0"), 2}});
  for (const std::string& text : {ResultHtml(result), ResultText(result)}) {
    CHECK_THAT(text, ContainsSubstring("emulated"));
    CHECK_THAT(text, ContainsSubstring("cut inside line 9"));
    CHECK_THAT(text, ContainsSubstring("timing"));
  }
  const std::string csv = ResultCsv(result);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 4);
  CHECK_THAT(csv, ContainsSubstring("graph,"));
}

}  // namespace
}  // namespace hone::rewards

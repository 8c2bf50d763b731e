#include "trainer/loss/filters/noise_floor.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "base/file.h"
#include "tests/trainer/loss/filters/batch.h"
#include "trainer/loss/filters/sequence_masks.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

LogProbRecord RecordOf(const std::vector<float>& deltas, int64_t staleness = 0) {
  LogProbRecord record;
  record.staleness = staleness;
  for (const float delta : deltas) {
    record.rollout.push_back(-1);
    record.learner.push_back(-1 + delta);
  }
  return record;
}

TEST_CASE("The floor is the mean of |log rho| over tokens at zero staleness", "[filters]") {
  NoiseFloor floor;
  REQUIRE(floor.Add(RecordOf({0.5f, -0.5f, 0.0f})).ok());
  REQUIRE(floor.Add(RecordOf({0.25f})).ok());
  REQUIRE(floor.Add(RecordOf({4.0f}, 3)).ok());
  const MismatchAtStaleness& fresh = floor.by_staleness().at(0);
  CHECK(fresh.MeanAbs() == 1.25 / 4);
  CHECK(fresh.max_abs == 0.5);
  CHECK_THAT(fresh.sequence_means[0], WithinRel(1.0f / 3, 1e-6f));
  CHECK(floor.by_staleness().at(3).MeanAbs() == 4);
}

TEST_CASE("The suggested delta is three times the floor, and never below what noise alone reaches", "[filters]") {
  NoiseFloor even;
  for (int i = 0; i < 1000; ++i) REQUIRE(even.Add(RecordOf({0.0625f, -0.0625f})).ok());
  CHECK_THAT(*even.SuggestedDelta(), WithinAbs(0.19, 1e-9));  // 0.1875 rounded up to two digits
  NoiseFloor uneven;
  for (int i = 0; i < 1000; ++i) REQUIRE(uneven.Add(RecordOf({i % 100 == 0 ? 0.75f : 0.0f})).ok());
  CHECK_THAT(*uneven.SuggestedDelta(), WithinAbs(0.75, 1e-9));  // the floor is 0.0075, but one in a hundred is at 0.75
  CHECK(uneven.by_staleness().at(0).RejectedShare(*uneven.SuggestedDelta()) == 0);
}

TEST_CASE("The rejected share is the share that MirrorPop itself rejects", "[filters]") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.06f);
  NoiseFloor floor;
  TestBatch batch;
  for (int i = 0; i < 300; ++i) {
    std::vector<float> deltas(1 + random() % 12);
    for (float& delta : deltas) delta = normal(random);
    if (i % 50 == 0) deltas[0] = std::numeric_limits<float>::quiet_NaN();
    REQUIRE(floor.Add(RecordOf(deltas)).ok());
    batch.Add(deltas);
  }
  for (const double delta : {0.02, 0.05, 0.08}) {
    MirrorPop filter;
    filter.delta = delta;
    const FilterDecision decision = Apply(filter, batch);
    int64_t rejected = 0;
    for (size_t i = 0; i + 1 < batch.offsets.size(); ++i) rejected += decision.weight[batch.offsets[i]] == 0;
    CHECK(floor.by_staleness().at(0).RejectedShare(delta) == rejected / 300.0);
  }
  CHECK(floor.by_staleness().at(0).not_finite == 6);
}

TEST_CASE("Without a sequence at zero staleness there is no floor", "[filters]") {
  NoiseFloor floor;
  CHECK(floor.SuggestedDelta().status().code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(floor.Add(RecordOf({0.1f}, 1)).ok());
  CHECK(floor.SuggestedDelta().status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Records read back as they were written, numbers that are not finite included", "[filters]") {
  const TempFolder folder = *TempFolder::Create("noise");
  LogProbRecord record = RecordOf({0.1f, -0.3f}, 2);
  record.episode = "step-1/\"0\"";
  record.turn = 2;
  record.learner[1] = -std::numeric_limits<float>::infinity();
  REQUIRE(WriteFileAtomically(folder.path() + "/p.jsonl", LogProbHeader() + "\n" + LogProbRecordToJson(record) + "\n")
              .ok());
  std::vector<LogProbRecord> read;
  const absl::StatusOr<std::string> warning = ReadLogProbs(folder.path() + "/p.jsonl", [&](const LogProbRecord& r) {
    read.push_back(r);
    return absl::OkStatus();
  });
  REQUIRE(warning.ok());
  CHECK(*warning == "");
  REQUIRE(read.size() == 1);
  CHECK(read[0] == record);
}

TEST_CASE("Files that hold no log-probabilities are refused with file and line", "[filters]") {
  const TempFolder folder = *TempFolder::Create("noise");
  const auto error_of = [&](const std::string& text) {
    REQUIRE(WriteFileAtomically(folder.path() + "/p.jsonl", text).ok());
    const absl::Status status =
        ReadLogProbs(folder.path() + "/p.jsonl", [](const LogProbRecord&) { return absl::OkStatus(); }).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK_THAT(error_of("{\"id\": 1}\n"), ContainsSubstring("no \"hone_log_probs\" header"));
  CHECK_THAT(error_of("{\"hone_log_probs\": 9}\n"), ContainsSubstring("schema 9"));
  CHECK_THAT(error_of(LogProbHeader() + "\n{\"learner\": [1], \"rollout\": []}\n"),
             ContainsSubstring("line 2") && ContainsSubstring("1 log-probs of the learner and 0"));
  CHECK_THAT(error_of(LogProbHeader() + "\n{\"learner\": [\"x\"], \"rollout\": [0]}\n"),
             ContainsSubstring("no number"));
  CHECK_THAT(error_of(LogProbHeader() + "\n{\"learner\": [0]}\n"), ContainsSubstring("'rollout'"));
}

}  // namespace
}  // namespace hone::trainer

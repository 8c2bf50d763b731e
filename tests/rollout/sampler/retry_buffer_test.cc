#include "rollout/sampler/retry_buffer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "base/file.h"
#include "tests/rollout/groups.h"

namespace hone::rollout {
namespace {

using Catch::Matchers::WithinAbs;

const Verdict kParse = VerdictOf(VerdictStatus::kParse);
const Verdict kCompile = VerdictOf(VerdictStatus::kCompile);
const Verdict kRuntime = VerdictOf(VerdictStatus::kRuntime);
const Verdict kWrong = VerdictOf(VerdictStatus::kIncorrect, 0.25);
const Verdict kNearly = VerdictOf(VerdictStatus::kIncorrect, 0.75);
const Verdict kCheat = VerdictOf(VerdictStatus::kCheat);
const Verdict kInfra = VerdictOf(VerdictStatus::kInfra);

RetryConfig Always() {
  RetryConfig config;
  config.probability = 1;
  return config;
}

TEST_CASE("The failure that got furthest is kept, with its evidence", "[sampler]") {
  CHECK(FurthestFailure(GroupOf("t", {kParse, kRuntime, kCompile}))->source == "source 1");
  CHECK(FurthestFailure(GroupOf("t", {kWrong, kRuntime, kNearly}))->source == "source 2");
  CHECK(FurthestFailure(GroupOf("t", {kCompile, kCompile}))->source == "source 0");
  CHECK(FurthestFailure(GroupOf("t", {kWrong, kCompile}))->verdict == kWrong);
  CHECK(FurthestFailure(GroupOf("t", {kWrong, kCompile}))->task_id == "t");
}

TEST_CASE("A group with a pass in any turn of any episode did not all fail", "[sampler]") {
  CHECK_FALSE(FurthestFailure(GroupOf("t", {kCompile, PassedAt(1)})).has_value());
  Group repaired_later = GroupOf("t", {kCompile, kCompile});
  repaired_later.episodes[0].turns.push_back(repaired_later.episodes[0].turns[0]);
  repaired_later.episodes[0].turns[1].verdict = PassedAt(1);
  CHECK_FALSE(FurthestFailure(repaired_later).has_value());
}

TEST_CASE("What INFRA took is no evidence of failure", "[sampler]") {
  CHECK_FALSE(FurthestFailure(GroupOf("t", {kInfra, kInfra, kInfra, kCompile})).has_value());
  CHECK(FurthestFailure(GroupOf("t", {kInfra, kInfra, kRuntime, kCompile}))->source == "source 2");
  CHECK_FALSE(FurthestFailure(GroupOf("t", {})).has_value());
}

TEST_CASE("A cheat is never shown as code to repair", "[sampler]") {
  CHECK_FALSE(FurthestFailure(GroupOf("t", {kCheat, kCheat})).has_value());
  CHECK(FurthestFailure(GroupOf("t", {kCheat, kParse}))->source == "source 1");
  Group no_source = GroupOf("t", {kParse});
  no_source.episodes[0].turns[0].source.clear();
  CHECK_FALSE(FurthestFailure(no_source).has_value());
}

TEST_CASE("The queue is first in, first out, and the oldest makes room", "[sampler]") {
  RetryConfig config = Always();
  config.capacity = 2;
  RetryBuffer buffer(config, 1);
  CHECK_FALSE(buffer.Draw(0).has_value());
  for (const char* task : {"a", "b", "c"}) buffer.Offer(GroupOf(task, {kCompile}), 0);
  buffer.Offer(GroupOf("solved", {PassedAt(1)}), 0);
  CHECK(buffer.stats().fill == 2);
  CHECK(buffer.stats().overflowed == 1);
  CHECK(buffer.Draw(1)->task_id == "b");
  CHECK(buffer.Draw(1)->task_id == "c");
  CHECK_FALSE(buffer.Draw(1).has_value());
}

TEST_CASE("A slot becomes a repair task with the configured probability", "[sampler]") {
  RetryConfig config;
  config.probability = 0.1;
  config.capacity = 1 << 20;
  RetryBuffer buffer(config, 7);
  constexpr int kSlots = 20000;
  for (int i = 0; i < kSlots / 4; ++i) buffer.Offer(GroupOf("t", {kCompile}), 0);
  int drawn = 0;
  for (int i = 0; i < kSlots; ++i) drawn += buffer.Draw(0).has_value();
  CHECK_THAT(drawn / double{kSlots}, WithinAbs(0.1, 0.011));  // five standard errors: 5 sqrt(0.09 / 20000)
  CHECK(buffer.stats().RepairShare() == drawn / double{kSlots});
}

TEST_CASE("A repair that passes settles its record; one that fails is queued again until its attempts are spent",
          "[sampler]") {
  RetryBuffer buffer(Always(), 1);  // two attempts
  buffer.Offer(GroupOf("t", {kCompile}), 10);
  RetryRecord record = *buffer.Draw(14);
  CHECK(buffer.stats().MeanAge() == 4);
  REQUIRE(buffer.Report(record.id, GroupOf("t", {kParse, kWrong}, true), 15).ok());
  CHECK(buffer.stats().fill == 1);
  record = *buffer.Draw(20);
  CHECK(record.source == "source 1");  // the new attempt got further than the old one and takes its place
  CHECK(record.verdict == kWrong);
  CHECK(record.attempts == 1);
  REQUIRE(buffer.Report(record.id, GroupOf("t", {kCompile}, true), 21).ok());
  CHECK(buffer.stats().fill == 0);
  CHECK(buffer.stats().given_up == 1);
  buffer.Offer(GroupOf("u", {kCompile}), 30);
  record = *buffer.Draw(31);
  REQUIRE(buffer.Report(record.id, GroupOf("u", {kCompile, PassedAt(1)}, true), 32).ok());
  CHECK(buffer.stats().fill == 0);
  CHECK(buffer.stats().repaired == 1);
  CHECK_THAT(buffer.stats().HitRate(), WithinAbs(1.0 / 3, 1e-12));
  CHECK(buffer.Report(record.id, GroupOf("u", {kCompile}, true), 33).code() == absl::StatusCode::kNotFound);
}

TEST_CASE("A repair group that only our own faults answered costs no attempt", "[sampler]") {
  RetryConfig config = Always();
  config.max_attempts = 1;
  RetryBuffer buffer(config, 1);
  buffer.Offer(GroupOf("t", {kCompile}), 0);
  const RetryRecord record = *buffer.Draw(1);
  REQUIRE(buffer.Report(record.id, GroupOf("t", {kInfra, kInfra}, true), 2).ok());
  CHECK(buffer.Draw(3)->attempts == 0);
}

TEST_CASE("Repair groups are not queued as if they were fresh", "[sampler]") {
  RetryBuffer buffer(Always(), 1);
  buffer.Offer(GroupOf("t", {kCompile}, /*retry=*/true), 0);
  CHECK(buffer.stats().fill == 0);
}

TEST_CASE("Switched off, the buffer keeps and draws nothing", "[sampler]") {
  RetryConfig config = Always();
  config.enabled = false;
  RetryBuffer buffer(config, 1);
  buffer.Offer(GroupOf("t", {kCompile}), 0);
  CHECK_FALSE(buffer.Draw(1).has_value());
  CHECK(buffer.stats() == RetryStats{});
}

TEST_CASE("Drawn records that were not reported come back first after a restore", "[sampler]") {
  RetryBuffer buffer(Always(), 1);
  buffer.Offer(GroupOf("a", {kCompile}), 0);
  buffer.Offer(GroupOf("b", {kCompile}), 0);
  REQUIRE(buffer.Draw(1)->task_id == "a");
  RetryBuffer resumed(Always(), 99);
  REQUIRE(resumed.Restore(buffer.Save()).ok());
  CHECK(resumed.Draw(2)->task_id == "a");
  CHECK(resumed.Draw(2)->task_id == "b");
}

TEST_CASE("A state that was not saved by a buffer is refused and changes nothing", "[sampler]") {
  RetryBuffer buffer(Always(), 1);
  buffer.Offer(GroupOf("a", {kCompile}), 0);
  const std::string before = buffer.Save();
  for (const std::string& bad :
       {std::string(), std::string("{}"), std::string("[1, 2]"), before.substr(0, before.size() / 2)}) {
    CHECK(buffer.Restore(bad).code() == absl::StatusCode::kDataLoss);
  }
  CHECK(buffer.Save() == before);
}

/// One step of a run that never solves its tasks: draws, repairs, offers. Appends what was drawn to `log`.
void Step(RetryBuffer& buffer, int64_t step, std::string& log) {
  for (int slot = 0; slot < 4; ++slot) {
    if (const std::optional<RetryRecord> record = buffer.Draw(step)) {
      log += std::to_string(step) + ":" + record->task_id + "#" + std::to_string(record->id) + " ";
      REQUIRE(buffer.Report(record->id, GroupOf(record->task_id, {kParse, kCompile}, true), step).ok());
    } else {
      buffer.Offer(GroupOf("task " + std::to_string(4 * step + slot), {kRuntime, kParse}), step);
    }
  }
}

TEST_CASE("A run killed with SIGKILL and resumed from its checkpoint draws what an unkilled run draws", "[sampler]") {
  RetryConfig config;
  config.probability = 0.3;
  config.capacity = 16;
  constexpr int64_t kSteps = 60;
  std::string unkilled;
  {
    RetryBuffer buffer(config, 11);
    for (int64_t step = 0; step < kSteps; ++step) Step(buffer, step, unkilled);
  }
  const TempFolder folder = *TempFolder::Create("retry");
  const std::string path = folder.path() + "/state";
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  const pid_t child = fork();
  if (child == 0) {  // a checkpoint after every step: step and log in the first lines
    RetryBuffer buffer(config, 11);
    std::string log;
    for (int64_t step = 0; step < kSteps; ++step) {
      Step(buffer, step, log);
      if (!WriteFileAtomically(path, std::to_string(step) + "\n" + log + "\n" + buffer.Save()).ok()) _exit(1);
      if (write(pipe_fds[1], "x", 1) != 1) _exit(1);
    }
    pause();
  }
  char byte;
  for (int i = 0; i < 20; ++i) REQUIRE(read(pipe_fds[0], &byte, 1) == 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  const std::string saved = *ReadFile(path);
  const size_t first = saved.find('\n');
  const size_t second = saved.find('\n', first + 1);
  std::string log = saved.substr(first + 1, second - first - 1);
  RetryBuffer resumed(config, 12345);
  REQUIRE(resumed.Restore(saved.substr(second + 1)).ok());
  for (int64_t step = std::stoll(saved) + 1; step < kSteps; ++step) Step(resumed, step, log);
  CHECK(log == unkilled);
  CHECK(unkilled.size() > 100);  // the run did draw
}

}  // namespace
}  // namespace hone::rollout

// The quickstart as a user starts it, far smaller: every phase, the files it leaves, and going on after a kill.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/journal.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "tests/support/test_programs.h"

namespace hone {
namespace {

// Rewards that depend on verdicts alone, not on measured time: two runs of one seed are then equal to the bit.
constexpr char kConfig[] = R"(
threads: 1
model: {hidden_size: 64, layers: 2, heads: 2, intermediate_size: 128, vocabulary: 768, context: 1024}
sft: {steps: 80, batch_tokens: 1500}
rl:
  steps: 4
  groups: 2
  group_size: 2
  max_tokens: 200
  checkpoint_every: 1
  exemplars: {enabled: false}
evaluation: {samples: 1}
verifier: {build_slots: 1, lanes: 1}
rewards:
  terms:
    - {name: correct, weight: 1}
    - {name: overlong, weight: 1, max_tokens: 200, cache_tokens: 199}
  turns: {name: single_score}
  advantage: {name: dr_grpo}
)";

SpawnOptions Quickstart(const TempFolder& folder, const std::string& name, const std::vector<std::string>& more = {}) {
  SpawnOptions options;
  options.argv = {TestProgram("hone"), "quickstart", "--config", folder.path() + "/config.yaml", "--runs", folder.path(),
                  "--name", name};
  options.argv.insert(options.argv.end(), more.begin(), more.end());
  return options;
}

std::string WeightsOf(const std::string& run, int step) {
  const auto bytes = ReadFile(absl::StrCat(run, "/checkpoint/rl/step_", absl::Dec(step, absl::kZeroPad8), "/tensors.safetensors"));
  REQUIRE(bytes.ok());
  return Sha256Hex(*bytes);
}

TempFolder FolderWithConfig() {
  auto folder = TempFolder::Create("quickstart-test");
  REQUIRE(folder.ok());
  REQUIRE(WriteFileAtomically(folder->path() + "/config.yaml", kConfig).ok());
  return *std::move(folder);
}

}  // namespace

TEST_CASE("a quickstart leaves all its files, is not overwritten, and killed goes on to the same weights") {
  const TempFolder folder = FolderWithConfig();
  const auto whole = Run(Quickstart(folder, "whole"), absl::Minutes(3));
  REQUIRE(whole.ok());
  INFO(whole->output);
  REQUIRE(whole->exit_code == 0);
  const std::string run = folder.path() + "/whole";
  for (const char* file : {"config.yaml", "policy/tokenizer.json", "evaluation_before.json", "evaluation_after.json",
                           "metrics.jsonl", "phases.json", "report.html"}) {
    INFO(file);
    CHECK(FileExists(run + "/" + file));
  }
  int64_t episodes = 0;
  const auto read = ReadJournal(run + "/journal.jsonl.zst", [&](const Group& group) {
    episodes += static_cast<int64_t>(group.episodes.size());
    return absl::OkStatus();
  });
  REQUIRE(read.ok());
  CHECK(read->groups == 4 * 2);
  CHECK(episodes == 4 * 2 * 2);
  CHECK(WeightsOf(run, 2) != WeightsOf(run, 4));  // something was learned, so that equal weights below mean something

  const auto again = Run(Quickstart(folder, "whole"), absl::Minutes(1));
  REQUIRE(again.ok());
  CHECK(again->exit_code == 2);
  CHECK(absl::StrContains(again->output, "holds a run"));

  auto child = Child::Spawn(Quickstart(folder, "killed"));
  REQUIRE(child.ok());
  const std::string killed = folder.path() + "/killed";
  const SteadyTime deadline = SteadyTime::Now() + absl::Minutes(2);
  while (!FileExists(killed + "/checkpoint/rl/step_00000002/COMMIT") && SteadyTime::Now() < deadline && !child->Ended()) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  child->Kill();

  const auto resumed = Run(Quickstart(folder, "killed", {"--resume"}), absl::Minutes(3));
  REQUIRE(resumed.ok());
  INFO(resumed->output);
  REQUIRE(resumed->exit_code == 0);
  CHECK(WeightsOf(killed, 4) == WeightsOf(run, 4));
}

TEST_CASE("a setting out of range is refused with its range before anything is written") {
  const TempFolder folder = FolderWithConfig();
  const auto result = Run(Quickstart(folder, "run", {"--set", "rl.group_size=1"}), absl::Minutes(1));
  REQUIRE(result.ok());
  CHECK(result->exit_code == 2);
  CHECK(absl::StrContains(result->output, "rl.group_size"));
  CHECK(absl::StrContains(result->output, "[2, 1024]"));
  CHECK_FALSE(FileExists(folder.path() + "/run"));
}

}  // namespace hone

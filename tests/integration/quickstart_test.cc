// The quickstart as a user starts it, far smaller: every phase, the files it leaves, and going on after a kill.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/subprocess.h"
#include "tests/support/hone_runs.h"

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

struct Bench : testing::HoneRuns {
  Bench() : HoneRuns("quickstart-test") { REQUIRE(WriteFileAtomically(Path("config.yaml"), kConfig).ok()); }
  SpawnOptions Quickstart(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"quickstart", "--config", Path("config.yaml"), "--name", name};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Command(arguments);
  }
};

}  // namespace

TEST_CASE("a quickstart leaves all its files, is not overwritten, and killed goes on to the same weights") {
  const Bench bench;
  const RunResult whole = bench.Run(bench.Quickstart("whole"));
  INFO(whole.output);
  REQUIRE(whole.exit_code == 0);
  const std::string run = bench.Path("whole");
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
  CHECK(bench.WeightsHash("whole", 2) != bench.WeightsHash("whole", 4));  // something was learned, so that equal weights below mean something

  const RunResult again = bench.Run(bench.Quickstart("whole"));
  CHECK(again.exit_code == 2);
  CHECK(absl::StrContains(again.output, "holds a run"));

  bench.KillAt(bench.Quickstart("killed"), "killed", 2);
  const RunResult resumed = bench.Run(bench.Quickstart("killed", {"--resume"}));
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(bench.WeightsHash("killed", 4) == bench.WeightsHash("whole", 4));
}

TEST_CASE("a setting out of range is refused with its range before anything is written") {
  const Bench bench;
  const RunResult result = bench.Run(bench.Quickstart("run", {"--set", "rl.group_size=1"}));
  CHECK(result.exit_code == 2);
  CHECK(absl::StrContains(result.output, "rl.group_size"));
  CHECK(absl::StrContains(result.output, "[2, 1024]"));
  CHECK_FALSE(FileExists(bench.Path("run")));
}

}  // namespace hone

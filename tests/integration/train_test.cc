// `hone train` as a user starts it: on the checkpoint of a quickstart, killed and resumed, and on an HF folder.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/subprocess.h"
#include "tests/support/hone_runs.h"

namespace hone {
namespace {

// A policy that has learned nothing: every group fails, so that the retry buffer is always full.
constexpr char kStart[] = R"(
threads: 1
model: {hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64, vocabulary: 768, context: 512}
sft: {steps: 2, batch_tokens: 500}
rl: {steps: 0, max_tokens: 40}
evaluation: {before: false, samples: 1}
verifier: {build_slots: 1, lanes: 1}
)";

// Rewards that depend on length alone, not on measured time: two runs of one seed are then equal to the bit.
constexpr char kTrain[] = R"(
threads: 1
policy: {prompts: program}
tasks: {from: generated}
rl:
  steps: 5
  groups: 3
  group_size: 2
  turns: 2
  lag: 1
  max_tokens: 40
  learning_rate: 0.001
  checkpoint_every: 1
  retry: {probability: 0.7}
evaluation: {before: false, samples: 1}
verifier: {build_slots: 1, lanes: 1}
rewards:
  terms:
    - {name: overlong, weight: 1, max_tokens: 40, cache_tokens: 39}
  turns: {name: discounted_return}
  advantage: {name: dr_grpo}
)";

struct Bench : testing::HoneRuns {
  Bench() : HoneRuns("train-test") {
    REQUIRE(WriteFileAtomically(Path("start.yaml"), kStart).ok());
    REQUIRE(WriteFileAtomically(Path("train.yaml"), kTrain).ok());
  }
  SpawnOptions Train(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", Path("train.yaml"), "--name", name, "--set",
                                          "policy.start=" + Path("start")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Command(arguments);
  }
  std::string Blobs(const std::string& run, int step) const {
    std::string all;
    for (int i = 0; FileExists(absl::StrCat(Checkpoint(run, step), "/blobs/", i)); ++i) {
      all += *ReadFile(absl::StrCat(Checkpoint(run, step), "/blobs/", i)) + "\n";
    }
    return all;
  }
};

struct Kept {
  std::vector<std::string> groups;  // id, whether a retry, ids of the first response
  int retries = 0;
};

Kept GroupsOf(const std::string& path) {
  Kept kept;
  const auto read = ReadJournal(path, [&](const Group& group) {
    std::string line = group.id;
    for (const Episode& episode : group.episodes) {
      absl::StrAppend(&line, episode.retry ? " retry" : " plain");
      for (const int32_t id : episode.turns.front().response_ids) absl::StrAppend(&line, " ", id);
    }
    kept.retries += group.episodes.front().retry ? 1 : 0;
    kept.groups.push_back(line);
    return absl::OkStatus();
  });
  REQUIRE(read.ok());
  return kept;
}

TEST_CASE("hone train goes on from a quickstart's checkpoint and, killed, to the same weights, buffer and groups") {
  const Bench bench;
  const RunResult start = bench.Run(bench.Command({"quickstart", "--config", bench.Path("start.yaml"), "--name", "start"}));
  INFO(start.output);
  REQUIRE(start.exit_code == 0);

  const RunResult whole = bench.Run(bench.Train("whole"));
  INFO(whole.output);
  REQUIRE(whole.exit_code == 0);
  for (const char* file : {"config.yaml", "policy/config.json", "policy/tokenizer.json", "policy/model.safetensors",
                           "evaluation_after.json", "metrics.jsonl", "phases.json", "report.html"}) {
    INFO(file);
    CHECK(FileExists(bench.Path(std::string("whole/") + file)));
  }
  const Kept groups = GroupsOf(bench.Path("whole/journal.jsonl.zst"));
  CHECK(groups.groups.size() == 5 * 3);
  CHECK(groups.retries > 0);  // buffered dynamic retry came to act
  CHECK(bench.WeightsHash("whole", 5) != bench.WeightsHash("whole", 3));

  // What it recorded is what noise-floor reads.
  SpawnOptions floor;
  floor.argv = {TestProgram("hone"), "lab", "noise-floor", bench.Path("whole/log_probs.jsonl.zst")};
  const RunResult measured = bench.Run(floor);
  INFO(measured.output);
  CHECK(measured.exit_code == 0);  // the first two batches are of the policy that learns from the first
  CHECK(absl::StrContains(measured.output, "agree to the bit"));

  // The report can be made again, and the policy sampled without learning.
  REQUIRE(RemoveTree(bench.Path("whole/report.html")).ok());
  SpawnOptions report;
  report.argv = {TestProgram("hone"), "report", bench.Path("whole")};
  CHECK(bench.Run(report).exit_code == 0);
  CHECK(FileExists(bench.Path("whole/report.html")));
  report.argv.back() = bench.Path("nothing");
  CHECK(bench.Run(report).exit_code == 2);
  const RunResult rollout = bench.Run(bench.Command(
      {"rollout", "--name", "samples", "--set", "policy.start=" + bench.Path("whole"), "--set", "policy.prompts=program", "--set",
       "tasks.from=generated", "--set", "limit=2", "--set", "sampling.samples=3", "--set", "max_tokens=40", "--set", "threads=1"}));
  INFO(rollout.output);
  REQUIRE(rollout.exit_code == 0);
  CHECK(GroupsOf(bench.Path("samples/rollout.jsonl.zst")).groups.size() == 2);
  CHECK(FileExists(bench.Path("samples/rollout.json")));

  bench.KillAt(bench.Train("killed"), "killed", 2);
  const RunResult resumed = bench.Run(bench.Command({"train", "--name", "killed", "--resume"}));
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(bench.WeightsHash("killed", 5) == bench.WeightsHash("whole", 5));
  const Kept again = GroupsOf(bench.Path("killed/journal.jsonl.zst"));
  REQUIRE(again.groups.size() >= groups.groups.size());  // those of a step that the kill cut off stand there twice
  CHECK(std::vector<std::string>(again.groups.end() - 6, again.groups.end()) ==
        std::vector<std::string>(groups.groups.end() - 6, groups.groups.end()));
}

TEST_CASE("hone train says in one line what it cannot start from, and writes nothing") {
  const Bench bench;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& reason) {
    const RunResult result = bench.Run(bench.Train("run", more));
    INFO(result.output);
    CHECK(result.exit_code == 2);
    CHECK(absl::StrContains(result.output, reason));
    CHECK_FALSE(FileExists(bench.Path("run")));
  };
  refused({}, "is no HF folder (config.json), no run (config.yaml, policy/) and no checkpoint (COMMIT)");
  refused({"--set", "policy.start="}, "policy.start: has no value");
  refused({"--set", "policy.prompts=letters"}, "policy.prompts");
  refused({"--set", "rl.lag=65"}, "[0, 64]");
  refused({"--set", "rl.filters.chain=[{name: mirrorpup}]"}, "mirrorpop");
  const RunResult without = bench.Run(bench.Command({"train", bench.Path("train.yaml"), "--name", "run"}));
  CHECK(without.exit_code == 2);
  CHECK(absl::StrContains(without.output, "policy.start is not set"));
}

}  // namespace
}  // namespace hone

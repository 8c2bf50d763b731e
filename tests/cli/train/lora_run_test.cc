// `hone train` of an adapter on a chat model, judged by a real verifier: killed, stopped and resumed from its small checkpoint,
// then sampled by `hone rollout` and `hone rft`.

#include "tests/support/catch_torch.h"

#include <fcntl.h>
#include <httplib.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "tests/cli/train/kernel_model.h"
#include "tests/support/free_port.h"
#include "tests/support/hone_runs.h"
#include "tests/support/process_tree.h"
#include "trainer/checkpoint/checkpoint.h"
#include "verifier/client/local_server.h"

namespace hone::cli {
namespace {

using Json = nlohmann::json;

// The reward does not depend on time: runs of one seed are equal to the bit.
constexpr char kTrain[] = R"(
threads: 1
lora: {rank: 4, alpha: 8}
engine: {max_running: 16}
rl:
  steps: 3
  groups: 2
  group_size: 6
  turns: 1
  max_tokens: 8
  learning_rate: 0.01
  kl_coefficient: 0.01
  checkpoint_every: 1
  exemplars: {enabled: false, remeasure_above: 1.0e+9, remeasure_over_best: 1.0e+9}
evaluation: {before: false, after: false}
verifier: {build_slots: 1, lanes: 1}
rewards:
  terms:
    - {name: correct}
  turns: {name: single_score}
)";

struct Bench : testing::HoneRuns {
  Bench() : HoneRuns("lora-run") {
    WriteKernelModel(Path("model"));
    REQUIRE(MakeFolders(Path("tasks")).ok());
    WriteTask(Path("tasks"), "negate", "-x", "train");
    WriteTask(Path("tasks"), "double", "2 * x", "train");
    WriteTask(Path("tasks"), "copy", "x * 1", "held_out");
    REQUIRE(WriteFileAtomically(Path("train.yaml"), kTrain).ok());
  }
  SpawnOptions Train(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"train", Path("train.yaml"), "--name", name, "--set", "policy.start=" + Path("model"),
                                          "--set", "tasks.from=" + Path("tasks")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Command(arguments);
  }
  SpawnOptions Sample(const std::string& command, const std::string& name, std::vector<std::string> more) const {
    std::vector<std::string> arguments = {command, "--name", name, "--set", "policy.start=" + Path("whole"), "--set",
                                          "tasks.from=" + Path("tasks"), "--set", "max_tokens=8", "--set", "threads=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Command(arguments);
  }
};

struct Judged {
  int groups = 0, right = 0, samples = 0;
};

Judged Read(const std::string& path) {
  Judged judged;
  REQUIRE(ReadJournal(path, [&](const Group& group) {
            ++judged.groups;
            for (const Episode& episode : group.episodes) {
              ++judged.samples;
              judged.right += episode.turns[0].verdict.ok() ? 1 : 0;
            }
            return absl::OkStatus();
          }).ok());
  return judged;
}

TEST_CASE("An adapter is trained on a chat model's verdicts, from checkpoints without the model, and sampled with it", "[cli][train]") {
  const Bench bench;
  const RunResult whole = bench.Run(bench.Train("whole"));
  INFO(whole.output);
  REQUIRE(whole.exit_code == 0);
  CHECK(whole.output.find("no held-out tasks were evaluated") != std::string::npos);

  // The run learned from real verdicts of both kinds.
  const Judged judged = Read(bench.Path("whole/journal.jsonl.zst"));
  CHECK(judged.groups == 6);
  CHECK(judged.right > 0);
  CHECK(judged.right < judged.samples);
  const std::string metrics = *ReadFile(bench.Path("whole/metrics.jsonl"));
  for (const char* name : {"seconds/generate", "seconds/judging", "share/generate", "verify/build_busy", "learn/kl",
                           "learn/mismatch_abs_log_ratio", "learn/rejected_share", "learn/entropy", "learn/tflops", "reward/part/correct"}) {
    INFO(name);
    CHECK(absl::StrContains(metrics, name));
  }

  // What it keeps is the adapter: no weight of the model, and all of PEFT's.
  CHECK(FileExists(bench.Path("whole/adapter/adapter_model.safetensors")));
  CHECK_FALSE(FileExists(bench.Path("whole/policy/model.safetensors")));
  const trainer::CheckpointData data = trainer::LoadCheckpoint(bench.Checkpoint("whole", 3)).value();
  for (const auto& [name, tensor] : data.tensors) {
    INFO(name);
    CHECK_FALSE(absl::StartsWith(name, "model/"));
  }
  CHECK(bench.WeightsHash("whole", 3) != bench.WeightsHash("whole", 1));

  // Killed, stopped by the clock before another step, and gone on with: here and below beside one verifier, whose start is most
  // of a short run's time.
  verifier::LocalServerOptions server;
  server.program = TestProgram("hone-verifier");
  server.extra_args = {"--set=build_slots=1", "--set=lanes=1"};
  const auto verifier = verifier::LocalServer::Start(server).value();
  const std::string endpoint = "verifier.endpoint=" + verifier->endpoint();
  bench.KillAt(bench.Train("killed", {"--set", endpoint}), "killed", 1);
  const RunResult stopped = bench.Run(bench.Command({"train", "--name", "killed", "--resume", "--max-seconds", "0.01"}));
  INFO(stopped.output);
  CHECK(stopped.exit_code == 0);
  CHECK(absl::StrContains(stopped.output, "stopped"));
  CHECK_FALSE(FileExists(bench.Checkpoint("killed", 3) + "/COMMIT"));
  CHECK(FileExists(bench.Path("killed/adapter/adapter_config.json")));
  const RunResult resumed = bench.Run(bench.Command({"train", "--name", "killed", "--resume"}));
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(bench.WeightsHash("killed", 3) == bench.WeightsHash("whole", 3));

  // Sampled with its adapter, not without.
  const RunResult rollout = bench.Run(bench.Sample("rollout", "samples", {"--set", endpoint, "--set", "sampling.samples=8"}));
  INFO(rollout.output);
  REQUIRE(rollout.exit_code == 0);
  const Judged sampled = Read(bench.Path("samples/rollout.jsonl.zst"));
  CHECK(sampled.groups == 1);
  CHECK(sampled.samples == 8);

  // Right answers become a data set that names where they came from.
  const RunResult rft = bench.Run(bench.Sample("rft", "draw", {"--set", endpoint, "--set", "rounds=1", "--set", "tasks_per_round=2", "--set", "samples=12"}));
  INFO(rft.output);
  REQUIRE(rft.exit_code == 0);
  const Json figures = Json::parse(*ReadFile(bench.Path("draw/rft.json")));
  CHECK(figures["samples"] == 24);
  CHECK(figures["right"].get<int>() > 0);
  CHECK(figures["lines"].get<int>() > 0);
  const std::string dataset = *ReadFile(bench.Path("draw/dataset.jsonl"));
  const Json line = Json::parse(dataset.substr(0, dataset.find('\n')));
  CHECK(absl::StrContains(line["source"].get<std::string>(), "launch("));
}

TEST_CASE("A run whose verifier stands still says what it waits for and goes on with it, and Prometheus reads its figures meanwhile",
          "[cli][train]") {
  const Bench bench;
  const int port = FreePort();
  const std::string said = bench.Path("stderr");
  const UniqueFd to(open(said.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  SpawnOptions options = bench.Train("stuck", {"--set", "rl.patience_s=1", "--set", absl::StrCat("metrics=127.0.0.1:", port)});
  options.pass_fds = {{to.get(), 2}};
  absl::StatusOr<Child> child = Child::Spawn(options);
  REQUIRE(child.ok());
  const SteadyTime deadline = SteadyTime::Now() + absl::Minutes(2);
  const auto await = [&](const std::function<bool()>& seen) {
    while (!seen() && SteadyTime::Now() < deadline && !child->Ended()) absl::SleepFor(absl::Milliseconds(5));
    return seen();
  };
  REQUIRE(await([&] { return FileExists(bench.Checkpoint("stuck", 1) + "/COMMIT"); }));
  const std::vector<pid_t> verifier = DescendantsWith(child->pid(), "hone-verifier");
  REQUIRE(!verifier.empty());
  for (const pid_t pid : verifier) kill(pid, SIGSTOP);
  const bool told = await([&] {
    const std::string text = *ReadFile(said);
    return absl::StrContains(text, "waiting for: step") && absl::StrContains(text, " verdicts of turn 1\n");
  });
  const auto scraped = httplib::Client("127.0.0.1", port).Get("/metrics");
  for (const pid_t pid : verifier) kill(pid, SIGCONT);
  INFO(*ReadFile(said));
  CHECK(told);
  CHECK(absl::StrContains(*ReadFile(said), "  thread "));
  CHECK(*child->Wait(deadline) == 0);
  REQUIRE(scraped);
  for (const char* figure : {"hone_run_learn_loss ", "hone_run_reward_mean ", "hone_run_verdict{kind=\"", "hone_run_seconds{kind=\"learn\"} ",
                             "hone_run_correct_first_turn ", "hone_run_reward_part{kind=\"correct\"} "}) {
    INFO(figure << scraped->body);
    CHECK(absl::StrContains(scraped->body, figure));
  }
}

// docs/metrics.md names what a run writes: every figure that this one writes is there.
TEST_CASE("docs/metrics.md has every figure of a run", "[cli][train]") {
  const Bench bench;
  const RunResult run = bench.Run(bench.Train("run", {"--set", "rl.steps=2", "--set", "rl.filters.chain=[{name: mirrorpop}]"}));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const std::string text = *ReadFile(HONE_SOURCE_FOLDER "/docs/metrics.md");
  std::istringstream lines(*ReadFile(bench.Path("run/metrics.jsonl")));
  int figures = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line);
    for (const auto& [name, value] : record.items()) {
      INFO(name);
      const size_t slash = name.rfind('/');
      const bool kind = absl::StrContains(text, absl::StrCat("`", name.substr(0, slash), "/<"));
      CHECK((name == "step" || name == "time" || kind || absl::StrContains(text, absl::StrCat("`", name, "`"))));
      ++figures;
    }
  }
  CHECK(figures > 60);
}

TEST_CASE("An adapter of another rank, half precision on a CPU and a reference without an adapter are refused", "[cli][train]") {
  const Bench bench;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& reason) {
    const RunResult result = bench.Run(bench.Train("run", more));
    INFO(result.output);
    CHECK(result.exit_code == 2);
    CHECK(absl::StrContains(result.output, reason));
    CHECK_FALSE(FileExists(bench.Path("run")));
  };
  refused({"--set", "device.dtype=bf16"}, "device.dtype");
  refused({"--set", "lora.rank=0"}, "rl.kl_coefficient");
  refused({"--set", "policy.adapter=" + bench.Path("nowhere")}, "nowhere/adapter_config.json");
  refused({"--set", "rl.overlap=true"}, "rl.lag");
  const std::vector<std::string> one_gpu = {"--set", "device.device=cuda", "--set", "verifier.devices=[cuda:0]", "--set"};
  const auto on_one_gpu = [&](std::vector<std::string> more) {
    more.insert(more.begin(), one_gpu.begin(), one_gpu.end());
    return more;
  };
  refused(on_one_gpu({"rl.lag=1", "--set", "rl.overlap=true"}), "overlap: learning would run on the GPU that times candidates");
}

}  // namespace
}  // namespace hone::cli

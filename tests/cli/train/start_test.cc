#include "tests/cli/train/hf_folder.h"

#include <filesystem>

#include "absl/time/time.h"
#include "base/subprocess.h"
#include "cli/train/phases.h"
#include "cli/train/start.h"
#include "tests/support/test_programs.h"
#include "trainer/checkpoint/checkpoint.h"

namespace hone::cli {
namespace {

using Catch::Matchers::ContainsSubstring;

at::Tensor WeightsOf(const StartingPolicy& start) { return start.decoder->parameters().flat().clone(); }

/// A run's folder around the chat model: checkpoints whose weights are all `value`.
void WriteCheckpoint(const std::string& run, const std::string& phase, int64_t step, double value) {
  auto decoder = policy::LoadHfFolder(run + "/policy").value();
  trainer::CheckpointData data;
  data.step = step;
  for (const policy::NamedTensor& named : decoder->parameters().named()) {
    data.tensors.emplace_back("model/" + named.name, at::full_like(named.tensor, value));
  }
  REQUIRE(trainer::Checkpointer::Create({.folder = run + "/checkpoint/" + phase}).value()->Save(data).ok());
}

double ValueOf(const StartingPolicy& start) { return start.decoder->parameters().named()[0].tensor.flatten()[0].item<double>(); }

TEST_CASE("A policy starts from an HF folder, a run's newest checkpoint, or the checkpoint named", "[cli][train]") {
  const TempFolder folder = *TempFolder::Create("start");
  const std::string run = folder.path() + "/run";
  WriteChatModel(run + "/policy", 64);
  const StartingPolicy hf = LoadStart(run + "/policy/").value();
  CHECK(at::equal(WeightsOf(hf), policy::LoadHfFolder(run + "/policy").value()->parameters().flat()));

  CHECK(LoadStart(run).status().code() == absl::StatusCode::kNotFound);  // no config.yaml: not a run
  REQUIRE(WriteFileAtomically(run + "/config.yaml", "seed: 1\n").ok());
  CHECK(at::equal(WeightsOf(LoadStart(run).value()), WeightsOf(hf)));
  WriteCheckpoint(run, "sft", 7, 0.25);
  CHECK(ValueOf(LoadStart(run).value()) == 0.25);
  WriteCheckpoint(run, "rl", 3, 0.5);
  WriteCheckpoint(run, "rl", 12, 0.75);
  CHECK(ValueOf(LoadStart(run).value()) == 0.75);
  const StartingPolicy earlier = LoadStart(run + "/checkpoint/rl/step_00000003").value();
  CHECK(ValueOf(earlier) == 0.5);
  CHECK(earlier.folder == run + "/policy");
}

TEST_CASE("While one process is at work on a run, a second one is refused, and leaves everything as it is", "[cli][train]") {
  const TempFolder folder = *TempFolder::Create("start");
  const std::string run = folder.path() + "/run";
  {
    const absl::StatusOr<RunFolder> first = RunFolder::Create(run, "seed: 1\n", /*resume=*/false);
    REQUIRE(first.ok());
    for (const bool resume : {false, true}) {
      const absl::Status second = RunFolder::Create(run, "seed: 2\n", resume).status();
      CHECK(second.code() == absl::StatusCode::kFailedPrecondition);
      CHECK(second.message() == run + ": another process is at work on this run");
    }
    CHECK(ReadFile(run + "/config.yaml").value() == "seed: 1\n");
  }
  CHECK(RunFolder::Create(run, "", /*resume=*/true).ok());
  REQUIRE(WriteFileAtomically(run + "/metrics.jsonl", "{}\n").ok());
  CHECK(RunFolder::Create(run, "", /*resume=*/false).status().code() == absl::StatusCode::kAlreadyExists);
  CHECK(RunFolder::Create(folder.path() + "/none", "", /*resume=*/true).status().code() == absl::StatusCode::kNotFound);
  CHECK(!FileExists(folder.path() + "/none"));
}

TEST_CASE("A run that failed before anything came of it leaves its name free, and nothing of its own", "[cli][train]") {
  const TempFolder folder = *TempFolder::Create("start");
  const std::string run = folder.path() + "/run";
  REQUIRE(RunFolder::Create(run, "seed: 1\n", /*resume=*/false).ok());
  WriteChatModel(run + "/policy", 64);
  for (const char* kept : {"/policy/model.safetensors", "/journal.jsonl.zst", "/checkpoint", "/metrics.jsonl", "/evaluation_before.json"}) {
    INFO(kept);
    REQUIRE(WriteFileAtomically(run + kept, "x").ok());
    CHECK(RunFolder::Create(run, "seed: 2\n", /*resume=*/false).status().code() == absl::StatusCode::kAlreadyExists);
    CHECK(ReadFile(run + "/config.yaml").value() == "seed: 1\n");
    std::filesystem::remove(run + kept);
  }
  CHECK(RunFolder::Create(run, "seed: 2\n", /*resume=*/false).ok());
  CHECK(ReadFile(run + "/config.yaml").value() == "seed: 2\n");
  CHECK(!FileExists(run + "/policy/config.json"));
}

TEST_CASE("The other ranks of a job work in the folder of the first and leave its phases alone", "[cli][train]") {
  const TempFolder folder = *TempFolder::Create("start");
  const std::string run = folder.path() + "/run";
  RunFolder first = RunFolder::Create(run, "seed: 1\n", /*resume=*/false).value();
  RunFolder other = RunFolder::Join(run);
  const auto work = [] { return absl::OkStatus(); };
  REQUIRE(other.Timed("learn", work).ok());
  CHECK(!FileExists(run + "/phases.json"));
  REQUIRE(first.Timed("learn", work).ok());
  CHECK_THAT(ReadFile(run + "/phases.json").value(), ContainsSubstring("\"learn\""));
}

TEST_CASE("A damaged checkpoint and one of another model are refused by file and tensor", "[cli][train]") {
  const TempFolder folder = *TempFolder::Create("start");
  const std::string run = folder.path() + "/run";
  WriteChatModel(run + "/policy", 64);
  trainer::CheckpointData other;
  other.step = 1;
  other.tensors.emplace_back("model/nobody.weight", at::ones({2}));
  REQUIRE(trainer::Checkpointer::Create({.folder = run + "/checkpoint/rl"}).value()->Save(other).ok());
  CHECK_THAT(std::string(LoadStart(run + "/checkpoint/rl/step_00000001").status().message()), ContainsSubstring("nobody.weight"));
  WriteCheckpoint(run, "sft", 1, 0.5);
  const std::string path = run + "/checkpoint/sft/step_00000001";
  REQUIRE(WriteFileAtomically(path + "/tensors.safetensors", "cut").ok());
  const absl::Status damaged = LoadStart(path).status();
  CHECK(damaged.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(damaged.message()), ContainsSubstring("tensors.safetensors"));
}

TEST_CASE("hone train runs on a chat model out of an HF folder and on tasks out of files", "[cli][train]") {
  const std::string hone = TestProgram("hone");
  if (hone.empty()) SKIP("no build of hone here");
  const TempFolder folder = *TempFolder::Create("start");
  WriteChatModel(folder.path() + "/model", 4096);
  for (const char* split : {"train", "held_out"}) {
    REQUIRE(MakeFolders(folder.path() + "/tasks").ok());
    REQUIRE(WriteFileAtomically(folder.path() + "/tasks/" + split + ".py",
                                std::string("# ---\n# id: double_") + split + "\n# split: " + split +
                                    "\n# ---\nimport torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
                                    "        return 2 * x\ndef get_inputs():\n    return [torch.randn(64)]\n"
                                    "def get_init_inputs():\n    return []\n")
                .ok());
  }
  SpawnOptions options;
  options.argv = {hone, "train", "--runs", folder.path(), "--name", "run"};
  for (const std::string& setting :
       {"policy.start=" + folder.path() + "/model", "tasks.from=" + folder.path() + "/tasks", std::string("threads=1"),
        std::string("rl.steps=1"), std::string("rl.groups=1"), std::string("rl.group_size=2"), std::string("rl.max_tokens=8"),
        std::string("rl.turns=2"), std::string("evaluation.samples=1"), std::string("verifier.build_slots=1")}) {
    options.argv.insert(options.argv.end(), {"--set", setting});
  }
  const auto result = Run(options, absl::Minutes(2));
  REQUIRE(result.ok());
  INFO(result->output);
  REQUIRE(result->exit_code == 0);
  for (const char* file : {"policy/model.safetensors", "policy/tokenizer_config.json", "evaluation_before.json", "report.html"}) {
    CHECK(FileExists(folder.path() + "/run/" + file));
  }
  const StartingPolicy trained = LoadStart(folder.path() + "/run").value();
  CHECK(trained.decoder->config().max_position_embeddings == 4096);
}

}  // namespace
}  // namespace hone::cli

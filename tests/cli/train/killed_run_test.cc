// Runs that are killed in each of their phases, one after another, and go on: what they leave is what a run leaves that
// nobody touched, to the bit.

#include "tests/support/catch_torch.h"

#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/journal.h"
#include "base/subprocess.h"
#include "policy/model/lora.h"
#include "tests/cli/train/hf_folder.h"
#include "tests/cli/train/kernel_model.h"
#include "tests/support/test_programs.h"
#include "trainer/checkpoint/checkpoint.h"
#include "verifier/client/local_server.h"

namespace hone::cli {
namespace {

using Json = nlohmann::json;

struct Kill {
  const char* phase;
  const char* count;
};

// The reward does not depend on time, and every kind of state is in use: an adapter, a reference, a lag, the retry buffer.
constexpr char kTrain[] = R"(
threads: 1
lora: {rank: 4, alpha: 8}
engine: {max_running: 16}
rl:
  steps: 5
  groups: 2
  group_size: 4
  turns: 1
  lag: 1
  max_tokens: 8
  learning_rate: 0.01
  kl_coefficient: 0.01
  checkpoint_every: 1
  exemplars: {enabled: false, remeasure_above: 1.0e+9, remeasure_over_best: 1.0e+9}
evaluation: {before: false, after: false}
rewards:
  terms:
    - {name: correct}
  turns: {name: single_score}
)";

RunResult Start(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HONE_KILLED_TRAIN_RUN);
  return Run({.argv = std::move(arguments)}, absl::Minutes(2)).value();
}

std::string Checkpoint(const std::string& folder, int step) {
  return absl::StrCat(folder, "/step_", absl::Dec(step, absl::kZeroPad8));
}
// Weights, optimiser, generator and counters. What is left out, the buffers, keeps how long verdicts took.
std::string HashOf(const std::string& checkpoint) {
  return Sha256Hex(*ReadFile(checkpoint + "/tensors.safetensors") + *ReadFile(checkpoint + "/state.json"));
}

// Kills a run in each phase, going on in between, and lets it come to its end.
void KillInEach(const std::string& what, const std::string& config, const std::string& folder, const std::vector<Kill>& kills) {
  for (const Kill& kill : kills) {
    INFO(what << " killed in: " << kill.phase);
    const RunResult result = Start({what, config, folder, kill.phase, kill.count});
    INFO(result.output);
    REQUIRE(result.exit_code == 128 + SIGKILL);
  }
  const RunResult last = Start({what, config, folder});
  INFO(last.output);
  REQUIRE(last.exit_code == 0);
}

// Group id -> the last one of that name: those of a step that was cut off stand in the journal again.
std::map<std::string, std::vector<std::vector<int32_t>>> Answers(const std::string& journal) {
  std::map<std::string, std::vector<std::vector<int32_t>>> groups;
  REQUIRE(ReadJournal(journal, [&](const Group& group) {
            std::vector<std::vector<int32_t>>& answers = groups[group.id];
            answers.clear();
            for (const Episode& episode : group.episodes) answers.push_back(episode.turns[0].response_ids);
            return absl::OkStatus();
          }).ok());
  return groups;
}

TEST_CASE("hone train killed while it generates, verifies, rewards, learns and writes goes on to the same bits, its adapter with it",
          "[cli][train]") {
  const std::string program = TestProgram("hone-verifier");
  if (program.empty()) SKIP("no build of hone-verifier here");
  const TempFolder temp = *TempFolder::Create("killed");
  const auto path = [&](const std::string& name) { return temp.path() + "/" + name; };
  WriteKernelModel(path("model"));
  REQUIRE(MakeFolders(path("tasks")).ok());
  WriteTask(path("tasks"), "negate", "-x", "train");
  WriteTask(path("tasks"), "double", "2 * x", "train");
  verifier::LocalServerOptions server;
  server.program = program;
  server.extra_args = {"--set", "build_slots=2", "--set", "lanes=1"};
  const auto verifier = verifier::LocalServer::Start(server);
  REQUIRE(verifier.ok());
  REQUIRE(WriteFileAtomically(path("train.yaml"), absl::StrCat(kTrain, "policy: {start: ", path("model"), "}\ntasks: {from: ", path("tasks"),
                                                               "}\nverifier: {endpoint: \"", (*verifier)->endpoint(), "\"}\n"))
              .ok());
  const RunResult whole = Start({"train", path("train.yaml"), path("whole")});
  INFO(whole.output);
  REQUIRE(whole.exit_code == 0);

  // Counts of 2 let a step and its checkpoint come first.
  KillInEach("train", path("train.yaml"), path("killed"),
             {{"self-test", "2"}, {" answers of turn 1", "1"}, {" answers of turn 1", "2"}, {" verdicts of turn 1", "1"},
              {"the journal", "1"}, {"the rewards", "1"}, {"scoring", "1"}, {"a forward pass", "1"}, {"a backward pass", "1"},
              {"the optimiser", "1"}, {"a checkpoint", "1"}, {"writing a checkpoint: tensors.safetensors", "1"},
              {"writing a checkpoint: blobs/0", "1"}, {"writing a checkpoint: state.json", "1"}, {"writing a checkpoint: COMMIT", "1"},
              {"writing a checkpoint: rename", "2"}});
  CHECK(HashOf(Checkpoint(path("killed/checkpoint/rl"), 5)) == HashOf(Checkpoint(path("whole/checkpoint/rl"), 5)));
  CHECK(*ReadFile(path("killed/adapter/adapter_model.safetensors")) == *ReadFile(path("whole/adapter/adapter_model.safetensors")));
  CHECK(HashOf(Checkpoint(path("whole/checkpoint/rl"), 5)) != HashOf(Checkpoint(path("whole/checkpoint/rl"), 4)));
  const auto answers = Answers(path("whole/journal.jsonl.zst"));
  CHECK(answers.size() == 10);
  CHECK(Answers(path("killed/journal.jsonl.zst")) == answers);
}

TEST_CASE("A run of an adapter that is killed leaves the adapter of its newest checkpoint, or of the one before", "[cli][train]") {
  const TempFolder temp = *TempFolder::Create("adapter");
  const auto path = [&](const std::string& name) { return temp.path() + "/" + name; };
  WriteChatModel(path("model"), 512);
  std::ofstream data(path("data.jsonl"));
  for (int i = 0; i < 8; ++i) data << Json{{"prompt", "user " + std::to_string(i)}, {"response", "launch " + std::to_string(i)}}.dump() << "\n";
  data.close();
  REQUIRE(WriteFileAtomically(path("sft.yaml"), absl::StrCat("start: ", path("model"), "\ndata: ", path("data.jsonl"),
                                                             "\nthreads: 1\nsteps: 6\nbatch: 4\nlearning_rate: 0.02\ncheckpoint_every: 1\n"
                                                             "lora: {rank: 4, alpha: 8}\n"))
              .ok());
  REQUIRE(Start({"sft", path("sft.yaml"), path("whole")}).exit_code == 0);
  // The adapter in the checkpoint of a step, as the run keeps it.
  const auto kept = [&](int step) {
    std::map<std::string, at::Tensor> tensors;
    const trainer::CheckpointData data = trainer::LoadCheckpoint(Checkpoint(path("cut/checkpoint/sft"), step)).value();
    for (const auto& [name, tensor] : data.tensors) {
      if (name.rfind("lora/", 0) == 0) tensors.emplace(name.substr(5), tensor);
    }
    return tensors;
  };
  const auto config = policy::LoadHfFolder(path("model")).value()->config();
  for (const auto& [phase, step] : {std::pair<const char*, int>{"step 3", 3}, {"writing a checkpoint: COMMIT", 4}}) {
    INFO(phase);
    const std::string count = std::string(phase) == "step 3" ? "1" : "2";
    REQUIRE(Start({"sft", path("sft.yaml"), path("cut"), phase, count}).exit_code == 128 + SIGKILL);
    const auto adapter = policy::Lora::Load(config, path("cut/adapter"), at::TensorOptions(at::kFloat)).value();
    const auto wanted = kept(step);
    CHECK(wanted.size() == adapter->named().size());
    for (const policy::NamedTensor& named : adapter->named()) CHECK(at::equal(named.tensor, wanted.at(named.name)));
  }
  REQUIRE(Start({"sft", path("sft.yaml"), path("cut")}).exit_code == 0);
  CHECK(*ReadFile(path("cut/adapter/adapter_model.safetensors")) == *ReadFile(path("whole/adapter/adapter_model.safetensors")));
}

TEST_CASE("hone sft killed in a forward pass, a backward pass, the optimiser and a checkpoint goes on to the same bits", "[cli][sft]") {
  const TempFolder temp = *TempFolder::Create("killed-sft");
  const auto path = [&](const std::string& name) { return temp.path() + "/" + name; };
  WriteChatModel(path("model"), 512);
  std::ofstream data(path("data.jsonl"));
  for (int i = 0; i < 8; ++i) data << Json{{"prompt", "user " + std::to_string(i)}, {"response", "launch " + std::to_string(i)}}.dump() << "\n";
  data.close();
  REQUIRE(WriteFileAtomically(path("sft.yaml"), absl::StrCat("start: ", path("model"), "\ndata: ", path("data.jsonl"),
                                                             "\nthreads: 1\nsteps: 8\nbatch: 3\nlearning_rate: 0.02\ncheckpoint_every: 1\n"))
              .ok());
  REQUIRE(Start({"sft", path("sft.yaml"), path("whole")}).exit_code == 0);
  KillInEach("sft", path("sft.yaml"), path("cut"),
             {{"a forward pass", "2"}, {"a backward pass", "2"}, {"the optimiser", "2"}, {"writing a checkpoint: tensors", "1"},
              {"writing a checkpoint: state.json", "1"}, {"writing a checkpoint: COMMIT", "1"}, {"writing a checkpoint: rename", "2"}});
  CHECK(*ReadFile(path("cut/policy/model.safetensors")) == *ReadFile(path("whole/policy/model.safetensors")));
  CHECK(HashOf(Checkpoint(path("cut/checkpoint/sft"), 8)) == HashOf(Checkpoint(path("whole/checkpoint/sft"), 8)));
  CHECK(HashOf(Checkpoint(path("whole/checkpoint/sft"), 7)) != HashOf(Checkpoint(path("whole/checkpoint/sft"), 8)));
}

}  // namespace
}  // namespace hone::cli

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/config.h"
#include "base/journal.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "cli/train/rft.h"
#include "cli/train/sft.h"
#include "policy/model/hf_folder.h"
#include "policy/model/lora.h"
#include "tests/cli/train/hf_folder.h"
#include "tests/support/free_port.h"
#include "tests/support/test_programs.h"

namespace hone::cli {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

// A small model and a data set of ten answers.
struct Setting {
  TempFolder folder = *TempFolder::Create("sft");
  SftConfig config;

  Setting() {
    WriteChatModel(folder.path() + "/model", 512);
    std::ofstream data(folder.path() + "/data.jsonl");
    for (int i = 0; i < 10; ++i) {
      data << Json{{"messages",
                    {{{"role", "user"}, {"content", "task " + std::to_string(i)}},
                     {{"role", "assistant"}, {"content", "__global__ void k() { x = " + std::to_string(i) + "; }"}}}}}
                  .dump()
           << "\n";
    }
    data.close();
    config.start = folder.path() + "/model";
    config.data = folder.path() + "/data.jsonl";
    config.epochs = 8;
    config.batch = 4;
    config.learning_rate = 0.02;
    config.held_out = 0.2;
    config.checkpoint_every = 5;
    config.threads = 1;
  }
  std::string Run(const std::string& name) const { return folder.path() + "/" + name; }
  Json Figures(const std::string& name) const { return Json::parse(ReadFile(Run(name) + "/sft.json").value()); }
};

at::Tensor Weights(const std::string& folder) { return policy::LoadHfFolder(folder).value()->parameters().flat(); }

TEST_CASE("hone sft learns its examples, measures held-out ones and writes an HF folder", "[cli][sft]") {
  Setting s;
  for (const char* objective : {"plain", "cuset"}) {
    INFO(objective);
    s.config.objective.name = objective;
    REQUIRE(RunSft(s.config, s.Run(objective), false).message() == "");
    const Json figures = s.Figures(objective);
    CHECK(figures["examples"] == 8);
    CHECK(figures["held_out"] == 2);
    CHECK(figures["steps"] == 16);
    CHECK(figures["held_out_nll_after"].get<double>() < 0.7 * figures["held_out_nll_before"].get<double>());
    CHECK_FALSE(at::equal(Weights(s.Run(objective) + "/policy"), Weights(s.config.start)));
  }
}

TEST_CASE("A run that was stopped goes on to the same weights", "[cli][sft]") {
  Setting s;
  REQUIRE(RunSft(s.config, s.Run("whole"), false).ok());
  SftConfig part = s.config;
  part.steps = 16;  // the schedule's length is the run's
  REQUIRE(RunSft(part, s.Run("cut"), false).ok());
  // As if killed after the checkpoint of step 15: the newest checkpoint and what came of it are gone.
  REQUIRE(RemoveTree(s.Run("cut") + "/checkpoint/sft/step_00000016").ok());
  REQUIRE(RunSft(part, s.Run("cut"), /*resume=*/true).ok());
  CHECK(at::equal(Weights(s.Run("cut") + "/policy"), Weights(s.Run("whole") + "/policy")));
  CHECK(RunSft(s.config, s.Run("whole"), false).code() == absl::StatusCode::kAlreadyExists);
}

// `hone sft` on so many ranks; 1: without ranks.
void RunOnRanks(int ranks, const std::string& config, const std::string& runs, const std::vector<std::string>& more) {
  const int port = FreePort();
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    SpawnOptions options;
    options.argv = {TestProgram("hone"), "sft", config, "--name", "run", "--runs", runs};
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    if (ranks > 1) {
      options.environment = {absl::StrCat("RANK=", rank), absl::StrCat("LOCAL_RANK=", rank), absl::StrCat("WORLD_SIZE=", ranks),
                             "MASTER_ADDR=127.0.0.1", absl::StrCat("MASTER_PORT=", port)};
    }
    options.pass_fds = {{2, 2}};
    children.push_back(*Child::Spawn(options));
  }
  for (Child& child : children) REQUIRE(*child.Wait(SteadyTime::Now() + absl::Minutes(2)) == 0);
}

TEST_CASE("A run goes on with another number of ranks, to and from none, up to the order of sums", "[cli][sft]") {
  if (TestProgram("hone").empty()) SKIP("no build of hone here");
  Setting s;
  for (const int64_t rank : {0, 4}) {
    INFO("lora.rank " << rank);
    s.config.lora.rank = rank;
    const std::string config = s.Run("config.yaml");
    REQUIRE(WriteFileAtomically(config, ToYaml(s.config)).ok());
    const auto weights = [&](const std::string& runs) {
      if (rank == 0) return Weights(runs + "/run/policy");
      const auto model = policy::LoadHfFolder(s.config.start).value();
      std::vector<at::Tensor> all;
      const auto adapter = policy::Lora::Load(model->config(), runs + "/run/adapter", at::TensorOptions(at::kFloat)).value();
      for (const policy::NamedTensor& named : adapter->named()) all.push_back(named.tensor.flatten());
      return at::cat(all);
    };
    const std::string whole = s.Run(absl::StrCat("whole", rank));
    RunOnRanks(1, config, whole, {});
    const at::Tensor wanted = weights(whole);
    for (const auto& [before, after] : {std::pair{2, 1}, {1, 2}, {2, 3}}) {
      INFO(before << " ranks, then " << after);
      const std::string runs = s.Run(absl::StrCat("cut", rank, before, after));
      RunOnRanks(before, config, runs, {});
      CHECK(((weights(runs) - wanted).norm() / wanted.norm()).item<double>() < 1e-3);
      // As if killed after the checkpoint of step 15: what came later is gone.
      const std::string checkpoints = runs + "/run/checkpoint/sft/";
      for (int r = 0; r < before; ++r) {
        REQUIRE(RemoveTree(before == 1 ? checkpoints + "step_00000016" : absl::StrCat(checkpoints, "rank_", r, "_of_", before, "/step_00000016")).ok());
      }
      REQUIRE(RemoveTree(runs + "/run/sft.json").ok());
      RunOnRanks(after, config, runs, {"--resume"});
      CHECK(((weights(runs) - wanted).norm() / wanted.norm()).item<double>() < 1e-3);
      std::istringstream lines(*ReadFile(runs + "/run/metrics.jsonl"));
      std::vector<int> steps;
      for (std::string line; std::getline(lines, line);) steps.push_back(Json::parse(line).at("step"));
      REQUIRE(steps.size() == 17);  // the last one twice, and none else
      CHECK(steps.back() == 15);
    }
  }
}

TEST_CASE("With lora.rank the adapter is written in PEFT's format and the model stays as it was", "[cli][sft]") {
  Setting s;
  s.config.lora.rank = 4;
  s.config.lora.alpha = 8;
  REQUIRE(RunSft(s.config, s.Run("lora"), false).message() == "");
  const auto decoder = policy::LoadHfFolder(s.config.start).value();
  const auto lora =
      policy::Lora::Load(decoder->config(), s.Run("lora") + "/adapter", at::TensorOptions(at::kFloat)).value();
  CHECK(lora->options().rank == 4);
  CHECK(s.Figures("lora")["held_out_nll_after"].get<double>() < s.Figures("lora")["held_out_nll_before"].get<double>());
  CHECK_FALSE(FileExists(s.Run("lora") + "/policy/model.safetensors"));
}

TEST_CASE("What cannot be trained on is refused in one line", "[cli][sft]") {
  Setting s;
  SftConfig config = s.config;
  config.max_length = 4;
  CHECK_THAT(std::string(RunSft(config, s.Run("a"), false).message()),
             ContainsSubstring("no example of at most 4 tokens is left to train on"));
  config = s.config;
  config.data = "";
  CHECK(RunSft(config, s.Run("b"), false).message() == "data is not set");
  std::ofstream(s.folder.path() + "/bad.jsonl") << "{\"prompt\": 1}\n";
  config.data = s.folder.path() + "/bad.jsonl";
  CHECK_THAT(std::string(RunSft(config, s.Run("c"), false).message()), ContainsSubstring("bad.jsonl:1: "));
  config = s.config;
  config.device.device = "gpu";
  CHECK(RunSft(config, s.Run("d"), false).message() == "device \"gpu\", allowed cpu, cuda or cuda:<n>");
}

Turn Answer(const std::string& source, VerdictStatus status, double speedup) {
  Turn turn;
  turn.prompt_ids = {1, 2};
  turn.response_ids = {3, 4};
  turn.log_probs = {-1, -1};
  turn.versions = {{0, 2, 7}};
  turn.response = "```cuda\n" + source + "\n```";
  turn.source = source;
  turn.verdict.status = status;
  turn.verdict.protocol = "quick";
  Timing timing;
  timing.speedup.median = speedup;
  timing.speedup.low = speedup * 0.9;
  turn.verdict.timings = {timing};
  return turn;
}

TEST_CASE("hone rft keeps right answers, a few of each implementation, with where they came from", "[cli][rft]") {
  const TempFolder folder = *TempFolder::Create("rft");
  const std::string plain =
      "__global__ void k(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] * "
      "2.0f; }";
  const std::string renamed =
      "__global__ void twice(float* in, int m) { int j = blockIdx.x * blockDim.x + threadIdx.x; if (j < m) in[j] = "
      "in[j] * 3.0f; }";
  const std::string shared =
      "__global__ void k(float* x, int n) { __shared__ float s[256]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); "
      "x[threadIdx.x] = s[threadIdx.x]; }";
  Group group;
  group.id = "rft-000000";
  group.task_id = "scale";
  for (const Turn& turn : {Answer(plain, VerdictStatus::kOk, 2), Answer(renamed, VerdictStatus::kOk, 1),
                           Answer(shared, VerdictStatus::kOk, 3), Answer(plain, VerdictStatus::kIncorrect, 9),
                           Answer(plain, VerdictStatus::kInfra, 9)}) {
    group.episodes.push_back({"e" + std::to_string(group.episodes.size()), "scale", {turn}, false});
  }
  const std::string journal = folder.path() + "/journal.jsonl.zst", out = folder.path() + "/dataset.jsonl";
  {
    const auto writer = JournalWriter::Open(journal).value();
    REQUIRE(writer->Append(group).ok());
    REQUIRE(writer->Sync().ok());
  }
  DrawSettings draw;
  draw.per_task = 2;
  const RftFigures figures = WriteRftDataset(journal, out, draw, 3, "runs/first").value();
  CHECK(figures.samples == 5);
  CHECK(figures.right == 3);
  CHECK(figures.infra == 1);
  CHECK(figures.clusters == 2);
  REQUIRE(figures.lines == 2);
  std::istringstream lines(ReadFile(out).value());
  std::string line;
  std::vector<int> clusters;
  while (std::getline(lines, line)) {
    const Json json = Json::parse(line);
    clusters.push_back(json["cluster"]);
    CHECK(json["response_ids"] == Json({3, 4}));
    CHECK(json["provenance"]["policy"] == "runs/first");
    CHECK(json["provenance"]["policy_version"] == 7);
    CHECK(json["provenance"]["group"] == "rft-000000");
  }
  CHECK(clusters == std::vector<int>{0, 1});
  draw.min_speedup = 1.5;
  CHECK(WriteRftDataset(journal, out, draw, 3, "").value().lines == 2);  // 2 x 0.9 and 3 x 0.9
  draw.min_speedup = 2;
  CHECK(WriteRftDataset(journal, out, draw, 3, "").value().lines == 1);
}

}  // namespace
}  // namespace hone::cli

// `hone generate` and `hone serve` as a user types them, with a tiny random model.

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "rollout/engine/openai_http.h"
#include "tests/support/test_programs.h"

namespace hone {
namespace {

RunResult Hone(std::vector<std::string> arguments) {
  SpawnOptions spawn;
  spawn.argv = {TestProgram("hone")};
  spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
  return Run(spawn, absl::Seconds(100)).value();
}

// The GGUF of the tests as a folder.
struct Model {
  TempFolder parent = TempFolder::Create("hone_generate").value();
  std::string folder = parent.path() + "/tiny-qwen2";
  Model() {
    if (TestProgram("hone").empty()) SKIP("HONE_TEST_BIN names no folder with hone");
    REQUIRE(Hone({"convert", HONE_TEST_DATA "/models/qwen2.gguf", folder}).exit_code == 0);
  }
};

TEST_CASE("hone generate writes the same text for the same seed, and its rate", "[cli][generate]") {
  const Model model;
  const std::vector<std::string> command{"generate", model.folder, "-p", "int main", "--max-tokens", "40", "--seed", "5", "--device", "cpu"};
  const RunResult first = Hone(command), second = Hone(command);
  REQUIRE(first.exit_code == 0);
  CHECK(absl::StrContains(first.output, "40 tokens at"));
  CHECK(absl::StrContains(first.output, "bf16 on cpu"));
  const auto text = [](const RunResult& result) {  // without the lines that state times
    std::string kept;
    for (size_t at = 0; at < result.output.size();) {
      const size_t end = std::min(result.output.find('\n', at), result.output.size());
      const std::string line = result.output.substr(at, end - at);
      if (!absl::StrContains(line, "loaded in") && !absl::StrContains(line, "tok/s")) kept += line + "\n";
      at = end + 1;
    }
    return kept;
  };
  CHECK(text(first) == text(second));
  const RunResult samples = Hone({"generate", model.folder, "-p", "x", "--samples", "3", "--max-tokens", "5", "--device", "cpu"});
  CHECK(samples.exit_code == 0);
  for (const char* head : {"--- sample 0\n", "--- sample 1\n", "--- sample 2\n"}) CHECK(absl::StrContains(samples.output, head));
}

TEST_CASE("hone generate says in one line what is wrong with its input", "[cli][generate]") {
  const Model model;
  const auto refused = [](std::vector<std::string> arguments, const std::string& message) {
    arguments.insert(arguments.begin(), "generate");
    arguments.insert(arguments.end(), {"--device", "cpu"});
    const RunResult result = Hone(arguments);
    INFO(result.output);
    CHECK(result.exit_code == 2);
    CHECK(absl::StrContains(result.output, message));
  };
  refused({HONE_TEST_DATA "/models/qwen2.gguf", "-p", "x"}, "is a GGUF file: turn it into a folder first, hone convert");
  refused({model.parent.path() + "/nothing", "-p", "x"}, "nothing");
  refused({model.folder, "-p", ""}, "the prompt is empty");
  refused({model.folder, "-p", "x", "--max-tokens", "600"}, "plus max_tokens = 600 is over the context of 512");
  const std::string config = model.folder + "/config.json";
  std::string text = ReadFile(config).value();
  const size_t at = text.find("\"qwen2\"");
  REQUIRE(at != std::string::npos);
  REQUIRE(WriteFileAtomically(config, text.replace(at, 7, "\"mamba\"")).ok());
  refused({model.folder, "-p", "x"}, "model_type = \"mamba\", supported: llama, qwen2, qwen3, gemma3_text");
}

// A running `hone serve`; `url` ends in /v1.
struct Server {
  Child child;
  std::string url;

  static Server Start(const std::string& folder) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    SpawnOptions spawn;
    spawn.argv = {TestProgram("hone"), "serve", folder, "--port", "0", "--device", "cpu"};
    spawn.pass_fds = {{ends[1], 1}, {2, 2}};
    auto child = Child::Spawn(spawn);
    close(ends[1]);
    std::string said;
    char byte;
    while (!absl::StrContains(said, "/v1\n") && read(ends[0], &byte, 1) == 1) said += byte;
    close(ends[0]);
    INFO(said);
    const size_t at = said.find("http://");
    REQUIRE(at != std::string::npos);
    REQUIRE(absl::StrContains(said, "serving \"tiny-qwen2\""));
    return {std::move(*child), said.substr(at, said.find('\n', at) - at)};
  }
};

TEST_CASE("hone serve answers the HTTP engine with exact ids and log-probs, and ends cleanly when told to", "[cli][serve]") {
  const Model model;
  Server server = Server::Start(model.folder);
  const auto engine = rollout::OpenAiEngine::Create({.url = server.url, .log_probs = rollout::ServerLogProbs::kSampled}).value();
  std::vector<rollout::GenerationRequest> requests(3);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt_ids = {static_cast<int32_t>(10 + i), 20, 30};
    requests[i].samples = 4;
    requests[i].seed = i;
    requests[i].sampling.max_tokens = 25;
    requests[i].sampling.temperature = 0.8;
    requests[i].sampling.top_p = 0.9;
  }
  const auto first = engine->Generate(requests, {}).value(), second = engine->Generate(requests, {}).value();
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t j = 0; j < first[i].size(); ++j) {
      CHECK(first[i][j].ids.size() == 25);
      CHECK(first[i][j].ids == second[i][j].ids);  // one model, one seed, other company
      CHECK(first[i][j].log_probs == second[i][j].log_probs);
      for (float log_prob : first[i][j].log_probs) CHECK((std::isfinite(log_prob) && log_prob <= 0));
    }
  }
  CHECK(first[0][0].ids != first[0][1].ids);
  requests[0].prompt_ids.assign(600, 1);
  CHECK(absl::StrContains(engine->Generate(requests, {}).status().message(), "the prompt has 600 tokens, the context is 512"));
  server.child.Terminate();
  CHECK(server.child.Wait(SteadyTime::Now() + absl::Seconds(30)).value() == 0);
}

}  // namespace
}  // namespace hone

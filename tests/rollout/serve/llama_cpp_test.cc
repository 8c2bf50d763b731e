// The HTTP engine against a llama.cpp server as it comes from PyPI, with Gemma 3 270M.

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "absl/strings/match.h"
#include "base/subprocess.h"
#include "rollout/engine/openai_http.h"
#include "tests/policy/models.h"
#include "tests/support/test_programs.h"

namespace hone::rollout {
namespace {

TEST_CASE("A llama.cpp server gives exact ids and log-probs to the HTTP engine", "[rollout][nightly]") {
  const auto model = policy::FindModel("gemma-3-270m-q4_k_m.gguf");
  if (!model) SKIP(policy::MissingModel("gemma-3-270m-q4_k_m.gguf"));
  const std::string python = TestPython();
  SpawnOptions probe;
  probe.argv = {python.empty() ? "python3" : python, "-c", "import xllamacpp"};
  if (const auto found = Run(probe, absl::Seconds(60)); !found.ok() || found->exit_code != 0) SKIP("pip install xllamacpp");
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  SpawnOptions spawn;
  spawn.argv = {probe.argv[0], HONE_SERVER_SCRIPT, *model};
  spawn.pass_fds = {{ends[1], 1}};
  auto server = Child::Spawn(spawn).value();
  close(ends[1]);
  std::string said;
  char byte;
  while (!absl::StrContains(said, '\n') && read(ends[0], &byte, 1) == 1) said += byte;
  close(ends[0]);
  REQUIRE(absl::StartsWith(said, "http://"));
  said.pop_back();

  const auto engine = OpenAiEngine::Create({.url = said + "/v1", .max_requests = 2}).value();
  GenerationRequest request{{2, 818, 5279, 529}, 2, 3, {}};
  request.sampling.max_tokens = 12;
  const auto result = engine->Generate({request, request}, {});
  REQUIRE(result.ok());
  for (const auto& samples : *result) {
    for (const Sample& sample : samples) {
      CHECK(sample.ids.size() == 12);
      for (float log_prob : sample.log_probs) CHECK((std::isfinite(log_prob) && log_prob <= 0));
    }
  }
  // Greedy, its first token is the most likely one: no other may have had a higher log-prob in the samples.
  request.samples = 1;
  request.sampling.temperature = 0;
  const auto greedy = engine->Generate({request}, {}).value()[0][0];
  for (const auto& samples : *result) {
    for (const Sample& sample : samples) CHECK(sample.log_probs[0] <= greedy.log_probs[0] + 1e-4f);
  }
}

}  // namespace
}  // namespace hone::rollout

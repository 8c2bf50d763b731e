#include "tests/support/catch_torch.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "policy/model/hf_folder.h"
#include "rollout/engine/native_engine.h"
#include "tests/support/test_programs.h"

// The way back: transformers reads what hone wrote. Needs a Python with transformers.

namespace hone::rollout {
namespace {

TEST_CASE("A folder that hone wrote generates the same greedy text in transformers", "[rollout][nightly]") {
  const std::string python = TestPython().empty() ? "python3" : TestPython();
  SpawnOptions probe;
  probe.argv = {python, "-c", "import transformers"};
  if (const auto found = hone::Run(probe, absl::Seconds(120)); !found.ok() || found->exit_code != 0) SKIP("pip install transformers");
  for (const std::string family : {"llama3", "qwen2", "qwen3", "gemma3"}) {
    INFO(family);
    const std::string from = absl::StrCat(HONE_REFERENCE, "/", family);
    const auto decoder = policy::LoadHfFolder(from).value();
    {  // as training leaves them: other weights than those of the folder they came from
      at::NoGradGuard no_grad;
      at::manual_seed(7);
      at::Tensor flat = decoder->parameters().flat();
      flat.mul_(1 + 0.2 * at::randn_like(flat));
    }
    const TempFolder folder = TempFolder::Create("hone_hf").value();
    REQUIRE(policy::SaveHfWeights(*decoder, folder.path()).ok());
    REQUIRE(WriteFileAtomically(folder.path() + "/config.json", ReadFile(from + "/config.json").value()).ok());

    GenerationRequest request{{5, 17, 3, 40, 8}, 1, 0, {}};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 50;
    request.sampling.stop_ids = decoder->config().eos_token_ids;
    const std::vector<int32_t> own = NativeEngine::Create({}, *decoder).value()->Generate({request}, {}).value()[0][0].ids;

    SpawnOptions spawn;
    spawn.argv = {python, HONE_TRANSFORMERS_GREEDY, folder.path(), "50"};
    for (int32_t id : request.prompt_ids) spawn.argv.push_back(absl::StrCat(id));
    const auto run = hone::Run(spawn, absl::Seconds(200));
    REQUIRE(run.ok());
    INFO(run->output);
    REQUIRE(run->exit_code == 0);
    const std::string answer = run->output.substr(run->output.rfind('['));  // warnings come before it
    CHECK(nlohmann::json::parse(answer).get<std::vector<int32_t>>() == own);
  }
}

}  // namespace
}  // namespace hone::rollout

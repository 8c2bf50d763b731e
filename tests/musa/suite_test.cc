// The `.mu` suite on the CPU, where MUSA candidates run through the compatibility toolchain: in every nightly run the
// whole of it.

#include "musa/suite.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::musa {
namespace {

#ifdef HONE_WHOLE_SUITE
constexpr SuiteSize kSize = SuiteSize::kAll;
#else
constexpr SuiteSize kSize = SuiteSize::kOne;
#endif

TEST_CASE("Every musified kernel gets the verdict of its CUDA original, and names the toolchain it went through",
          "[musa]") {
  if (TestProgram("hone-verifier").empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  const auto programs = MusaSuite(kSize, std::string(HONE_SOURCE_DIR) + "/examples");
  INFO(programs.status().ToString());
  REQUIRE(programs.ok());
  CHECK(programs->size() > 45);
  SuiteOptions options;
  options.program = TestProgram("hone-verifier");
  const auto pairs = JudgeSuite(*programs, options, [](size_t, bool, const Verdict&) {});
  INFO(pairs.status().ToString());
  REQUIRE(pairs.ok());
  int wrong = 0;
  for (size_t i = 0; i < pairs->size(); ++i) {
    const SuitePair& pair = (*pairs)[i];
    INFO((*programs)[i].name << "\ncuda: " << Name(pair.cuda.status) << " " << pair.cuda.message
                             << "\nmusa: " << Name(pair.musa.status) << " " << pair.musa.message << "\n"
                             << (*programs)[i].musa);
    CHECK(pair.agree());
    CHECK((pair.cuda.ok() || (*programs)[i].flawed));
    CHECK(absl::StartsWith(pair.musa.toolchain, "musa-compat/cpu g++"));
    CHECK_FALSE(absl::StrContains(pair.cuda.toolchain, "musa"));
    CHECK(absl::StrContains((*programs)[i].musa, "musaStream_t"));
    CHECK_FALSE(absl::StrContains((*programs)[i].musa, "cudaStream_t"));
    wrong += pair.cuda.ok() ? 0 : 1;
  }
  CHECK(wrong > 3);
}

constexpr char kModule[] = R"(
import torch
import torch_musa
from torch_musa.utils.musa_extension import load_inline

source = """
torch::Tensor twice(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const float* in = x.data_ptr<float>();
  float* to = out.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = 2 * in[i];
  return out;
}
"""
module = load_inline(name="twice", cpp_sources=source, functions=["twice"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        assert x.is_musa
        return module.twice(x.musa())
)";

constexpr char kTwice[] = R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(33, 7)]
def get_init_inputs():
    return []
)";

TEST_CASE("A module for torch_musa's extension builder is built and judged; device code is refused where there is none",
          "[musa]") {
  if (TestProgram("hone-verifier").empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  verifier::LocalServerOptions options;
  options.program = TestProgram("hone-verifier");
  options.extra_args = {"--set=devices=[musa]", "--set=musa_toolchain=compat/cpu", "--set=lanes=1",
                        "--set=build_niceness=0"};  // nothing is timed while the test waits for it
  const auto server = verifier::LocalServer::Start(options);
  REQUIRE(server.ok());
  verifier::ClientOptions client_options;
  client_options.endpoints = {(*server)->endpoint()};
  const auto client = verifier::Client::Create(client_options);
  REQUIRE(client.ok());
  VerifyRequest request;
  request.task.id = "twice";
  request.task.reference = kTwice;
  request.candidate = {Format::kTorch, Backend::kMusa, kModule};
  request.protocol.baselines.clear();
  request.protocol.build_timeout_ms = 200'000;
  const absl::StatusOr<Verdict> right = (*client)->Verify(request);
  INFO(right.status().ToString());
  REQUIRE(right.ok());
  INFO(right->message << right->compiler_output);
  CHECK(right->status == VerdictStatus::kOk);
  CHECK(absl::StartsWith(right->toolchain, "musa-compat/cpu torch "));

  request.candidate.source = absl::StrReplaceAll(kModule, {{"functions=", "musa_sources=source, functions="}});
  const absl::StatusOr<Verdict> device_code = (*client)->Verify(request);
  REQUIRE(device_code.ok());
  CHECK(device_code->status == VerdictStatus::kCompile);
  CHECK(absl::StrContains(device_code->message, "MUSA sources, on a device without MUSA"));
  const Capabilities capabilities = (*client)->GetCapabilities().value();
  const auto has = [&](absl::string_view begin) {
    return std::any_of(capabilities.toolchains.begin(), capabilities.toolchains.end(),
                       [&](const std::string& toolchain) { return absl::StartsWith(toolchain, begin); });
  };
  CHECK(has("cpu: g++"));
  CHECK(has("musa: musa-compat/cpu g++"));
}

}  // namespace
}  // namespace hone::musa

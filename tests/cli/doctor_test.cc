#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "base/subprocess.h"
#include "tests/support/test_programs.h"

namespace hone {
namespace {

RunResult Doctor(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
  const std::string hone = TestProgram("hone");
  if (hone.empty()) SKIP("HONE_TEST_BIN names no folder with hone");
  SpawnOptions spawn;
  spawn.argv = {hone, "doctor"};
  spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
  spawn.environment = std::move(environment);
  return Run(spawn, absl::Seconds(100)).value();
}

nlohmann::json Named(const nlohmann::json& report, const std::string& name) {
  for (const nlohmann::json& finding : report["findings"]) {
    if (finding["name"] == name) return finding;
  }
  return {};
}

TEST_CASE("doctor names every part, and agrees with itself on whether candidates can be judged", "[cli][doctor]") {
  const RunResult result = Doctor({"--json"});
  const nlohmann::json report = nlohmann::json::parse(result.output);
  bool failed = false;
  for (const char* name : {"host", "g++", "nvcc", "mcc", "cpu", "cuda", "musa", "bubblewrap", "torch", "hone-verifier",
                           "hone-runner", "task suite", "runtime", "mtrtc", "toolchain", "compat/cpu", "compat/cuda"}) {
    INFO(name);
    const nlohmann::json finding = Named(report, name);
    REQUIRE(finding.is_object());
    CHECK_FALSE(finding["detail"].get<std::string>().empty());
    CHECK(finding["hint"].get<std::string>().empty() == (finding["state"] == "ready"));
    failed = failed || finding["state"] == "failed";
  }
  CHECK(report["can_judge"] == !failed);
  CHECK(result.exit_code == (failed ? 3 : 0));
}

TEST_CASE("doctor says what is wrong with a Python without torch, and what to do", "[cli][doctor]") {
  const RunResult result = Doctor({"--python", "/bin/false"});
  CHECK(result.exit_code == 3);
  CHECK(absl::StrContains(result.output, "/bin/false"));
  CHECK(absl::StrContains(result.output, "HONE_PYTHON"));
}

TEST_CASE("doctor finds no compiler where there is none", "[cli][doctor]") {
  const RunResult result = Doctor({"--python", "/bin/false"}, {"PATH=/nowhere", "CUDA_HOME=/nowhere", "MUSA_HOME=/nowhere"});
  CHECK(result.exit_code == 3);
  CHECK(absl::StrContains(result.output, "install g++"));
  CHECK(absl::StrContains(result.output, "install the CUDA toolkit"));
  CHECK(absl::StrContains(result.output, "bwrap is not installed"));
}

}  // namespace
}  // namespace hone

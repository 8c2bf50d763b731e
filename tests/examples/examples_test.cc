// The client examples do what their first lines say, against a verifier of the CPU device.

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "tests/support/memory_folder.h"
#include "tests/support/test_programs.h"
#include "verifier/client/local_server.h"

namespace hone {
namespace {

const std::string kSource = HONE_SOURCE_DIR;

std::unique_ptr<verifier::LocalServer> StartServer() {
  verifier::LocalServerOptions options;
  options.program = TestProgram("hone-verifier");
  options.python = TestPython();
  if (options.program.empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  if (options.python.empty()) SKIP("HONE_PYTHON names no interpreter with torch");
  options.extra_args = {"--set=lanes=1"};
  absl::StatusOr<std::unique_ptr<verifier::LocalServer>> server = verifier::LocalServer::Start(options);
  INFO(server.status().ToString());
  REQUIRE(server.ok());
  return *std::move(server);
}

RunResult RunExample(std::vector<std::string> argv, const std::string& endpoint, std::vector<std::string> environment = {}) {
  argv.insert(argv.end(), {endpoint, kSource + "/tasks/softmax/tempered_softmax.py", kSource + "/examples/softmax.cu",
                           kSource + "/examples/softmax_wrong.cu"});
  SpawnOptions spawn;
  spawn.argv = std::move(argv);
  spawn.environment = std::move(environment);
  const absl::StatusOr<RunResult> result = Run(spawn, absl::Seconds(100));
  REQUIRE(result.ok());
  return *result;
}

void CheckOutput(const RunResult& result) {
  INFO(result.output);
  CHECK(result.exit_code == 0);
  CHECK(absl::StrContains(result.output, "examples/softmax.cu: OK"));
  CHECK(absl::StrContains(result.output, "examples/softmax_wrong.cu: RUNTIME"));
}

TEST_CASE("The C++ example judges a right and a wrong kernel", "[examples]") {
  const auto server = StartServer();
  CheckOutput(RunExample({std::string(HONE_BUILD_DIR) + "/examples/verify_client"}, server->endpoint()));
}

TEST_CASE("The Python example works from generated stubs alone", "[examples]") {
  const char* named = std::getenv("HONE_GRPC_PYTHON");
  const std::string python = named == nullptr ? TestPython() : named;
  SpawnOptions probe;
  probe.argv = {python, "-c", "import grpc, grpc_tools"};
  const absl::StatusOr<RunResult> there = Run(probe, absl::Seconds(60));
  if (!there.ok() || there->exit_code != 0) {
    SKIP("no Python with grpcio and grpcio-tools: name one in HONE_GRPC_PYTHON, or pip install them where HONE_PYTHON is");
  }
  const TempFolder stubs = MemoryFolder("stubs");
  SpawnOptions protoc;
  protoc.argv = {python, "-m", "grpc_tools.protoc", "-I", kSource + "/proto", "--python_out=" + stubs.path(),
                 "--grpc_python_out=" + stubs.path(), kSource + "/proto/hone/v1/types.proto",
                 kSource + "/proto/hone/v1/verifier.proto"};
  const absl::StatusOr<RunResult> generated = Run(protoc, absl::Seconds(60));
  REQUIRE(generated.ok());
  INFO(generated->output);
  REQUIRE(generated->exit_code == 0);
  const std::vector<std::string> example = {python, kSource + "/examples/verify_client.py"};
  auto server = StartServer();
  const std::string endpoint = server->endpoint();
  CheckOutput(RunExample(example, endpoint, {"PYTHONPATH=" + stubs.path()}));
  server.reset();
  const RunResult nobody = RunExample(example, endpoint, {"PYTHONPATH=" + stubs.path()});
  INFO(nobody.output);
  CHECK(nobody.exit_code == 1);
  CHECK(absl::StrContains(nobody.output, endpoint + ": UNAVAILABLE"));
  CHECK_FALSE(absl::StrContains(nobody.output, "Traceback"));
}

}  // namespace
}  // namespace hone

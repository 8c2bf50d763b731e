// `hone verify` and the service behind it, with the real compiler, the real reference and the real sandbox.

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/journal.h"
#include "base/subprocess.h"
#include "base/task_file.h"
#include "tests/support/memory_folder.h"
#include "tests/support/process_tree.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone {
namespace {

using verifier::Client;
using verifier::ClientOptions;
using verifier::LocalServer;
using verifier::LocalServerOptions;

constexpr char kTask[] = R"(import torch
import torch.nn as nn

rows = 40
cols = 70


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
)";

// %s: what is done to v, and what is stored.
std::string Kernel(const std::string& expression) {
  return absl::StrCat(R"(#include <cuda_runtime.h>
__global__ void k(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    out[i] = )", expression, R"(;
  }
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  k<<<(rows * cols + 127) / 128, 128, 0, stream>>>(x, out, rows * cols);
}
)");
}

struct Fixture {
  TempFolder folder = TempFolder::Create("verify_test").value();
  std::string hone = TestProgram("hone");
  std::string task = Write("relu.py", kTask);

  Fixture() {
    if (hone.empty() || TestProgram("hone-verifier").empty() || TestProgram("hone-runner").empty()) {
      SKIP("HONE_TEST_BIN names no folder with hone's programs");
    }
    if (TestPython().empty()) SKIP("HONE_PYTHON names no Python");
  }
  std::string Write(const std::string& name, const std::string& text) const {
    REQUIRE(WriteFileAtomically(folder.path() + "/" + name, text).ok());
    return folder.path() + "/" + name;
  }
  std::unique_ptr<LocalServer> StartServer() const {
    LocalServerOptions options;
    options.program = TestProgram("hone-verifier");
    options.log_path = folder.path() + "/log";
    options.extra_args = {"--set=log_level=debug", "--set=lanes=1", "--set=folder=" + folder.path() + "/state"};
    absl::StatusOr<std::unique_ptr<LocalServer>> server = LocalServer::Start(options);
    INFO(server.status().ToString());
    REQUIRE(server.ok());
    return *std::move(server);
  }
  RunResult Verify(const std::vector<std::string>& arguments) const {
    SpawnOptions spawn;
    spawn.argv = {hone, "verify"};
    spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
    absl::StatusOr<RunResult> result = Run(spawn, absl::Seconds(90));
    REQUIRE(result.ok());
    return *std::move(result);
  }
  bool LogHas(const std::string& words) const { return absl::StrContains(*ReadFile(folder.path() + "/log"), words); }
};

void CheckHas(const RunResult& result, int exit_code, const std::vector<std::string>& words) {
  INFO(result.output);
  CHECK(result.exit_code == exit_code);
  for (const std::string& word : words) {
    INFO(word);
    CHECK(absl::StrContains(result.output, word));
  }
}

TEST_CASE("hone verify judges without any server running and says what a person needs", "[cli][verify]") {
  Fixture f;
  const RunResult right = f.Verify({f.task, f.Write("right.cu", Kernel("v > 0 ? v : 0")), "--protocol", "quick"});
  CheckHas(right, 0, {"OK  relu on cpu", "PyTorch eager", "95% interval", "emulated: says nothing about a GPU", "quick"});
}

TEST_CASE("hone verify tells each failure apart, through a running server", "[cli][verify]") {
  Fixture f;
  const std::unique_ptr<LocalServer> server = f.StartServer();
  const auto verify = [&](const std::string& task, const std::string& candidate, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {task, candidate, "--server", server->endpoint(), "--protocol", "quick"});
    return f.Verify(more);
  };
  const std::string right = f.Write("right.cu", Kernel("v > 0 ? v : 0"));
  CheckHas(verify(f.task, f.Write("wrong.cu", Kernel("v"))), 3, {"INCORRECT", "mismatch", "should be 0"});
  CheckHas(verify(f.task, f.Write("unbuilt.cu", Kernel("w"))), 3, {"COMPILE", "candidate.cu:6", "'w'"});
  CheckHas(verify(f.task, f.Write("empty.cu", "")), 3, {"PARSE"});
  CheckHas(verify(f.task, f.Write("bytes.cu", "\xff\xfe\xfd")), 3, {"PARSE", "UTF-8"});
  CheckHas(verify(f.task, f.Write("huge.cu", std::string(10 << 20, ' '))), 3, {"PARSE"});
  CheckHas(verify(f.task, f.Write("crash.cu", Kernel("*(volatile float*)0"))), 3, {"RUNTIME"});

  CheckHas(verify("no_such_task", right), 2, {"no_such_task"});
  CheckHas(verify(f.task, f.folder.path() + "/none.cu"), 2, {"none.cu"});
  CheckHas(verify(f.task, f.Write("kernel.txt", "x")), 2, {"kernel.txt", ".cu"});
  CheckHas(verify(f.Write("half.py", "class Model: pass\n"), right), 2, {"half.py", "get_inputs"});
  const std::string raises = f.Write("raises.py", absl::StrCat("raise ValueError('no luck')\n", kTask));
  CheckHas(verify(raises, right), 2, {"raises.py:1: ", "no luck"});
  CheckHas(verify(f.task, right, {"--device", "musa"}), 2, {"musa", "cpu"});

  const RunResult json = verify(f.task, right, {"--json"});
  CheckHas(json, 0, {});
  const absl::StatusOr<Verdict> verdict = VerdictFromJson(json.output);
  REQUIRE(verdict.ok());
  CHECK(verdict->ok());
  CHECK(verdict->protocol == "quick");
  REQUIRE(verdict->speed() != nullptr);
  CHECK(verdict->speed()->emulated);
  CHECK(verdict->speed()->speedup.low <= verdict->speed()->speedup.median);
  CheckHas(verify(f.task, right), 0, {"measured earlier"});
}

TEST_CASE("The README's examples verify as it says, and so does a kernel on half-precision tensors", "[cli][verify]") {
  Fixture f;
  const std::unique_ptr<LocalServer> server = f.StartServer();
  const auto verify = [&](const std::string& task, const std::string& candidate) {
    return f.Verify({task, HONE_SOURCE_FOLDER + candidate, "--server", server->endpoint(), "--protocol", "quick"});
  };
  CheckHas(verify("tempered_softmax", "/examples/softmax.cu"), 0, {"OK  tempered_softmax on cpu"});
  CheckHas(verify("tempered_softmax", "/examples/softmax_wrong.cu"), 3, {"RUNTIME", "past the end of `out`"});
  CheckHas(verify("half_leaky_scale", "/tests/verifier/build/kernels/half_leaky_scale.cu"), 0, {"OK  half_leaky_scale on cpu"});
}

TEST_CASE("hone verify says so when nobody answers", "[cli][verify]") {
  Fixture f;
  CheckHas(f.Verify({f.task, f.Write("a.cu", Kernel("v")), "--server", "unix:" + f.folder.path() + "/nobody"}), 1,
           {"nobody"});
}

VerifyRequest RequestFor(const std::string& source) {
  VerifyRequest request;
  request.task = *ParseTaskFile(kTask, "relu.py");
  request.candidate.source = source;
  request.protocol = *ProtocolById("quick");
  return request;
}

// Long enough for a kill to land in the middle, short enough to be judged again.
std::string SlowKernel() { return Kernel("[&] { float s = v; for (int j = 0; j < 6000; ++j) s = s * 0.5f + v * 0.5f; return s > 0 ? v : 0.f; }()"); }

TEST_CASE("SIGKILL of the lane in the middle of a job: the job still gets its one verdict", "[cli][verify]") {
  Fixture f;
  const std::unique_ptr<LocalServer> server = f.StartServer();
  ClientOptions options;
  options.endpoints = {server->endpoint()};
  const std::unique_ptr<Client> client = *Client::Create(options);
  std::atomic<bool> killed{false};
  std::thread killer([&] {
    while (!f.LogHas(" judging ")) absl::SleepFor(absl::Milliseconds(2));
    for (pid_t pid : DescendantsWith(getpid(), "hone-verifier lane")) killed = kill(pid, SIGKILL) == 0;
  });
  const std::vector<VerifyRequest> requests = {RequestFor(SlowKernel()), RequestFor(Kernel("v > 0 ? v : 0")),
                                               RequestFor(Kernel("v"))};
  std::vector<std::vector<VerdictStatus>> got(requests.size());
  const absl::Status status =
      client->VerifyAll(requests, [&](size_t i, const Verdict& verdict) { got[i].push_back(verdict.status); });
  killer.join();
  CHECK(status.ok());
  CHECK(killed);
  CHECK(f.LogHas("the lane died of signal 9"));
  CHECK(got == std::vector<std::vector<VerdictStatus>>{
                   {VerdictStatus::kOk}, {VerdictStatus::kOk}, {VerdictStatus::kIncorrect}});
}

TEST_CASE("SIGKILL of the verifier loses no queued job: the next one over the folder finishes them unasked",
          "[cli][verify]") {
  Fixture f;
  const std::vector<VerifyRequest> requests = {RequestFor(SlowKernel()), RequestFor(Kernel("v > 0 ? v : 0")),
                                               RequestFor(Kernel("v"))};
  {
    const std::unique_ptr<LocalServer> server = f.StartServer();
    ClientOptions options;
    options.endpoints = {server->endpoint()};
    options.max_attempts = 1;
    const std::unique_ptr<Client> client = *Client::Create(options);
    std::thread killer([&] {
      while (!f.LogHas(" judging ")) absl::SleepFor(absl::Milliseconds(2));
      absl::SleepFor(absl::Milliseconds(100));  // the other two reach the queue
      for (pid_t pid : DescendantsWith(getpid(), "hone-verifier --listen")) kill(pid, SIGKILL);
    });
    client->VerifyAll(requests, [](size_t, const Verdict&) {}).IgnoreError();
    killer.join();
  }
  const std::unique_ptr<LocalServer> server = f.StartServer();
  for (int i = 0; i < 6000 && !f.LogHas("status=INCORRECT"); ++i) absl::SleepFor(absl::Milliseconds(10));
  CHECK(f.LogHas("status=INCORRECT"));
  CHECK(f.LogHas("status=OK"));
  ClientOptions options;
  options.endpoints = {server->endpoint()};
  const std::unique_ptr<Client> client = *Client::Create(options);
  const absl::StatusOr<Verdict> verdict = client->Verify(requests[2]);
  REQUIRE(verdict.ok());
  CHECK(verdict->from_cache);
}

}  // namespace
}  // namespace hone

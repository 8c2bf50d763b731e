// A farm of real processes around a real redis-server: parts that scale apart, die, and come back.

#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "tests/support/memory_folder.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_farm.h"

namespace hone::verifier {
namespace {

std::unique_ptr<LocalFarm> StartFarm(std::vector<std::string> roles, std::vector<std::string> args) {
  LocalFarmOptions options;
  options.program = TestProgram("hone-verifier");
  if (options.program.empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  options.python = TestPython();
  options.roles = std::move(roles);
  options.args = std::move(args);
  options.args.push_back("--set=lost_after_s=1");
  absl::StatusOr<std::unique_ptr<LocalFarm>> farm = LocalFarm::Start(std::move(options));
  if (absl::IsNotFound(farm.status())) SKIP("redis-server is not installed");
  INFO(farm.status().ToString());
  REQUIRE(farm.ok());
  return *std::move(farm);
}

const std::vector<std::string> kNoop = {"--set=devices=[noop]", "--set=lanes=2", "--set=max_tries=50"};

std::unique_ptr<Client> ClientOf(const LocalFarm& farm, int attempts = 50) {
  ClientOptions options;
  options.endpoints = farm.endpoints();
  options.deadline = absl::Minutes(2);
  options.max_attempts = attempts;
  return *Client::Create(options);
}

VerifyRequest Noop(int i, int64_t wait_ms = 0) {
  VerifyRequest request;
  request.task.reference = "r";
  request.candidate.source = absl::StrCat("job ", i);
  if (wait_ms > 0) request.task.timing["wait_ms"] = wait_ms;
  return request;
}

TEST_CASE("A front without lanes of its own says what the farm has", "[verifier][farm]") {
  const auto farm = StartFarm({"front", "lane", "lane"}, kNoop);
  const auto client = ClientOf(*farm);
  absl::StatusOr<Capabilities> capabilities = client->GetCapabilities();
  for (int i = 0; i < 100 && capabilities.ok() && capabilities->lanes != 4; ++i) {
    absl::SleepFor(absl::Milliseconds(50));
    capabilities = client->GetCapabilities();
  }
  REQUIRE(capabilities.ok());
  CHECK(capabilities->devices == std::vector<std::string>{"noop"});
  CHECK(capabilities->lanes == 4);
  const absl::StatusOr<Verdict> verdict = client->Verify(Noop(1));
  REQUIRE(verdict.ok());
  CHECK(verdict->ok());
  CHECK(verdict->device == "noop");
}

TEST_CASE("A second measurement is made by another process's lane of the kind", "[verifier][farm]") {
  const auto farm = StartFarm({"front", "lane", "lane"}, {"--set=devices=[noop]", "--set=lanes=1"});
  const auto client = ClientOf(*farm);
  const absl::StatusOr<Verdict> first = client->Verify(Noop(1));
  REQUIRE(first.ok());
  VerifyRequest again = Noop(1);
  again.avoid_lane = first->lane;
  int in_a_row = 0;  // ten, as soon as the processes know each other
  for (int i = 0; i < 600 && in_a_row < 10; ++i) {
    const absl::StatusOr<Verdict> second = client->Verify(again);
    REQUIRE(second.ok());
    in_a_row = second->lane != first->lane ? in_a_row + 1 : 0;
    if (in_a_row == 0) absl::SleepFor(absl::Milliseconds(50));
  }
  CHECK(in_a_row == 10);
}

/// Sends `jobs` while `disturb` runs over and over; every one must get exactly one verdict, and it must be right.
template <class Disturb>
void CheckNothingIsLost(LocalFarm& farm, int jobs, int64_t wait_ms, Disturb disturb) {
  std::vector<VerifyRequest> requests;
  for (int i = 0; i < jobs; ++i) requests.push_back(Noop(i, wait_ms));
  std::vector<int> answers(requests.size(), 0);
  int right = 0;
  std::string wrong;
  std::atomic<bool> over{false};
  std::thread chaos([&] {
    while (!over) disturb();
  });
  const absl::Status status = ClientOf(farm)->VerifyAll(requests, [&](size_t i, const Verdict& verdict) {
    ++answers[i];
    right += verdict.ok() && verdict.device == "noop";
    if (!verdict.ok()) wrong = verdict.message;
  });
  over = true;
  chaos.join();
  INFO(status.ToString() << "; last wrong verdict: " << wrong);
  CHECK(status.ok());
  CHECK(right == jobs);
  CHECK(answers == std::vector<int>(requests.size(), 1));
}

TEST_CASE("Kill -9 of workers, fronts and Redis in any order loses no job and doubles no verdict", "[verifier][farm]") {
  const auto farm = StartFarm({"front", "front", "lane", "lane", "lane"}, kNoop);
  std::mt19937 random(7);
  CheckNothingIsLost(*farm, 100, 150, [&] {
    const size_t victim = random() % (farm->size() + 1);
    if (victim == farm->size()) {
      farm->KillRedis();
      absl::SleepFor(absl::Milliseconds(200));
      if (!farm->StartRedis().ok()) abort();
    } else if (!farm->Restart(victim).ok()) {
      abort();
    }
    absl::SleepFor(absl::Milliseconds(300));
  });
}

TEST_CASE("A farm whose Redis goes away keeps its requests and says so in its log", "[verifier][farm]") {
  const auto farm = StartFarm({"front", "lane"}, kNoop);
  const auto client = ClientOf(*farm);
  REQUIRE(client->Verify(Noop(0)).ok());
  farm->KillRedis();
  std::vector<std::thread> callers;
  std::atomic<int> ok{0};
  for (int i = 1; i <= 5; ++i) {
    callers.emplace_back([&, i] {
      const absl::StatusOr<Verdict> verdict = client->Verify(Noop(i));
      ok += verdict.ok() && verdict->ok();
    });
  }
  absl::SleepFor(absl::Seconds(1));
  CHECK(ok == 0);
  REQUIRE(farm->StartRedis().ok());
  for (std::thread& caller : callers) caller.join();
  CHECK(ok == 5);
  INFO(farm->Log(0));
  CHECK(absl::StrContains(farm->Log(0), "the queue does not answer; requests wait for it"));
  CHECK(absl::StrContains(farm->Log(0), "the queue answers again"));
}

TEST_CASE("SIGTERM lets a worker finish what it holds and leaves the rest to others", "[verifier][farm]") {
  const auto farm = StartFarm({"front", "lane", "lane"}, kNoop);
  std::vector<VerifyRequest> requests;
  for (int i = 0; i < 40; ++i) requests.push_back(Noop(i, 100));
  int right = 0;
  std::thread stop([&] {
    absl::SleepFor(absl::Milliseconds(300));
    farm->Terminate(1);
    const absl::StatusOr<int> code = farm->Wait(1);
    CHECK(code.ok());
    CHECK(code.value_or(-1) == 0);
  });
  CHECK(ClientOf(*farm)->VerifyAll(requests, [&](size_t, const Verdict& verdict) { right += verdict.ok(); }).ok());
  stop.join();
  CHECK(right == 40);
  INFO("nothing had to be claimed from it");
  CHECK_FALSE(absl::StrContains(farm->Log(0) + farm->Log(2), "claimed lost leases"));
}

TEST_CASE("A part of a farm waits for its Redis at the start and says so", "[verifier][farm]") {
  const std::string program = TestProgram("hone-verifier");
  if (program.empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  SpawnOptions spawn;
  spawn.argv = {program, "--role=front", "--queue=redis://127.0.0.1:1/0"};
  const absl::StatusOr<RunResult> result = Run(spawn, absl::Seconds(1));
  REQUIRE(result.ok());
  CHECK(result->timed_out);
  CHECK(absl::StrContains(result->output, "waiting for the queue"));
  CHECK(absl::StrContains(result->output, "redis://127.0.0.1:1/0"));
}

TEST_CASE("Unusable farm settings end hone-verifier with exit code 2 and one line", "[verifier][farm]") {
  const std::string program = TestProgram("hone-verifier");
  if (program.empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--role=lane"}, "needs a queue"},
      {{"--role=judge"}, "front"},
      {{"--queue=http://h"}, "http://h"},
      {{"--queue=redis://h:99999"}, "65535"},
  };
  for (const auto& [arguments, word] : cases) {
    SpawnOptions spawn;
    spawn.argv = {program};
    spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
    const absl::StatusOr<RunResult> result = Run(spawn, absl::Seconds(30));
    REQUIRE(result.ok());
    INFO(result->output);
    CHECK(result->exit_code == 2);
    CHECK(absl::StrContains(result->output, word));
  }
}

constexpr char kReference[] = R"py(
import torch
import torch.nn as nn

n = 64

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(n)]

def get_init_inputs():
    return []
)py";

std::string Relu(const char* zero, int n) {
  return absl::StrCat("__global__ void k(const float* x, float* out, int n) {\n"
                      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) out[i] = x[i] > 0 ? x[i] : ", zero,
                      ";\n}\nextern \"C\" void launch(const float* x, float* out, int n, cudaStream_t stream) {\n"
                      "  k<<<(n + 63) / 64, 64, 0, stream>>>(x, out, n);\n}\n// ", n, "\n");
}

TEST_CASE("Builders and lanes on hosts of their own judge real candidates, and unknown devices fail at once",
          "[verifier][farm]") {
  if (TestPython().empty()) SKIP("HONE_PYTHON names no interpreter with torch");
  const auto farm = StartFarm({"front", "build", "lane"}, {"--set=lanes=1", "--set=build_slots=1"});
  const auto client = ClientOf(*farm);
  VerifyRequest request;
  request.task.id = "relu";
  request.task.reference = kReference;
  request.protocol = *ProtocolById("quick");
  request.candidate.source = Relu("0", 1);
  const absl::StatusOr<Verdict> right = client->Verify(request);
  REQUIRE(right.ok());
  INFO(right->message << right->compiler_output);
  CHECK(right->ok());
  CHECK_FALSE(right->from_cache);
  CHECK(client->Verify(request)->from_cache);
  request.candidate.source = Relu("1", 1);
  const absl::StatusOr<Verdict> wrong = client->Verify(request);
  REQUIRE(wrong.ok());
  CHECK(wrong->status == VerdictStatus::kIncorrect);
  request.candidate.backend = Backend::kMusa;
  const SteadyTime begin = SteadyTime::Now();
  const absl::Status unknown = client->Verify(request).status();
  CHECK(absl::IsInvalidArgument(unknown));
  CHECK(absl::StrContains(unknown.message(), "no musa device; it has: cpu"));
  CHECK(SteadyTime::Now() - begin < absl::Seconds(20));
}

}  // namespace
}  // namespace hone::verifier

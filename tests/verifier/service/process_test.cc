// hone-verifier as a process: starting, refusing to start, dying, being told to stop.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "tests/support/memory_folder.h"
#include "tests/support/process_tree.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"
#include "verifier/service/lane_process.h"
#include "verifier/service/noop_lane.h"

namespace hone::verifier {
namespace {

std::string Program() {
  const std::string program = TestProgram("hone-verifier");
  if (program.empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  return program;
}

std::unique_ptr<LocalServer> StartNoop(const std::vector<std::string>& extra = {}) {
  LocalServerOptions options;
  options.program = Program();
  options.extra_args = extra;
  options.extra_args.insert(options.extra_args.begin(), {"--set=devices=[noop]", "--set=lanes=1"});
  absl::StatusOr<std::unique_ptr<LocalServer>> server = LocalServer::Start(options);
  INFO(server.status().ToString());
  REQUIRE(server.ok());
  return *std::move(server);
}

std::unique_ptr<Client> ClientOf(const std::string& endpoint) {
  ClientOptions options;
  options.endpoints = {endpoint};
  options.deadline = absl::Seconds(30);
  return *Client::Create(options);
}

/// Runs hone-verifier to its end.
RunResult RunVerifier(const std::vector<std::string>& arguments) {
  SpawnOptions spawn;
  spawn.argv = {Program()};
  spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
  absl::StatusOr<RunResult> result = Run(spawn, absl::Seconds(60));
  REQUIRE(result.ok());
  return *std::move(result);
}


TEST_CASE("A server of one's own answers, and is gone when it is dropped", "[verifier][process]") {
  std::unique_ptr<LocalServer> server = StartNoop();
  const std::string endpoint = server->endpoint();
  const std::unique_ptr<Client> client = ClientOf(endpoint);
  const absl::StatusOr<Verdict> verdict = client->Verify([] {
    VerifyRequest request;
    request.task.reference = "r";
    return request;
  }());
  REQUIRE(verdict.ok());
  CHECK(verdict->device == "noop");
  CHECK(client->GetCapabilities()->devices == std::vector<std::string>{"noop"});
  CHECK_FALSE(DescendantsWith(getpid(), "hone-verifier lane").empty());
  server.reset();
  CHECK_FALSE(FileExists(endpoint.substr(5)));
  CHECK(DescendantsWith(getpid(), "hone-verifier").empty());
}

TEST_CASE("A request's trace id stands in the log lines of the server and of the lane's own process", "[verifier][process]") {
  const TempFolder folder = TempFolder::Create("trace").value();
  LocalServerOptions options;
  options.program = Program();
  options.log_path = folder.path() + "/log";
  options.extra_args = {"--set=devices=[noop]", "--set=lanes=1", "--set=log_level=debug"};
  const auto server = LocalServer::Start(options);
  REQUIRE(server.ok());
  VerifyRequest request;
  request.task.reference = "r";
  request.trace_id = "trace-7f3a";
  REQUIRE(ClientOf((*server)->endpoint())->Verify(request).ok());
  std::string log;
  for (int i = 0; i < 100 && !absl::StrContains(log, "judged trace=trace-7f3a"); ++i) {
    absl::SleepFor(absl::Milliseconds(20));  // the child's line may come after its answer
    log = ReadFile(options.log_path).value();
  }
  INFO(log);
  for (const char* line : {"lane noop: judging trace=trace-7f3a", "lane noop: judged trace=trace-7f3a", "engine: verdict trace=trace-7f3a"}) {
    INFO(line);
    CHECK(absl::StrContains(log, line));
  }
}

TEST_CASE("A server that does not start says why in its own words", "[verifier][process]") {
  LocalServerOptions options;
  options.program = Program();
  options.extra_args = {"--set=lanse=3"};
  const absl::Status status = LocalServer::Start(options).status();
  CHECK(absl::IsFailedPrecondition(status));
  INFO(status.ToString());
  CHECK(absl::StrContains(status.message(), "lanse"));
  CHECK(absl::StrContains(status.message(), "lanes"));
  options.program = "/no/such/program";
  CHECK(absl::IsNotFound(LocalServer::Start(options).status()));
}

TEST_CASE("Unusable settings end hone-verifier with exit code 2 and one line that names them", "[verifier][process]") {
  const TempFolder folder = MemoryFolder("process_test");
  const std::string file = folder.path() + "/verifier.yaml";
  REQUIRE(WriteFileAtomically(file, "lanes: 1\nbuild_slots: many\n").ok());
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--config", file}, file + ":2"},
      {{"--config", folder.path() + "/missing.yaml"}, "missing.yaml"},
      {{"--set", "lanes=1000"}, "256"},
      {{"--set", "devices=[gpu]"}, "gpu"},
      {{"--set", "devices=[noop, cpu]"}, "noop"},
      {{"--listen", "not an address"}, "not an address"},
      {{"--no-such-option"}, "no-such-option"},
  };
  for (const auto& [arguments, word] : cases) {
    const RunResult result = RunVerifier(arguments);
    INFO(result.output);
    CHECK(result.exit_code == 2);
    CHECK(absl::StrContains(result.output, word));
  }
}

TEST_CASE("A verifier whose interpreter has no torch does not start to fail at every reference", "[verifier][process]") {
  const TempFolder folder = MemoryFolder("no-torch");
  const std::string python = folder.path() + "/python3";
  REQUIRE(WriteFileAtomically(python, "#!/bin/sh\necho '{\"executable\": \"python3\", \"version\": \"3.12.1\", \"torch\": \"\"}'\n").ok());
  REQUIRE(chmod(python.c_str(), 0755) == 0);
  const RunResult result = RunVerifier({"--set=devices=[cpu]", "--set=sandbox=none", "--set=python=" + python,
                                        "--listen=unix:" + folder.path() + "/socket", "--set=folder=" + folder.path() + "/state"});
  INFO(result.output);
  CHECK(result.exit_code == 2);
  CHECK(absl::StrContains(result.output, "python3 has no torch"));
}

TEST_CASE("An address in use is said at once, before any lane starts", "[verifier][process]") {
  const std::unique_ptr<LocalServer> server = StartNoop({"--listen=127.0.0.1:0"});
  const TempFolder folder = MemoryFolder("process_test");
  const std::string settings = "--set=folder=" + folder.path();
  const RunResult result = RunVerifier({"--set=devices=[noop]", settings, "--listen=" + server->endpoint()});
  CHECK(result.exit_code == 2);
  CHECK(absl::StrContains(result.output, server->endpoint() + " is in use"));
  CHECK_FALSE(absl::StrContains(result.output, "lane ready"));
  CHECK(ClientOf(server->endpoint())->GetCapabilities().ok());
}

TEST_CASE("A folder in use is said, and its first owner is unharmed", "[verifier][process]") {
  const TempFolder folder = MemoryFolder("process_test");
  const std::unique_ptr<LocalServer> server = StartNoop({"--set=folder=" + folder.path()});
  const RunResult result =
      RunVerifier({"--set=devices=[noop]", "--set=folder=" + folder.path(), "--listen=unix:" + folder.path() + "/s"});
  CHECK(result.exit_code == 2);
  CHECK(absl::StrContains(result.output, "in use by another process"));
  CHECK(ClientOf(server->endpoint())->GetCapabilities().ok());
}

TEST_CASE("SIGTERM ends an idle server with exit code 0", "[verifier][process]") {
  const TempFolder folder = MemoryFolder("process_test");
  SpawnOptions spawn;
  spawn.argv = {Program(), "--set=devices=[noop]", "--set=folder=" + folder.path(), "--listen=unix:" + folder.path() + "/s"};
  absl::StatusOr<Child> child = Child::Spawn(spawn);
  REQUIRE(child.ok());
  REQUIRE(ClientOf("unix:" + folder.path() + "/s") != nullptr);
  while (!FileExists(folder.path() + "/s")) absl::SleepFor(absl::Milliseconds(5));
  child->Terminate();
  const absl::StatusOr<int> code = child->Wait(SteadyTime::Now() + absl::Seconds(20));
  REQUIRE(code.ok());
  CHECK(*code == 0);
}

TEST_CASE("A server holds its lanes for clients only where it is told to", "[verifier][process]") {
  CHECK(absl::IsPermissionDenied(ClientOf(StartNoop()->endpoint())->HoldLanes().status()));
  const std::unique_ptr<LocalServer> server = StartNoop({"--set=holds=true"});
  VerifyRequest request;
  request.task.reference = "r";
  const std::unique_ptr<Client> client = ClientOf(server->endpoint());
  auto hold = client->HoldLanes();
  INFO(hold.status());
  REQUIRE(hold.ok());
  std::atomic<bool> answered = false;
  std::thread asker([&] {
    CHECK(ClientOf(server->endpoint())->Verify(request)->ok());
    answered = true;
  });
  absl::SleepFor(absl::Milliseconds(200));
  CHECK_FALSE(answered);
  hold->reset();
  asker.join();
  CHECK(answered);
}

/// Candidate runners below this process; each of their fork servers counts as one.
size_t Runners() { return DescendantsWith(getpid(), "hone-runner").size(); }

bool AwaitRunners(size_t count) {
  for (int wait = 0; wait < 300 && Runners() != count; ++wait) absl::SleepFor(absl::Milliseconds(50));
  return Runners() == count;
}

TEST_CASE("An idle lane starts as many runners as it is told, and none outlives it, however it ends", "[verifier][process]") {
  const char* python = std::getenv("HONE_PYTHON");
  LaneProcessOptions options;
  options.program = Program();
  options.lane.python = python != nullptr ? python : "python3";
  options.lane.sandbox = "none";
  options.lane.runners_ahead = 7;
  absl::StatusOr<std::unique_ptr<Lane>> lane = StartLaneProcess(options);
  if (!lane.ok()) SKIP(lane.status().ToString());
  CHECK(AwaitRunners(1 + 7));
  lane->reset();
  CHECK(AwaitRunners(0));
  lane = StartLaneProcess(options);
  REQUIRE(lane.ok());
  CHECK(AwaitRunners(1 + 7));
  for (const pid_t pid : DescendantsWith(getpid(), "hone-verifier lane")) kill(pid, SIGKILL);
  CHECK(AwaitRunners(0));
}

TEST_CASE("A lane process that is killed says so, and the next one works", "[verifier][process]") {
  LaneProcessOptions options;
  options.program = Program();
  options.lane.device = kNoopDevice;
  absl::StatusOr<std::unique_ptr<Lane>> lane = StartLaneProcess(options);
  REQUIRE(lane.ok());
  CHECK((*lane)->Facts().device == "noop");
  CHECK((*lane)->Judge({}).ok());
  for (pid_t pid : DescendantsWith(getpid(), "hone-verifier lane")) kill(pid, SIGKILL);
  const absl::Status status = (*lane)->Judge({}).status();
  CHECK(absl::IsUnavailable(status));
  CHECK(status.message() == "the lane died of signal 9");
  lane = StartLaneProcess(options);
  REQUIRE(lane.ok());
  CHECK((*lane)->Judge({}).ok());
}

TEST_CASE("A lane process that stops answering is killed at its deadline", "[verifier][process]") {
  LaneProcessOptions options;
  options.program = Program();
  options.lane.device = kNoopDevice;
  options.grace = absl::Milliseconds(200);
  absl::StatusOr<std::unique_ptr<Lane>> lane = StartLaneProcess(options);
  REQUIRE(lane.ok());
  const std::vector<pid_t> pids = DescendantsWith(getpid(), "hone-verifier lane");
  REQUIRE(pids.size() == 1);
  kill(pids.front(), SIGSTOP);
  LaneJob job;
  job.protocol.run_timeout_ms = 100;
  CHECK(absl::IsDeadlineExceeded((*lane)->Judge(job).status()));
  CHECK(DescendantsWith(getpid(), "hone-verifier lane").empty());
}

TEST_CASE("Interrupting a lane process ends the call that waits", "[verifier][process]") {
  LaneProcessOptions options;
  options.program = Program();
  options.lane.device = kNoopDevice;
  absl::StatusOr<std::unique_ptr<Lane>> lane = StartLaneProcess(options);
  REQUIRE(lane.ok());
  for (pid_t pid : DescendantsWith(getpid(), "hone-verifier lane")) kill(pid, SIGSTOP);
  std::thread interrupt([&] {
    absl::SleepFor(absl::Milliseconds(50));
    (*lane)->Interrupt();
  });
  CHECK(absl::IsCancelled((*lane)->Judge({}).status()));
  interrupt.join();
}

TEST_CASE("Killing lanes again and again costs no request its one verdict", "[verifier][process]") {
  const std::unique_ptr<LocalServer> server = StartNoop({"--set=lanes=2", "--set=max_tries=100", "--set=log_level=error"});
  std::atomic<bool> over{false};
  std::thread killer([&] {
    while (!over) {
      for (pid_t pid : DescendantsWith(getpid(), "hone-verifier lane")) kill(pid, SIGKILL);
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  std::vector<VerifyRequest> requests(3000);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].task.reference = "r";
    requests[i].candidate.source = std::to_string(i);
  }
  std::vector<int> answers(requests.size(), 0);
  int ok = 0;
  const absl::Status status = ClientOf(server->endpoint())->VerifyAll(requests, [&](size_t i, const Verdict& verdict) {
    ++answers[i];
    ok += verdict.ok();
  });
  over = true;
  killer.join();
  CHECK(status.ok());
  CHECK(ok == 3000);
  CHECK(answers == std::vector<int>(requests.size(), 1));
}

TEST_CASE("With TLS and tokens only the right certificate authority and a valid token get a verdict", "[verifier][process][access]") {
  const TempFolder folder = MemoryFolder("tls");
  const std::string key = folder.path() + "/key.pem", certificate = folder.path() + "/cert.pem";
  SpawnOptions openssl;
  openssl.argv = {"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                  "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate};
  const absl::StatusOr<RunResult> made = Run(openssl, absl::Seconds(60));
  if (absl::IsNotFound(made.status())) SKIP("openssl is not installed");
  REQUIRE(made.ok());
  REQUIRE(made->exit_code == 0);
  const std::string tokens = folder.path() + "/tokens";
  REQUIRE(WriteFileAtomically(tokens, absl::StrCat("trainer ", Sha256Hex("secret"), " never 100\nold ", Sha256Hex("stale"),
                                                   " 2020-01-01T00:00:00Z 100\n")).ok());
  const std::string address = absl::StrCat("localhost:", FreePort());
  SpawnOptions spawn;
  spawn.argv = {Program(), "--listen=" + address, "--set=devices=[noop]", "--set=lanes=1", "--set=folder=" + folder.path(),
                "--set=tokens=" + tokens, "--set=tls_certificate=" + certificate, "--set=tls_key=" + key};
  absl::StatusOr<Child> child = Child::Spawn(spawn);
  REQUIRE(child.ok());
  ClientOptions options;
  options.endpoints = {address};
  options.deadline = absl::Seconds(20);
  options.max_attempts = 20;
  options.token = "secret";
  options.tls_ca = certificate;
  const auto client = *Client::Create(options);
  VerifyRequest request;
  request.task.reference = "r";
  const absl::StatusOr<Verdict> verdict = client->Verify(request);
  INFO(verdict.status().ToString());
  REQUIRE(verdict.ok());
  int ok = 0;
  CHECK(client->VerifyAll(std::vector<VerifyRequest>(5, request), [&](size_t, const Verdict& verdict) { ok += verdict.ok(); }).ok());
  CHECK(ok == 5);
  for (const auto& [token, word] : std::vector<std::pair<std::string, std::string>>{
           {"", "bearer token"}, {"guess", "unknown"}, {"stale", "expired at 2020"}}) {
    options.token = token;
    const auto stranger = *Client::Create(options);
    const absl::Status status = stranger->Verify(request).status();
    INFO(status.ToString());
    CHECK(absl::IsUnauthenticated(status));
    CHECK(absl::StrContains(status.message(), word));
    CHECK(absl::IsUnauthenticated(stranger->VerifyAll(std::vector<VerifyRequest>(3, request), [](size_t, const Verdict&) {})));
    CHECK(absl::IsUnauthenticated(stranger->GetCapabilities().status()));
  }
  options.token = "secret";
  options.tls_ca.clear();
  options.max_attempts = 1;
  CHECK(absl::IsUnavailable((*Client::Create(options))->Verify(request).status()));
  options.tls_ca = "/no/such/file";
  CHECK(absl::IsNotFound(Client::Create(options).status()));
}

/// One unary call by name with raw bytes, as a tool without our stubs makes it.
grpc::Status RawCall(const std::string& endpoint, const std::string& method, const std::string& request, std::string* reply) {
  grpc::GenericStub stub(grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&tag);
  queue.Next(&tag, &ok);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), &tag);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer buffer;
  call->Read(&buffer, &tag);
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (ok && buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices) reply->append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  grpc::Status status;
  call->Finish(&status, &tag);
  queue.Next(&tag, &ok);
  return status;
}

TEST_CASE("Health and reflection answer tools that know nothing of hone", "[verifier][process]") {
  const std::unique_ptr<LocalServer> server = StartNoop();
  std::string reply;
  // grpc.health.v1.HealthCheckResponse{status: SERVING}, for the server and for the service by name.
  REQUIRE(RawCall(server->endpoint(), "/grpc.health.v1.Health/Check", "", &reply).ok());
  CHECK(reply == "\x08\x01");
  // grpc.reflection.v1alpha.ServerReflectionRequest{list_services: "*"}.
  reply.clear();
  REQUIRE(RawCall(server->endpoint(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*", &reply).ok());
  CHECK(absl::StrContains(reply, "hone.v1.Verifier"));
  CHECK(absl::StrContains(reply, "grpc.health.v1.Health"));
}

}  // namespace
}  // namespace hone::verifier

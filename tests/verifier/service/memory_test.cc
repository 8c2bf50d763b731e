// Nightly: the service's memory does not grow with the jobs it has served.

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/process_tree.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::verifier {
namespace {

/// Resident memory of a process in MB.
double RssMb(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::atof(line.c_str() + 6) / 1024;
  }
  return 0;
}

TEST_CASE("Memory of service and lane is flat over a million jobs", "[verifier][slow]") {
  const char* asked = std::getenv("HONE_MEMORY_JOBS");
  const int jobs = asked == nullptr ? 1'000'000 : std::atoi(asked);
  LocalServerOptions options;
  options.program = TestProgram("hone-verifier");
  if (options.program.empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  options.extra_args = {"--set=devices=[noop]", "--set=lanes=1", "--set=log_level=warning"};
  const std::unique_ptr<LocalServer> server = LocalServer::Start(options).value();
  ClientOptions client_options;
  client_options.endpoints = {server->endpoint()};
  const std::unique_ptr<Client> client = Client::Create(client_options).value();
  const std::vector<pid_t> processes = DescendantsWith(getpid(), "hone-verifier");
  REQUIRE(processes.size() == 2);

  constexpr int kBatches = 10;
  std::vector<std::vector<double>> rss_mb(processes.size());
  int number = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    std::vector<VerifyRequest> requests(static_cast<size_t>(jobs / kBatches));
    for (VerifyRequest& request : requests) {
      request.task.reference = std::string(20, 'r');
      request.candidate.source = absl::StrCat(++number, std::string(500, 'x'));
      // Every other one leaves a result behind that is kept for its key, until its time or its place is over.
      if (number % 2 == 0) request.key = absl::StrCat("key ", number);
    }
    int ok = 0;
    REQUIRE(client->VerifyAll(requests, [&](size_t, const Verdict& verdict) { ok += verdict.ok(); }).ok());
    CHECK(ok == jobs / kBatches);
    for (size_t i = 0; i < processes.size(); ++i) rss_mb[i].push_back(RssMb(processes[i]));
  }
  for (const std::vector<double>& samples : rss_mb) {
    // Allocators and SQLite's cache fill in the first batches. Beyond, a leak of 50 bytes a job would be 40 MB.
    CAPTURE(samples);
    CHECK(samples.front() > 0);
    CHECK(samples.back() < samples[1] + 30);
  }
}

}  // namespace
}  // namespace hone::verifier

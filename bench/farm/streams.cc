#include <signal.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "bench/farm/measure.h"
#include "verifier/client/client.h"
#include "verifier/client/local_farm.h"

namespace hone::bench {
namespace {

using verifier::Client;
using verifier::ClientOptions;
using verifier::LocalFarm;
using verifier::LocalFarmOptions;

constexpr int kProcesses = 10;

/// The largest resident set that a process has had, in MB.
double PeakMegabytes(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    double kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %lf", &kilobytes) == 1) return kilobytes / 1024;
  }
  return 0;
}

SpawnOptions ClientCommand(const FarmPrograms& programs, const std::string& endpoint, int streams, int jobs, int64_t bytes,
                           int64_t wait_ms) {
  SpawnOptions spawn;
  spawn.argv = {programs.bench, "client", endpoint, absl::StrCat("--count=", streams), absl::StrCat("--jobs=", jobs),
                absl::StrCat("--bytes=", bytes), absl::StrCat("--job-ms=", wait_ms)};
  return spawn;
}

/// A process of clients to its end: requests without a verdict.
int ErrorsOf(const SpawnOptions& command, int requests) {
  const absl::StatusOr<RunResult> result = Run(command, absl::Minutes(8));
  int errors = 0;
  if (result.ok() && result->exit_code == 0 && absl::SimpleAtoi(absl::StripAsciiWhitespace(result->output), &errors)) return errors;
  std::fprintf(stderr, "  clients ended badly: %s\n", result.ok() ? result->output.c_str() : result.status().ToString().c_str());
  return requests;
}

/// Lets a process run one tenth of the time until `over`.
void SlowDown(const Child& child, const std::atomic<bool>& over) {
  while (!over) {
    kill(child.pid(), SIGSTOP);
    absl::SleepFor(absl::Milliseconds(90));
    kill(child.pid(), SIGCONT);
    absl::SleepFor(absl::Milliseconds(10));
  }
}

}  // namespace

int RunStreamClients(const std::string& endpoint, int streams, int jobs, int64_t bytes, int64_t wait_ms) {
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int s = 0; s < streams; ++s) {
    threads.emplace_back([&, s] {
      ClientOptions options;
      options.endpoints = {endpoint};
      options.max_attempts = 1;  // whatever goes wrong counts
      const auto client = *Client::Create(options);
      std::vector<VerifyRequest> requests(static_cast<size_t>(jobs));
      for (int i = 0; i < jobs; ++i) {
        VerifyRequest& request = requests[static_cast<size_t>(i)];
        request.task.reference = "r";
        request.task.timing["wait_ms"] = wait_ms;
        request.candidate.source = absl::StrCat(s, " ", i, std::string(static_cast<size_t>(bytes), 'x'));
      }
      int ok = 0;
      client->VerifyAll(requests, [&](size_t, const Verdict& verdict) { ok += verdict.ok(); }).IgnoreError();
      errors += jobs - ok;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

absl::StatusOr<FarmFigures> MeasureStreams(const FarmPrograms& programs, const StreamsOptions& options) {
  LocalFarmOptions farm_options;
  farm_options.program = programs.verifier;
  farm_options.roles = {"front", "lane"};
  farm_options.args = {"--set=devices=[noop]", "--set=lanes=16", "--set=log_level=info"};
  HONE_ASSIGN_OR_RETURN(const auto farm, LocalFarm::Start(farm_options));
  const std::string endpoint = farm->endpoints().front();
  ClientOptions patient;  // until the front has heard of the lanes
  patient.endpoints = {endpoint};
  patient.max_attempts = 50;
  HONE_ASSIGN_OR_RETURN(const auto first, Client::Create(patient));
  VerifyRequest request;
  request.task.reference = "r";
  HONE_RETURN_IF_ERROR(first->Verify(request).status());
  const int each = options.streams / kProcesses;
  const auto command = [&](int streams, int jobs, int64_t bytes) {
    return ClientCommand(programs, endpoint, streams, jobs, bytes, options.wait_ms);
  };
  HONE_ASSIGN_OR_RETURN(Child vanishing, Child::Spawn(command(each, 10 * options.jobs_per_stream, 0)));
  HONE_ASSIGN_OR_RETURN(Child slow, Child::Spawn(command(each, options.jobs_per_stream, 0)));
  std::atomic<bool> over{false};
  std::thread slow_down([&] { SlowDown(slow, over); });
  std::atomic<int> errors{0};
  std::vector<std::thread> good;
  for (int p = 2; p < kProcesses; ++p) {
    good.emplace_back([&] { errors += ErrorsOf(command(each, options.jobs_per_stream, 0), each * options.jobs_per_stream); });
  }
  good.emplace_back([&] { errors += ErrorsOf(command(options.large, 1, options.large_bytes), options.large); });
  absl::SleepFor(absl::Seconds(2));
  vanishing.Kill();
  for (std::thread& thread : good) thread.join();
  over = true;
  slow_down.join();
  kill(slow.pid(), SIGCONT);
  const double megabytes = PeakMegabytes(farm->pid(0));
  if (megabytes == 0) return absl::InternalError("the front is gone");
  return FarmFigures{{"farm.streams_1000_errors", static_cast<double>(errors), "requests"},
                     {"farm.streams_1000_mb", megabytes, "MB"}};
}

}  // namespace hone::bench

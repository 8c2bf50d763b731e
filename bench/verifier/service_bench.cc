// What the verifier costs as a service: the path of a request with a device that judges nothing, a verdict that is known
// already, and real candidates of the CPU backend, built anew and from the artefact store.
//
//   service_bench all --record bench/results.json

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/task_suite.h"
#include "bench/spread.h"
#include "rollout/sampler/generator.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::verifier {
namespace {

using bench::Quantile;

struct Arguments {
  std::string what = "all";
  int noop_jobs = 50'000;
  int cpu_tasks = 24;
  int candidates_per_task = 8;
  std::string record;
  std::string source_folder = ".";
};

struct Figure {
  std::string id;
  double value;
  std::string unit;
};
using Figures = std::vector<Figure>;

/// Processor seconds of all children that have ended and been waited for, theirs included.
double ChildrenSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// What all processes below this one hold and have used: resident megabytes, processor seconds with those of their children
/// that have ended.
struct Descendants {
  double mb = 0;
  double seconds = 0;
};

Descendants Measure() {
  constexpr size_t kParent = 1, kFirstTime = 11, kLastTime = 14, kPages = 21;  // proc(5), counted from the state
  std::map<int, std::vector<std::string>> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    const absl::StatusOr<std::string> stat = ReadFile(entry.path().string() + "/stat", 1 << 16);
    if (!stat.ok() || stat->rfind(')') == std::string::npos) continue;  // it ended meanwhile
    std::vector<std::string> fields = absl::StrSplit(stat->substr(stat->rfind(')') + 2), ' ');
    if (fields.size() > kPages) processes[pid] = std::move(fields);
  }
  const auto number = [&](int pid, size_t field) {
    int64_t value = 0;
    return absl::SimpleAtoi(processes[pid][field], &value) ? value : 0;
  };
  Descendants total;
  for (const auto& [pid, fields] : processes) {
    int above = pid;
    while (above != getpid() && processes.count(above) != 0) above = static_cast<int>(number(above, kParent));
    if (above != getpid() || pid == getpid()) continue;
    total.mb += static_cast<double>(number(pid, kPages)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
    for (size_t field = kFirstTime; field <= kLastTime; ++field) {
      total.seconds += static_cast<double>(number(pid, field)) / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
  }
  return total;
}

absl::StatusOr<std::unique_ptr<LocalServer>> StartServer(std::vector<std::string> settings) {
  LocalServerOptions options;
  options.extra_args = std::move(settings);
  return LocalServer::Start(options);
}

absl::StatusOr<std::unique_ptr<Client>> ClientOf(const LocalServer& server) {
  ClientOptions options;
  options.endpoints = {server.endpoint()};
  return Client::Create(options);
}

/// Sends all; the seconds it took. INFRA is an error.
absl::StatusOr<double> Send(Client& client, const std::vector<VerifyRequest>& requests, std::map<std::string, int>* mix) {
  absl::Status failed;
  const SteadyTime begin = SteadyTime::Now();
  HONE_RETURN_IF_ERROR(client.VerifyAll(requests, [&](size_t, const Verdict& verdict) {
    if (mix != nullptr) ++(*mix)[std::string(Name(verdict.status))];
    if (verdict.status == VerdictStatus::kInfra) failed = absl::InternalError(verdict.message);
  }));
  HONE_RETURN_IF_ERROR(failed);
  return absl::ToDoubleSeconds(SteadyTime::Now() - begin);
}

// ---- The service alone. ----

absl::StatusOr<Figures> Noop(const Arguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const Task task, LoadTask("row_range"));
  std::vector<VerifyRequest> requests(static_cast<size_t>(arguments.noop_jobs));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].task = task;
    requests[i].candidate.source = absl::StrCat("// ", i, "\n", std::string(1000, 'x'));
  }
  const double before = ChildrenSeconds();
  double seconds = 0;
  {
    HONE_ASSIGN_OR_RETURN(const std::unique_ptr<LocalServer> server,
                          StartServer({"--set=devices=[noop]", "--set=lanes=1", "--set=log_level=warning"}));
    HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ClientOf(*server));
    HONE_ASSIGN_OR_RETURN(seconds, Send(*client, requests, nullptr));
  }
  const double processor_seconds = ChildrenSeconds() - before;
  const double jobs = arguments.noop_jobs;
  return Figures{{"verifier.noop_per_s_per_core", jobs / processor_seconds, "1/s"}, {"verifier.noop_per_s", jobs / seconds, "1/s"}};
}

// ---- Its memory. ----

/// A million jobs through one verifier; what it holds after a tenth of them is what it needs.
absl::StatusOr<Figures> Memory(const Arguments&) {
  constexpr int kJobs = 1'000'000, kBatch = 20'000;
  HONE_ASSIGN_OR_RETURN(const Task task, LoadTask("row_range"));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<LocalServer> server,
                        StartServer({"--set=devices=[noop]", "--set=lanes=1", "--set=log_level=warning"}));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ClientOf(*server));
  Figures figures;
  for (int done = 0; done < kJobs;) {
    std::vector<VerifyRequest> requests(kBatch);
    for (VerifyRequest& request : requests) {
      request.task = task;
      request.candidate.source = absl::StrCat("// ", done++, "\n", std::string(1000, 'x'));
    }
    HONE_RETURN_IF_ERROR(Send(*client, requests, nullptr).status());
    if (done == kJobs / 10) figures.push_back({"verifier.noop_rss_mb_at_1e5", Measure().mb, "MB"});
  }
  figures.push_back({"verifier.noop_rss_mb_at_1e6", Measure().mb, "MB"});
  return figures;
}

// ---- A verdict that is known. ----

absl::StatusOr<Figures> Cached(const Arguments&) {
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<LocalServer> server, StartServer({"--set=log_level=warning"}));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ClientOf(*server));
  rollout::Generator generator(1);
  rollout::SplitMix random(2);
  VerifyRequest request;
  const rollout::GeneratedTask drawn = generator.NextTask();
  request.task = drawn.task;
  request.candidate.source = rollout::DrawDemonstration(drawn.program, {.flawed_share = 0}, random).source;
  HONE_ASSIGN_OR_RETURN(request.protocol, ProtocolById("quick"));
  HONE_RETURN_IF_ERROR(client->Verify(request).status());
  std::vector<double> milliseconds;
  for (int i = 0; i < 2000; ++i) {
    const SteadyTime begin = SteadyTime::Now();
    HONE_ASSIGN_OR_RETURN(const Verdict verdict, client->Verify(request));
    if (!verdict.from_cache) return absl::InternalError("a verdict that should be known was measured again");
    milliseconds.push_back(absl::ToDoubleMilliseconds(SteadyTime::Now() - begin));
  }
  return Figures{{"verifier.cached_ms_p50", Quantile(milliseconds, 0.5), "ms"},
                 {"verifier.cached_ms_p99", Quantile(milliseconds, 0.99), "ms"}};
}

// ---- Real candidates. ----

absl::StatusOr<Figures> Cpu(const Arguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<LocalServer> server, StartServer({"--set=log_level=warning"}));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ClientOf(*server));
  HONE_ASSIGN_OR_RETURN(const Protocol quick, ProtocolById("quick"));
  rollout::Generator generator(1);
  rollout::SplitMix random(2);
  std::vector<VerifyRequest> requests;
  for (int i = 0; i < arguments.cpu_tasks; ++i) {
    const rollout::GeneratedTask drawn = generator.NextTask();
    for (int j = 0; j < arguments.candidates_per_task; ++j) {
      VerifyRequest request;
      request.task = drawn.task;
      request.candidate.source = absl::StrCat(rollout::DrawDemonstration(drawn.program, {}, random).source, "// ", j, "\n");
      request.protocol = quick;
      requests.push_back(std::move(request));
    }
  }
  // The first candidate waits for torch to be imported; that is a cost of the start, not of a verdict.
  HONE_RETURN_IF_ERROR(client->DescribeTask(generator.NextTask().task).status());
  std::map<std::string, int> mix;
  HONE_ASSIGN_OR_RETURN(const double cold, Send(*client, requests, &mix));
  for (VerifyRequest& request : requests) request.use_cache = false;
  const double before = Measure().seconds;
  HONE_ASSIGN_OR_RETURN(const double warm, Send(*client, requests, nullptr));
  const double processor = Measure().seconds - before;
  for (const auto& [status, count] : mix) std::printf("  %d %s\n", count, status.c_str());
  const auto jobs = static_cast<double>(requests.size());
  return Figures{{"verify_cpu.cold_per_s", jobs / cold, "1/s"}, {"verify_cpu.warm_per_s", jobs / warm, "1/s"},
                 {"verify_cpu.warm_processor_ms", 1e3 * processor / jobs, "ms of processors a verdict"}};
}

// ---- All of it. ----

absl::Status Bench(const Arguments& arguments) {
  Figures figures;
  const std::vector<std::pair<std::string, absl::StatusOr<Figures> (*)(const Arguments&)>> parts = {
      {"noop", Noop}, {"memory", Memory}, {"cached", Cached}, {"cpu", Cpu}};
  for (const auto& [name, part] : parts) {
    if (arguments.what != name && (arguments.what != "all" || name == "memory")) continue;  // which takes minutes
    HONE_ASSIGN_OR_RETURN(const Figures measured, part(arguments));
    figures.insert(figures.end(), measured.begin(), measured.end());
  }
  std::vector<BenchResult> results;
  for (const Figure& figure : figures) {
    std::printf("%-32s %10.4g %s\n", figure.id.c_str(), figure.value, figure.unit.c_str());
    results.push_back({figure.id, figure.value, figure.unit, ThisCommand(arguments.source_folder),
                       MachineKind(), Today(), CurrentCommit(arguments.source_folder)});
  }
  return arguments.record.empty() ? absl::OkStatus() : RecordResults(arguments.record, results);
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures the verifier as a service."};
  Arguments arguments;
  app.add_option("what", arguments.what)->check(CLI::IsMember({"noop", "memory", "cached", "cpu", "all"}));
  app.add_option("--jobs", arguments.noop_jobs, "of the no-op device")->check(CLI::Range(1, 100'000'000));
  app.add_option("--tasks", arguments.cpu_tasks, "of the CPU device")->check(CLI::Range(1, 100'000));
  app.add_option("--record", arguments.record, "results file to put the figures into");
  app.add_option("--source", arguments.source_folder, "checkout whose commit is recorded");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Bench(arguments);
  if (!status.ok()) std::fprintf(stderr, "service_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace hone::verifier

int main(int argc, char** argv) { return hone::verifier::Main(argc, argv); }

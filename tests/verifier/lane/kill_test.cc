// The lane's helpers are killed under it: one call may fail, as ours and never as the candidate's, and the next is served.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "lane/bench.h"
#include "verifier/device/device.h"
#include "verifier/lane/findings.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

using test::Bench;
using test::kRowScale;
using test::QuickEager;
using test::RowScale;

struct Process {
  int parent = 0;
  std::string name;
};

std::map<int, Process> Processes() {
  std::map<int, Process> processes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;  // stays empty where the process has ended meanwhile
    std::getline(file, text, '\0');
    const size_t open = text.find('('), close = text.rfind(')');
    if (close == std::string::npos) continue;
    processes[pid] = {std::atoi(text.c_str() + close + 4), text.substr(open + 1, close - open - 1)};
  }
  return processes;
}

/// Living descendants of this process by the name of their program, in the order of their numbers.
std::vector<pid_t> Descendants(const std::string& name) {
  const std::map<int, Process> processes = Processes();
  std::vector<pid_t> found;
  for (const auto& [pid, process] : processes) {
    int at = pid;
    while (at > 1 && at != getpid() && processes.count(at) > 0) at = processes.at(at).parent;
    if (at == getpid() && pid != getpid() && process.name.rfind(name, 0) == 0) found.push_back(pid);
  }
  return found;
}

/// Of the candidate runners: the zygote, or those that it forked. Their numbers tell nothing once they have wrapped around.
std::vector<pid_t> Runners(bool zygote) {
  const std::map<int, Process> processes = Processes();
  std::vector<pid_t> found;
  for (const pid_t pid : Descendants("hone-runner")) {
    const auto at = processes.find(pid);
    if (at == processes.end()) continue;
    const auto parent = processes.find(at->second.parent);
    const bool forked = parent != processes.end() && parent->second.name.rfind("hone-runner", 0) == 0;
    if (forked != zygote) found.push_back(pid);
  }
  return found;
}

LaneJob Job(const std::string& source) {
  Bench& bench = Bench::Get();
  LaneJob job;
  job.task = RowScale();
  job.signature = bench.Describe(job.task);
  job.build = bench.artefacts().Build(source, job.signature);
  job.protocol = QuickEager();
  REQUIRE(job.build.status == VerdictStatus::kOk);
  return job;
}

/// After `kill`: at most one call fails, with kUnavailable, and then all is well.
void CheckRecovery(const LaneJob& job) {
  const auto first = Bench::Get().lane().Judge(job);
  INFO(first.status());
  CHECK((absl::IsUnavailable(first.status()) || (first.ok() && first->ok())));
  const auto second = Bench::Get().lane().Judge(job);
  INFO(second.status());
  REQUIRE(second.ok());
  CHECK(second->ok());
}

TEST_CASE("A killed reference worker costs at most one call", "[verifier][lane]") {
  const LaneJob job = Job(kRowScale);
  for (const pid_t pid : Descendants("python")) kill(pid, SIGKILL);
  CheckRecovery(job);
}

TEST_CASE("A killed sandbox costs at most one call", "[verifier][lane]") {
  if (ChooseSandbox("").value() == "none") SKIP("candidates run without a sandbox here");
  const LaneJob job = Job(kRowScale);
  const std::vector<pid_t> boxes = Descendants("bwrap");
  REQUIRE(!boxes.empty());
  kill(boxes.front(), SIGKILL);
  CheckRecovery(job);
}

TEST_CASE("A killed zygote costs at most one call", "[verifier][lane]") {
  const LaneJob job = Job(kRowScale);
  const std::vector<pid_t> zygotes = Runners(/*zygote=*/true);
  REQUIRE(!zygotes.empty());
  for (const pid_t zygote : zygotes) kill(zygote, SIGKILL);
  CheckRecovery(job);
}

TEST_CASE("Runners that were forked ahead and killed are replaced", "[verifier][lane]") {
  const LaneJob job = Job(kRowScale);
  REQUIRE(Bench::Get().lane().Judge(job).ok());
  const auto wait_until = [](bool there) {  // the zygote forks, and sees ends, when it gets round to it
    for (int wait = 0; Runners(/*zygote=*/false).empty() == there && wait < 600; ++wait) absl::SleepFor(absl::Milliseconds(50));
    return Runners(/*zygote=*/false).empty() != there;
  };
  REQUIRE(wait_until(true));
  for (int again = 0; again < 100 && !Runners(false).empty(); ++again) {  // one may be forked meanwhile
    for (const pid_t runner : Runners(false)) kill(runner, SIGKILL);
    absl::SleepFor(absl::Milliseconds(20));
  }
  REQUIRE(wait_until(false));
  const auto verdict = Bench::Get().lane().Judge(job);
  INFO(verdict.status());
  REQUIRE(verdict.ok());
  CHECK(verdict->ok());
}

TEST_CASE("An idle lane's runners are used one after the other, and those that died meanwhile are passed over", "[verifier][lane]") {
  LaneOptions options;
  const char* python = std::getenv("HONE_PYTHON");
  options.python = python != nullptr ? python : "python3";
  options.runners_ahead = 6;
  const LaneJob job = Job(kRowScale);  // by the lane of all cases, whose runners are others
  for (int wait = 0; Runners(/*zygote=*/false).size() < 3 && wait < 100; ++wait) absl::SleepFor(absl::Milliseconds(50));
  const std::vector<pid_t> others = Runners(/*zygote=*/false);
  const auto own = [&] {
    std::vector<pid_t> pids = Runners(/*zygote=*/false);
    std::erase_if(pids, [&](pid_t pid) { return std::count(others.begin(), others.end(), pid) > 0; });
    return pids;
  };
  const auto lane = Lane::Create(options).value();
  for (int step = 0; lane->WorkAhead(); ++step) REQUIRE(step < 6);
  const std::vector<pid_t> ahead = own();
  REQUIRE(ahead.size() == 6);
  for (const size_t victim : {0, 1, 3}) kill(ahead[victim], SIGKILL);
  const auto verdict = lane->Judge(job);
  INFO(verdict.status());
  REQUIRE(verdict.ok());
  CHECK(verdict->ok());
  for (int step = 0; lane->WorkAhead(); ++step) REQUIRE(step < 6);
  CHECK(own().size() == 6);
  for (const pid_t zygote : Runners(/*zygote=*/true)) kill(zygote, SIGKILL);  // the shared lane's, too
  (void)lane->WorkAhead();
  const auto recovered = lane->Judge(job);
  CHECK((absl::IsUnavailable(recovered.status()) || (recovered.ok() && recovered->ok())));
  CheckRecovery(job);
}

TEST_CASE("Whoever was killed after its answer was killed; whoever ended then meant to", "[verifier][lane]") {
  RunnerReport ended;
  ended.kind = RunnerReport::Kind::kEnded;
  ended.status = SIGKILL;
  const Finding killed = ExplainGone(ended, CpuDeviceTable(), "");
  CHECK(killed.from_outside);
  CHECK(killed.status != VerdictStatus::kCheat);
  ended.exited = true;
  ended.status = 0;
  CHECK(ExplainGone(ended, CpuDeviceTable(), "").status == VerdictStatus::kCheat);
  ended.exited = false;
  ended.status = SIGTERM;
  CHECK(ExplainGone(ended, CpuDeviceTable(), "").status == VerdictStatus::kCheat);
}

TEST_CASE("A runner killed at any moment is never held against its candidate", "[verifier][lane]") {
  LaneJob job = Job(kRowScale);
  job.protocol.min_rounds = job.protocol.max_rounds = 40;
  std::mt19937 random(7);
  for (int i = 0; i < 12; ++i) {
    const absl::Duration when = absl::Microseconds(std::uniform_int_distribution<int>(0, 120'000)(random));
    std::thread killer([&] {
      absl::SleepFor(when);
      const std::vector<pid_t> pids = Runners(/*zygote=*/false);
      if (!pids.empty()) kill(pids[random() % pids.size()], SIGKILL);
    });
    const auto verdict = Bench::Get().lane().Judge(job);
    killer.join();
    INFO("after " << when << ": " << verdict.status() << (verdict.ok() ? verdict->message : ""));
    CHECK((absl::IsUnavailable(verdict.status()) || (verdict.ok() && verdict->ok())));
  }
}

TEST_CASE("Helpers killed in the middle of a candidate are not held against it", "[verifier][lane]") {
  LaneJob job = Job(kRowScale);
  job.protocol.min_rounds = job.protocol.max_rounds = 150;
  job.protocol.run_timeout_ms = 60'000;
  for (const char* victim : {"python", "bwrap", "hone-runner"}) {
    std::thread killer([&] {
      absl::SleepFor(absl::Milliseconds(40));
      const std::vector<pid_t> pids = Descendants(victim);
      if (!pids.empty()) kill(pids.back(), SIGKILL);
    });
    const auto verdict = Bench::Get().lane().Judge(job);
    killer.join();
    INFO(victim << ": " << verdict.status());
    CHECK((absl::IsUnavailable(verdict.status()) || (verdict.ok() && verdict->ok())));
    const auto next = Bench::Get().lane().Judge(Job(kRowScale));
    INFO(next.status());
    REQUIRE(next.ok());
    CHECK(next->ok());
  }
}

TEST_CASE("No process of a finished candidate stays", "[verifier][lane]") {
  const LaneJob job = Job(kRowScale);
  for (int i = 0; i < 3; ++i) REQUIRE(Bench::Get().lane().Judge(job).ok());
  // The zygote and the runners forked ahead for the next candidate.
  CHECK(Descendants("hone-runner").size() <= 4);
}

/// Processor time of a process so far; 0 for one that is gone.
double CpuSeconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;  // state to cmajflt
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

TEST_CASE("A candidate that never ends is gone within a second of its deadline", "[verifier][lane]") {
  constexpr double kLimit = 1.5;
  std::string source = kRowScale;
  source.insert(source.rfind("  scale<<<"), "  for (volatile int i = 0;; i = i + 1) {\n  }\n");
  LaneJob job = Job(source);
  job.protocol.run_timeout_ms = static_cast<int64_t>(1000 * kLimit);
  std::atomic<bool> over = false;
  double most = 0;  // by processor time: what a busy machine takes from the candidate is not its own
  std::thread watch([&] {
    for (; !over; absl::SleepFor(absl::Milliseconds(10))) {
      for (const pid_t pid : Descendants("hone-runner")) most = std::max(most, CpuSeconds(pid));
    }
  });
  const auto verdict = Bench::Get().lane().Judge(job);
  over = true;
  watch.join();
  REQUIRE(verdict.ok());
  CHECK(verdict->status == VerdictStatus::kTimeout);
  CHECK(most > 0.2);  // it did run
  CHECK(most <= kLimit + 1);
  for (const pid_t pid : Descendants("hone-runner")) CHECK(CpuSeconds(pid) < most);
}

TEST_CASE("An interrupted lane returns soon, and says so ever after", "[verifier][lane]") {
  LaneOptions options;
  const char* python = std::getenv("HONE_PYTHON");
  options.python = python != nullptr ? python : "python3";
  const auto lane = Lane::Create(options).value();
  LaneJob job = Job(kRowScale);
  job.protocol.min_rounds = job.protocol.max_rounds = 100'000;
  job.protocol.run_timeout_ms = 600'000;
  std::thread interrupter([&] {
    absl::SleepFor(absl::Seconds(1));
    lane->Interrupt();
  });
  const SteadyTime start = SteadyTime::Now();
  const auto verdict = lane->Judge(job);
  interrupter.join();
  CHECK(absl::IsCancelled(verdict.status()));
  CHECK(SteadyTime::Now() - start < absl::Seconds(60));
  CHECK(absl::IsCancelled(lane->Judge(job).status()));
}

}  // namespace
}  // namespace hone::verifier

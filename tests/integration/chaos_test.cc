// A verifier under fire: while its queue is worked off, every process of it is killed at random, its disk fills up, each sync
// of it is slow, and the time of day jumps by hours and days. Promised is that every job still gets exactly one verdict, that
// it is the right one, and that nothing is left behind. 200 jobs here, 2,000 in the nightly configuration (HONE_CHAOS_JOBS).

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "tests/support/memory_folder.h"
#include "tests/support/process_tree.h"
#include "tests/support/small_disk.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"

namespace hone::verifier {
namespace {

using testing::SmallDisk;

constexpr int64_t kDiskBytes = 64 << 20;

int Jobs() {
  int jobs = 200;
  const char* wanted = std::getenv("HONE_CHAOS_JOBS");
  return wanted != nullptr && absl::SimpleAtoi(wanted, &jobs) ? jobs : 200;
}

Task Shifted() {
  Task task;
  task.id = "shifted";
  task.reference = R"(
import torch
n = 3000
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1
def get_inputs():
    return [torch.randn(n)]
def get_init_inputs():
    return []
)";
  task.variants = {{{"n", 1}}, {{"n", 257}}};
  return task;
}

std::string Kernel(const std::string& body) {
  return R"(
__global__ void shift(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  )" + body + R"(
}
extern "C" void launch(const float* x, float* out, int n, cudaStream_t stream) {
  shift<<<(n + 127) / 128, 128, 0, stream>>>(x, out, n);
}
)";
}

/// What a candidate is and what its verdict has to be.
struct Kind {
  std::string source;
  VerdictStatus status;
};

std::vector<Kind> Kinds() {
  return {{Kernel("if (i < n) out[i] = x[i] * 2 + 1;"), VerdictStatus::kOk},
          {Kernel("if (i < n) out[i] = fmaf(2.f, x[i], 1.f);"), VerdictStatus::kOk},
          {Kernel("if (i < n) out[i] = x[i] * 2;"), VerdictStatus::kIncorrect},
          {Kernel("if (i < n - 1) out[i] = x[i] * 2 + 1;"), VerdictStatus::kIncorrect},
          {Kernel("if (i < n) out[i] = x[i] * 2 + one;"), VerdictStatus::kCompile},
          {Kernel("if (i < n) out[i + n] = x[i] * 2 + 1;"), VerdictStatus::kRuntime}};
}

/// The service: kept alive by a thread of its own, whoever kills it.
class Service {
 public:
  Service(const std::string& program, const std::string& folder) : folder_(folder) {
    spawn_.argv = {program, absl::StrCat("--listen=", endpoint()), absl::StrCat("--set=folder=", folder, "/state"),
                   "--set=lanes=1", "--set=build_slots=1", "--set=max_tries=100", "--set=log_level=error"};
    const std::string clock = folder + "/clock";
    clock_ = UniqueFd(open(clock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    SetClock(0);
    spawn_.environment = {absl::StrCat("TMPDIR=", folder, "/tmp"), absl::StrCat("HONE_CLOCK_OFFSET=", clock),
                          "LD_PRELOAD=" HONE_SLOW_DISK ":" HONE_JUMPING_CLOCK};
    keeper_ = std::thread([this] { Keep(); });
  }
  ~Service() {
    if (keeper_.joinable()) Stop();
  }
  std::string endpoint() const { return absl::StrCat("unix:", folder_, "/socket"); }
  pid_t pid() const { return pid_; }
  /// Sets the time of day of all its processes, by so much off from the machine's.
  bool SetClock(int64_t offset_s) { return pwrite(clock_.get(), &offset_s, sizeof offset_s, 0) == sizeof offset_s; }
  int starts() const { return starts_; }

  /// As an operator stops it. Its exit code.
  int Stop() {
    stopping_ = true;
    keeper_.join();
    return exit_code_;
  }

 private:
  void Keep() {
    while (true) {
      absl::StatusOr<Child> child = Child::Spawn(spawn_);
      if (!child.ok()) return;
      ++starts_;
      pid_ = child->pid();
      while (!child->Ended() && !stopping_) absl::SleepFor(absl::Milliseconds(5));
      pid_ = -1;
      if (stopping_) {
        child->Terminate();
        exit_code_ = child->Wait(SteadyTime::Now() + absl::Seconds(60)).value_or(-1);
        return;
      }
    }
  }

  std::string folder_;
  UniqueFd clock_;
  SpawnOptions spawn_;
  std::atomic<pid_t> pid_ = -1;
  std::atomic<int> starts_ = 0;
  std::atomic<bool> stopping_ = false;
  int exit_code_ = -1;
  std::thread keeper_;
};

/// One random fault for every few verdicts, at a random time after them.
class Chaos {
 public:
  Chaos(Service* service, SmallDisk* disk, uint32_t seed) : service_(service), disk_(disk), random_(seed) {
    thread_ = std::thread([this] {
      for (int next = 1; !over_; next += 4 + static_cast<int>(random_() % 8)) {
        while (!over_ && verdicts_ < next) absl::SleepFor(absl::Milliseconds(2));
        absl::SleepFor(absl::Milliseconds(random_() % 200));
        if (!over_) Strike();
      }
    });
  }
  void CountVerdict() { ++verdicts_; }
  std::map<std::string, int> End() {
    over_ = true;
    thread_.join();
    return struck_;
  }

 private:
  void Strike() {
    // What the words find: the service's command line, its lanes', Python's script, the runners, and the compile server.
    static constexpr const char* kVictims[] = {"lane --fd", "reference_worker.py", "hone-runner", "bwrap", "compile-server"};
    if (next_.empty()) {  // each kind once, then each again: a few strikes reach all
      for (size_t kind = 0; kind < std::size(kVictims) + 3; ++kind) next_.push_back(kind);
      std::shuffle(next_.begin(), next_.end(), random_);
    }
    const size_t which = next_.back();
    next_.pop_back();
    if (which == std::size(kVictims)) return FillDisk();
    if (which == std::size(kVictims) + 1) return JumpClock();
    if (which > std::size(kVictims)) return Kill("service", service_->pid());
    const std::vector<pid_t> found = DescendantsWith(getpid(), kVictims[which]);
    if (!found.empty()) Kill(kVictims[which], found[random_() % found.size()]);
  }
  void Kill(const std::string& name, pid_t pid) {
    if (pid > 1 && kill(pid, SIGKILL) == 0) ++struck_[name];
  }
  void JumpClock() {
    static constexpr int64_t kJumps_s[] = {-86'400, -3'600, -30, 0, 30, 3'600, 86'400};
    if (service_->SetClock(kJumps_s[random_() % std::size(kJumps_s)])) ++struck_["clock"];
  }
  void FillDisk() {
    if (disk_ == nullptr) return;
    const std::string ballast = disk_->path() + "/ballast";
    const UniqueFd file(open(ballast.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    struct statvfs left = {};
    if (!file || statvfs(disk_->path().c_str(), &left) != 0) return;
    if (posix_fallocate(file.get(), 0, static_cast<off_t>(left.f_bavail * left.f_bsize)) == 0) ++struck_["full disk"];
    absl::SleepFor(absl::Milliseconds(200));
    unlink(ballast.c_str());
  }

  Service* service_;
  SmallDisk* disk_;
  std::mt19937 random_;
  std::vector<size_t> next_;  // kinds of strikes, the next one last
  std::atomic<bool> over_ = false;
  std::atomic<int> verdicts_ = 0;
  std::map<std::string, int> struck_;
  std::thread thread_;
};

/// Names in a folder, "." and ".." and torch's own cache left out.
std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = opendir(folder.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && name.rfind("torchinductor", 0) != 0) names.push_back(name);
  }
  closedir(open);
  return names;
}

/// Names below a folder that writing a file atomically gives to what is not yet there (base/file.h).
std::vector<std::string> HalfWritten(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (absl::StrContains(entry.path().filename().string(), ".tmp")) found.push_back(entry.path());
  }
  return found;
}

/// Every process below this one that is still there.
std::vector<pid_t> ProcessesLeft() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  std::vector<pid_t> left = DescendantsWith(getpid(), "");
  std::erase_if(left, [](pid_t pid) { return kill(pid, 0) != 0; });  // what listed them
  return left;
}

/// System V's segments, the one kind of shared memory that outlives all processes which map it, but for files.
std::string SharedMemory() { return ReadFile("/proc/sysvipc/shm").value_or(""); }

TEST_CASE("Whatever dies or fills up, each job gets one verdict, the right one, and nothing is left behind", "[chaos]") {
  const std::string program = TestProgram("hone-verifier");
  if (program.empty() || TestPython().empty()) SKIP("no hone-verifier, or no Python with torch");
  const std::string shared_memory = SharedMemory();
  const SteadyTime begin = SteadyTime::Now();
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the service leaves behind becomes a child of this process
  const TempFolder folder = MemoryFolder("chaos");
  const std::unique_ptr<SmallDisk> disk = SmallDisk::Mount(kDiskBytes);  // null without root: then no disk fills up
  const std::string place = disk ? disk->path() : folder.path();
  REQUIRE(MakeFolders(place + "/tmp").ok());

  const std::vector<Kind> kinds = Kinds();
  std::vector<VerifyRequest> requests(static_cast<size_t>(Jobs()));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].task = Shifted();
    requests[i].candidate.source = absl::StrCat(kinds[i % kinds.size()].source, "// ", i, "\n");
    requests[i].protocol = ProtocolById("quick").value();
    requests[i].protocol.baselines = {Baseline::kEager};
  }

  Service service(program, place);
  ClientOptions options;
  options.endpoints = {service.endpoint()};
  options.max_attempts = 10'000;
  const std::unique_ptr<Client> client = *Client::Create(options);
  Chaos chaos(&service, disk.get(), /*seed=*/20);

  std::vector<int> verdicts(requests.size());
  std::vector<std::string> wrong;
  std::vector<size_t> open(requests.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  // A full disk is the one thing that a client is told of: it asks again for what was refused.
  for (int round = 0; round < 100 && !open.empty(); ++round) {
    std::vector<VerifyRequest> batch;
    for (const size_t i : open) batch.push_back(requests[i]);
    std::vector<size_t> refused;
    const absl::Status status = client->VerifyAll(batch, [&](size_t at, const Verdict& verdict) {
      const size_t i = open[at];
      if (verdict.status == VerdictStatus::kInfra) return refused.push_back(i);
      ++verdicts[i];
      chaos.CountVerdict();
      if (verdict.status == kinds[i % kinds.size()].status) return;
      wrong.push_back(absl::StrCat(i, ": ", std::string(Name(verdict.status)), " ", verdict.message));
    });
    INFO(status.ToString());
    REQUIRE(status.ok());
    open = refused;
  }
  const std::map<std::string, int> struck = chaos.End();
  std::string report;
  for (const auto& [name, count] : struck) absl::StrAppend(&report, name, " ", count, ", ");
  INFO("struck: " << report << "service starts: " << service.starts() << "; wrong: "
                  << absl::StrJoin(wrong, "; "));
  CHECK(open.empty());
  CHECK(wrong.empty());
  CHECK(std::count(verdicts.begin(), verdicts.end(), 1) == static_cast<int64_t>(verdicts.size()));
  CHECK(struck.size() == (disk ? 8 : 7));  // every kind of victim, a full disk, the clock

  CHECK(service.Stop() == 0);
  for (int wait = 0; wait < 100 && !ProcessesLeft().empty(); ++wait) absl::SleepFor(absl::Milliseconds(20));
  CHECK(ProcessesLeft() == std::vector<pid_t>{});
  CHECK(Names(place + "/tmp") == std::vector<std::string>{});
  CHECK(HalfWritten(place + "/state") == std::vector<std::string>{});
  CHECK(SharedMemory() == shared_memory);
  std::printf("%zu jobs in %.0f s: %sservice started %d times\n", requests.size(),
              absl::ToDoubleSeconds(SteadyTime::Now() - begin), report.c_str(), service.starts());
}

}  // namespace
}  // namespace hone::verifier

#include "base/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <map>
#include <optional>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/steady_time.h"

extern char** environ;

namespace hone {
namespace {

// ---- What the child does between vfork and exec: system calls on memory prepared by the parent, nothing else. ----

struct Limit {
  int resource;
  rlimit value;
};

struct ChildPlan {
  const char* program;
  char** argv;
  char** environment;
  const char* folder;  // or null
  std::vector<std::pair<int, int>> fds;  // {source, target}; sources and spare slots lie above every target
  int first_spare;                       // numbers from here on are free for the sources
  std::vector<Limit> limits;
  bool die_with_parent;
  pid_t parent;
  // Written by the child, which shares this memory until it execs.
  int error = 0;
  const char* failed_step = nullptr;
};

void CloseFrom(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0u, 0u) == 0) return;
#endif
  rlimit limit;
  const int end = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) : 65536;
  for (int fd = first; fd < end; ++fd) close(fd);
}

/// Moves the sources out of the way of the targets, then to the targets, and closes the rest.
bool ArrangeFds(ChildPlan& plan) {
  for (auto& [source, target] : plan.fds) {
    source = fcntl(source, F_DUPFD_CLOEXEC, plan.first_spare);
    if (source < 0) return false;
  }
  for (const auto& [source, target] : plan.fds) {
    if (dup2(source, target) < 0) return false;
  }
  for (int fd = 0; fd < plan.first_spare; ++fd) {
    bool wanted = false;
    for (const auto& [source, target] : plan.fds) wanted = wanted || target == fd;
    if (!wanted) close(fd);
  }
  CloseFrom(plan.first_spare);
  return true;
}

// Straight to the kernel: the C library keeps two real-time signals to itself and refuses to touch them, but a parent may
// have left them ignored. Zeros are the default action without flags.
void ResetSignals() {
  constexpr int kSignals = 64;
  const unsigned long action[4] = {};  // handler, flags, restorer, mask
  for (int number = 1; number <= kSignals; ++number) syscall(SYS_rt_sigaction, number, action, nullptr, sizeof(action[0]));
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

int ChildMain(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  const auto fail = [&plan](const char* step) {
    plan.error = errno;
    plan.failed_step = step;
    _exit(127);
  };
  if (setpgid(0, 0) != 0) fail("setting the process group for");
  if (plan.die_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail("binding the life of");
    if (getppid() != plan.parent) _exit(127);  // it died before the line above
  }
  if (!ArrangeFds(plan)) fail("passing descriptors to");
  if (plan.folder != nullptr && chdir(plan.folder) != 0) fail("entering the working folder of");
  for (const Limit& limit : plan.limits) {
    if (setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &limit.value) != 0) fail("limiting");
  }
  ResetSignals();
  execve(plan.program, plan.argv, plan.environment);
  fail("starting");
  return 127;
}

/// clone(CLONE_VM | CLONE_VFORK) as posix_spawn does it: no copy of page tables, and the caller sleeps until exec.
absl::StatusOr<pid_t> CloneAndExec(ChildPlan& plan) {
  constexpr size_t kStackBytes = 256 << 10;
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return ErrnoStatus(errno, "allocating a stack");
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // no handler of ours may run in the child
  const pid_t pid =
      clone(ChildMain, static_cast<char*>(stack) + kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  const int clone_error = errno;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  munmap(stack, kStackBytes);
  if (pid < 0) return ErrnoStatus(clone_error, "creating a process");
  if (plan.error != 0) {
    waitpid(pid, nullptr, 0);
    return ErrnoStatus(plan.error, absl::StrCat(plan.failed_step, " ", plan.program));
  }
  return pid;
}

// ---- The spawning thread. ----

/// Linux sends PR_SET_PDEATHSIG when the *thread* that spawned the child ends, so that a child spawned from a pool
/// thread would die with it. All children are therefore spawned from this one thread, which lives as long as the
/// process.
class SpawnThread {
 public:
  static SpawnThread& Get() {
    static SpawnThread* const thread = new SpawnThread();  // never destroyed: it may be in use during exit
    return *thread;
  }

  absl::StatusOr<pid_t> Spawn(ChildPlan& plan) {
    absl::StatusOr<pid_t> result = absl::UnknownError("");
    absl::Notification done;
    {
      absl::MutexLock lock(&mutex_);
      jobs_.push_back([&] {
        result = CloneAndExec(plan);
        done.Notify();
      });
    }
    done.WaitForNotification();
    return result;
  }

 private:
  SpawnThread() {
    std::thread([this] { Loop(); }).detach();
  }

  void Loop() {
    while (true) {
      std::function<void()> job;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(+[](std::deque<std::function<void()>>* jobs) { return !jobs->empty(); }, &jobs_));
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> jobs_;
};

// ---- Preparing the plan. ----

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    struct stat info;
    if (access(candidate.c_str(), X_OK) == 0 && stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      return candidate;
    }
  }
  return absl::NotFoundError(absl::StrCat("no program '", name, "' on PATH"));
}

std::vector<std::string> ChildEnvironment(const SpawnOptions& options) {
  if (!options.inherit_environment) return options.environment;
  std::map<std::string, std::string> entries;  // by name, later ones win
  const auto add = [&entries](const std::string& entry) { entries[entry.substr(0, entry.find('='))] = entry; };
  for (char** entry = environ; *entry != nullptr; ++entry) add(*entry);
  for (const std::string& entry : options.environment) add(entry);
  std::vector<std::string> result;
  for (auto& [name, entry] : entries) result.push_back(std::move(entry));
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<Limit> Limits(const SpawnOptions& options) {
  std::vector<Limit> limits = {{RLIMIT_CORE, {0, 0}}};
  const auto add = [&limits](int resource, int64_t soft, int64_t hard) {
    if (soft > 0) limits.push_back({resource, {static_cast<rlim_t>(soft), static_cast<rlim_t>(hard)}});
  };
  add(RLIMIT_AS, options.address_space_bytes, options.address_space_bytes);
  add(RLIMIT_CPU, options.cpu_seconds, options.cpu_seconds + 1);  // SIGXCPU, a second later SIGKILL
  add(RLIMIT_FSIZE, options.file_bytes, options.file_bytes);
  return limits;
}

// ---- Waiting. ----

UniqueFd OpenPidFd(pid_t pid) {
#ifdef SYS_pidfd_open
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
#else
  return UniqueFd();
#endif
}

/// Milliseconds for poll: rounded up, -1 for no deadline.
int PollTimeout(SteadyTime deadline) {
  if (deadline == SteadyTime::InfiniteFuture()) return -1;
  const absl::Duration left = std::max(deadline - SteadyTime::Now(), absl::ZeroDuration());
  const int64_t ms = absl::ToInt64Milliseconds(left + absl::Milliseconds(1) - absl::Nanoseconds(1));
  return static_cast<int>(std::min<int64_t>(ms, 1 << 30));
}

void MakeNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

/// Reads what is there, at most a megabyte at a time (the largest pipe), so that a flood cannot hold up the caller.
/// False at the end of the stream.
bool Drain(int fd, int64_t max_output_bytes, RunResult& result) {
  std::array<char, 1 << 16> buffer;
  for (int round = 0; round < 16; ++round) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    const int64_t room = std::max<int64_t>(0, max_output_bytes - static_cast<int64_t>(result.output.size()));
    result.output.append(buffer.data(), static_cast<size_t>(std::min<int64_t>(room, got)));
    result.output_cut = result.output_cut || got > room;
  }
  return true;
}

}  // namespace

absl::StatusOr<Child> Child::Spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return absl::InvalidArgumentError("no program to start");
  HONE_ASSIGN_OR_RETURN(const std::string program, FindProgram(options.argv[0]));
  UniqueFd null_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd) return ErrnoStatus(errno, "opening /dev/null");

  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> environment = ChildEnvironment(options);
  std::vector<char*> argument_pointers = Pointers(arguments);
  std::vector<char*> environment_pointers = Pointers(environment);
  ChildPlan plan;
  plan.program = program.c_str();
  plan.argv = argument_pointers.data();
  plan.environment = environment_pointers.data();
  plan.folder = options.working_folder.empty() ? nullptr : options.working_folder.c_str();
  plan.fds = options.pass_fds;
  for (int fd = 0; fd <= 2; ++fd) {
    const bool named = std::any_of(plan.fds.begin(), plan.fds.end(), [fd](const auto& pair) { return pair.second == fd; });
    if (!named) plan.fds.emplace_back(null_fd.get(), fd);
  }
  plan.first_spare = 3;
  for (const auto& [source, target] : plan.fds) {
    if (source < 0 || target < 0 || target > 1000) {
      return absl::InvalidArgumentError(absl::StrCat("cannot pass descriptor ", source, " as ", target, " (0 to 1000)"));
    }
    plan.first_spare = std::max(plan.first_spare, target + 1);
  }
  plan.limits = Limits(options);
  plan.die_with_parent = options.die_with_parent;
  plan.parent = getpid();
  HONE_ASSIGN_OR_RETURN(const pid_t pid, SpawnThread::Get().Spawn(plan));
  return Child(pid);
}

Child::~Child() {
  Kill();
  if (pid_ > 0 && !reaped_) Reap();
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), exit_code_(other.exit_code_), reaped_(other.reaped_) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    Child old(std::move(*this));
    pid_ = std::exchange(other.pid_, -1);
    exit_code_ = other.exit_code_;
    reaped_ = other.reaped_;
  }
  return *this;
}

bool Child::Ended() {
  if (reaped_ || pid_ <= 0) return true;
  siginfo_t info = {};
  // Looked at, not reaped: while the zombie holds its number, its group can be killed without hitting a stranger.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return false;
  Kill();
  Reap();
  return true;
}

void Child::Reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  reaped_ = true;
}

absl::StatusOr<int> Child::Wait(SteadyTime deadline) {
  const UniqueFd pid_fd = Ended() ? UniqueFd() : OpenPidFd(pid_);
  absl::Duration nap = absl::Milliseconds(1);
  while (!Ended()) {
    if (SteadyTime::Now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("process ", pid_, " is still running"));
    }
    if (pid_fd) {
      pollfd item = {pid_fd.get(), POLLIN, 0};
      poll(&item, 1, PollTimeout(deadline));
    } else {  // a kernel before 5.3
      absl::SleepFor(std::min(nap, deadline - SteadyTime::Now()));
      nap = std::min(2 * nap, absl::Milliseconds(20));
    }
  }
  return exit_code_;
}

void Child::Kill() {
  if (pid_ > 0 && !reaped_) kill(-pid_, SIGKILL);
}

void Child::Terminate() {
  if (pid_ > 0 && !reaped_) kill(pid_, SIGTERM);
}

absl::StatusOr<RunResult> Run(const SpawnOptions& options, absl::Duration timeout, int64_t max_output_bytes) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "making a pipe");
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  MakeNonBlocking(reader.get());
  SpawnOptions spawn = options;
  std::erase_if(spawn.pass_fds, [](const auto& pair) { return pair.second == 1 || pair.second == 2; });
  spawn.pass_fds.emplace_back(writer.get(), 1);
  spawn.pass_fds.emplace_back(writer.get(), 2);

  const SteadyTime start = SteadyTime::Now();
  HONE_ASSIGN_OR_RETURN(Child child, Child::Spawn(spawn));
  writer.Reset();
  const UniqueFd pid_fd = OpenPidFd(child.pid());
  const SteadyTime deadline = start + timeout;
  RunResult result;
  bool open = true;
  while (!child.Ended()) {
    if (SteadyTime::Now() >= deadline) {
      result.timed_out = true;
      child.Kill();
      break;
    }
    // A descriptor of -1 is skipped by poll; without a pidfd the end is looked for every 10 ms.
    std::array<pollfd, 2> items = {{{open ? reader.get() : -1, POLLIN, 0}, {pid_fd ? pid_fd.get() : -1, POLLIN, 0}}};
    const int wait_ms = PollTimeout(deadline);
    poll(items.data(), items.size(), pid_fd ? wait_ms : wait_ms < 0 ? 10 : std::min(wait_ms, 10));
    if (open) open = Drain(reader.get(), max_output_bytes, result);
  }
  HONE_ASSIGN_OR_RETURN(result.exit_code, child.Wait(SteadyTime::InfiniteFuture()));
  // What the group wrote is in the pipe by now; a descendant that left the group may hold it open and is not waited for.
  if (open) Drain(reader.get(), max_output_bytes, result);
  result.seconds = absl::ToDoubleSeconds(SteadyTime::Now() - start);
  return result;
}

}  // namespace hone

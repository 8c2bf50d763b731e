#include "base/subprocess.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"

namespace hone {
namespace {

constexpr absl::Duration kAmple = absl::Seconds(60);  // no promise: only so that a hang ends

SpawnOptions Shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"sh", "-c", script};
  return options;
}

RunResult RunShell(const std::string& script) {
  const absl::StatusOr<RunResult> result = Run(Shell(script), kAmple);
  INFO(result.status());
  REQUIRE(result.ok());
  return *result;
}

bool Alive(pid_t pid) { return kill(pid, 0) == 0; }

/// Whether `pid` is gone; waits for the kernel and for whoever reaps it.
bool Gone(pid_t pid) {
  for (int i = 0; i < 6000; ++i) {
    if (!Alive(pid)) return true;
    // A zombie whose parent does not reap it counts as gone.
    const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
    if (!stat.ok() || absl::StrContains(*stat, ") Z ")) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

/// A pipe whose reading end stays here.
struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  /// Reads one line, waiting for it.
  std::string Line() {
    std::string line;
    char c;
    while (read(reader.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  UniqueFd reader;
  UniqueFd writer;
};

TEST_CASE("Output of both streams and the exit code come back", "[base][subprocess]") {
  const RunResult result = RunShell("echo out; echo err >&2; exit 3");
  CHECK(result.exit_code == 3);
  CHECK(result.output == "out\nerr\n");
  CHECK_FALSE(result.timed_out);
  CHECK_FALSE(result.output_cut);
}

TEST_CASE("A child that a signal ended gives 128 plus its number", "[base][subprocess]") {
  CHECK(RunShell("kill -SEGV $$").exit_code == 128 + SIGSEGV);
}

TEST_CASE("A program that does not exist is an error that names it", "[base][subprocess]") {
  SpawnOptions options;
  options.argv = {"no-such-program"};
  CHECK(Run(options, kAmple).status() == absl::NotFoundError("no program 'no-such-program' on PATH"));
  options.argv = {"/no/such/program"};
  CHECK(Run(options, kAmple).status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(Run(options, kAmple).status().message(), "/no/such/program"));
  options.argv = {"/etc/passwd"};
  CHECK(Run(options, kAmple).status().code() == absl::StatusCode::kPermissionDenied);
  options.argv = {};
  CHECK(Run(options, kAmple).status().code() == absl::StatusCode::kInvalidArgument);
  SpawnOptions lost = Shell("true");
  lost.working_folder = "/no/such/folder";
  CHECK(Run(lost, kAmple).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("A child that never ends is killed at the time limit, its output kept", "[base][subprocess]") {
  const absl::StatusOr<RunResult> result = Run(Shell("echo before; sleep 1000"), absl::Milliseconds(300));
  REQUIRE(result.ok());
  CHECK(result->timed_out);
  CHECK(result->exit_code == 137);
  CHECK(result->output == "before\n");
}

TEST_CASE("A child that floods its output for ever is killed at the time limit with bounded memory",
          "[base][subprocess]") {
  const absl::StatusOr<RunResult> result = Run(Shell("yes"), absl::Milliseconds(300), 1000);
  REQUIRE(result.ok());
  CHECK(result->timed_out);
  CHECK(result->output_cut);
  CHECK(result->output.size() == 1000);
}

TEST_CASE("A child that writes more than the limit is not blocked by it", "[base][subprocess]") {
  const absl::StatusOr<RunResult> result = Run(Shell("head -c 5000000 /dev/zero; exit 4"), kAmple, 1000);
  REQUIRE(result.ok());
  CHECK(result->exit_code == 4);
  CHECK(result->output_cut);
}

TEST_CASE("What a child leaves in its process group is killed with it", "[base][subprocess]") {
  // The grandchild holds the output open: Run must neither wait for it nor leave it.
  const RunResult result = RunShell("sleep 1000 & echo $!");
  int grandchild = 0;
  REQUIRE(absl::SimpleAtoi(result.output, &grandchild));
  CHECK(Gone(grandchild));
}

TEST_CASE("A descendant that leaves the group and holds the output open is not waited for", "[base][subprocess]") {
  const RunResult result = RunShell("setsid sleep 1000 & echo $!");
  int escaped = 0;
  REQUIRE(absl::SimpleAtoi(result.output, &escaped));
  // setsid may have forked: whoever it is, it was started by this test.
  SpawnOptions clean = Shell(absl::StrCat("kill -9 ", escaped, " 2>/dev/null; true"));
  REQUIRE(Run(clean, kAmple).ok());
}

TEST_CASE("Only the descriptors that were passed are open in the child", "[base][subprocess]") {
  // Without O_CLOEXEC, as some library might leave them.
  const UniqueFd leaked(open("/dev/null", O_RDONLY));
  const UniqueFd far(fcntl(leaked.get(), F_DUPFD, 500));
  Pipe pipe;
  SpawnOptions options = Shell("ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0");
  options.pass_fds = {{pipe.writer.get(), 7}};
  const RunResult result = *Run(options, kAmple);
  // 3 is the folder that ls itself has open.
  CHECK(result.output == "0 1 2 3 7 /dev/null\n");
}

TEST_CASE("Descriptors arrive under their new numbers even when those cross", "[base][subprocess]") {
  Pipe a, b;
  SpawnOptions options = Shell("echo to_a >&$0; echo to_b >&$1");
  // Each is passed under the number of the other.
  options.argv.push_back(absl::StrCat(b.writer.get()));
  options.argv.push_back(absl::StrCat(a.writer.get()));
  options.pass_fds = {{a.writer.get(), b.writer.get()}, {b.writer.get(), a.writer.get()}};
  REQUIRE(Run(options, kAmple)->exit_code == 0);
  CHECK(a.Line() == "to_a");
  CHECK(b.Line() == "to_b");
}

TEST_CASE("A descriptor that is not open cannot be passed", "[base][subprocess]") {
  SpawnOptions options = Shell("true");
  options.pass_fds = {{-1, 5}};
  CHECK(Run(options, kAmple).status().code() == absl::StatusCode::kInvalidArgument);
  options.pass_fds = {{999, 5}};
  CHECK_FALSE(Run(options, kAmple).ok());
}

TEST_CASE("The environment is replaced, or extended with later entries winning", "[base][subprocess]") {
  SpawnOptions options;
  options.argv = {"env"};
  options.inherit_environment = false;
  options.environment = {"A=1"};
  CHECK(Run(options, kAmple)->output == "A=1\n");
  setenv("HONE_TEST_VARIABLE", "parent", 1);
  SpawnOptions extended = Shell("echo $HONE_TEST_VARIABLE $A");
  extended.environment = {"A=1"};
  CHECK(Run(extended, kAmple)->output == "parent 1\n");
  extended.environment = {"HONE_TEST_VARIABLE=child"};
  CHECK(Run(extended, kAmple)->output == "child\n");
}

TEST_CASE("The child starts in its working folder", "[base][subprocess]") {
  SpawnOptions options = Shell("pwd");
  options.working_folder = "/usr";
  CHECK(Run(options, kAmple)->output == "/usr\n");
}

TEST_CASE("Limits hold: file size, processor time, address space, and no core files", "[base][subprocess]") {
  SpawnOptions big_file =
      Shell("head -c 100000 /dev/zero > /tmp/hone_limit_$$; code=$?; rm /tmp/hone_limit_$$; exit $code");
  big_file.file_bytes = 1000;
  CHECK(Run(big_file, kAmple)->exit_code != 0);
  SpawnOptions busy = Shell("while :; do :; done");
  busy.cpu_seconds = 1;
  CHECK(Run(busy, kAmple)->exit_code == 128 + SIGXCPU);
  SpawnOptions limits = Shell("ulimit -v; ulimit -c");
  limits.address_space_bytes = int64_t{512} << 20;
  CHECK(Run(limits, kAmple)->output == "524288\n0\n");
}

TEST_CASE("The child has default signal handling whatever the parent ignores or blocks", "[base][subprocess]") {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  const RunResult result = RunShell("grep -E 'Sig(Blk|Ign)' /proc/self/status");
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  CHECK(result.output == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("Waiting ends at the deadline with the child alive, and again with its exit code", "[base][subprocess]") {
  Pipe go;
  SpawnOptions options = Shell("read line; exit 5");
  options.pass_fds = {{go.reader.get(), 0}};
  Child child = Child::Spawn(options).value();
  CHECK(child.Wait(SteadyTime::Now() + absl::Milliseconds(20)).status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK_FALSE(child.Ended());
  REQUIRE(write(go.writer.get(), "x\n", 2) == 2);
  CHECK(child.Wait(SteadyTime::InfiniteFuture()).value() == 5);
  CHECK(child.Ended());
  CHECK(child.Wait(SteadyTime::InfinitePast()).value() == 5);
}

TEST_CASE("A dropped child is killed with its group", "[base][subprocess]") {
  Pipe output;
  SpawnOptions options = Shell("sleep 1000 & echo $!; wait");
  options.pass_fds = {{output.writer.get(), 1}};
  int grandchild = 0;
  pid_t pid = 0;
  {
    Child child = Child::Spawn(options).value();
    pid = child.pid();
    REQUIRE(absl::SimpleAtoi(output.Line(), &grandchild));
    Child moved = std::move(child);
    CHECK(Alive(pid));
  }
  CHECK_FALSE(Alive(pid));
  CHECK(Gone(grandchild));
}

TEST_CASE("Terminate asks, Kill does not", "[base][subprocess]") {
  Pipe output;
  SpawnOptions options = Shell("trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  options.pass_fds = {{output.writer.get(), 1}};
  Child polite = Child::Spawn(options).value();
  REQUIRE(output.Line() == "ready");
  polite.Terminate();
  CHECK(output.Line() == "asked");
  CHECK(polite.Wait(SteadyTime::InfiniteFuture()).value() == 7);
  Child killed = Child::Spawn(options).value();
  REQUIRE(output.Line() == "ready");
  killed.Kill();
  CHECK(killed.Wait(SteadyTime::InfiniteFuture()).value() == 137);
}

TEST_CASE("A child outlives the thread that started it", "[base][subprocess]") {
  Pipe go;
  SpawnOptions options = Shell("read line; exit 6");
  options.pass_fds = {{go.reader.get(), 0}};
  std::optional<Child> child;
  std::thread([&] { child = Child::Spawn(options).value(); }).join();
  // Had the end of the thread been taken for the end of the parent, the child would be dead by now or soon.
  CHECK(child->Wait(SteadyTime::Now() + absl::Milliseconds(50)).status().code() == absl::StatusCode::kDeadlineExceeded);
  REQUIRE(write(go.writer.get(), "x\n", 2) == 2);
  CHECK(child->Wait(SteadyTime::InfiniteFuture()).value() == 6);
}

TEST_CASE("A child dies with a parent that was killed", "[base][subprocess]") {
  Pipe output;
  const pid_t parent = fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    // This process has no spawning thread: fork copies only the calling one. It spawns through a fresh program image.
    execl("/proc/self/exe", "subprocess_test", "[.spawn_and_wait]", static_cast<char*>(nullptr));
    _exit(1);
  }
  const std::string path = absl::StrCat("/tmp/hone_subprocess_test.", parent);
  int child = 0;
  for (int i = 0; i < 3000 && child == 0; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    if (const absl::StatusOr<std::string> text = ReadFile(path); text.ok() && absl::EndsWith(*text, "\n")) {
      REQUIRE(absl::SimpleAtoi(*text, &child));
    }
  }
  unlink(path.c_str());
  REQUIRE(child > 0);
  REQUIRE(Alive(child));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  CHECK(Gone(child));
}

// The parent of the test above; not run by default.
TEST_CASE("Spawns a child and waits to be killed", "[.spawn_and_wait]") {
  SpawnOptions options = Shell(absl::StrCat("echo $$ > /tmp/hone_subprocess_test.", getpid(), "; sleep 1000"));
  Child child = Child::Spawn(options).value();
  (void)child.Wait(SteadyTime::Now() + kAmple);
}

TEST_CASE("Many threads may spawn at once", "[base][subprocess]") {
  std::vector<int> codes(64, -1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&codes, t] {
      for (int i = t; i < 64; i += 8) {
        const absl::StatusOr<RunResult> result = Run(Shell(absl::StrCat("exit ", i)), kAmple);
        if (result.ok()) codes[static_cast<size_t>(i)] = result->exit_code;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 64; ++i) CHECK(codes[static_cast<size_t>(i)] == i);
}

}  // namespace
}  // namespace hone

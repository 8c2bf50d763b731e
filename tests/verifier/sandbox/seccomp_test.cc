#include "verifier/sandbox/seccomp.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/sockios.h>
#include <functional>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace hone::verifier {
namespace {

/// What `call` gives in a child under the filter: 0 for success, else errno.
int Under(const std::vector<sock_filter>& filter, const std::function<long()>& call) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || InstallFilter(filter) != 0) _exit(255);
    _exit(call() < 0 ? errno : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

std::vector<sock_filter> Compiling() {
  std::vector<sock_filter> filter;
  std::string error;
  INFO(error);
  REQUIRE(AssembleCompilingInterpreterFilter(&filter, &error));
  return filter;
}

TEST_CASE("A candidate that compiles as it runs starts processes and writes files", "[verifier][sandbox]") {
  const std::vector<sock_filter> filter = Compiling();
  CHECK(Under(filter, [] {
          const pid_t tool = fork();
          if (tool == 0) {
            execl("/bin/true", "true", nullptr);
            _exit(1);
          }
          int status = 1;
          return tool > 0 && waitpid(tool, &status, 0) == tool && status == 0 ? 0 : -1;
        }) == 0);
  CHECK(Under(filter, [] { return open("/tmp", O_TMPFILE | O_RDWR, 0600); }) == 0);
}

TEST_CASE("A candidate that compiles as it runs reaches no other process, socket or namespace", "[verifier][sandbox]") {
  const std::vector<sock_filter> filter = Compiling();
  const pid_t parent = getpid();
  CHECK(Under(filter, [&] { return kill(parent, 0); }) == EPERM);
  CHECK(Under(filter, [&] { return syscall(SYS_tkill, parent, 0); }) == EPERM);
  CHECK(Under(filter, [&] { return syscall(SYS_pidfd_open, parent, 0); }) == EPERM);
  CHECK(Under(filter, [&] { return ptrace(PTRACE_SEIZE, parent, nullptr, nullptr); }) == EPERM);
  CHECK(Under(filter, [&] { return syscall(SYS_process_vm_readv, parent, nullptr, 0, nullptr, 0, 0); }) == EPERM);
  CHECK(Under(filter, [] { return socket(AF_INET, SOCK_STREAM, 0); }) == EPERM);
  CHECK(Under(filter, [] { return socket(AF_UNIX, SOCK_STREAM, 0); }) == EPERM);
  CHECK(Under(filter, [] { return unshare(CLONE_NEWUSER); }) == EPERM);
  CHECK(Under(filter, [] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, 0); }) == EPERM);
  CHECK(Under(filter, [&] { return syscall(SYS_tgkill, parent, parent, 0); }) == EPERM);
  CHECK(Under(filter, [&] { return fcntl(0, F_SETOWN, parent); }) == EPERM);
  CHECK(Under(filter, [&] { return syscall(SYS_fcntl, 0, (1ul << 32) | F_SETOWN, parent); }) == EPERM);
  CHECK(Under(filter, [&] { return syscall(SYS_ioctl, 0, (1ul << 32) | FIOSETOWN, &parent); }) == EPERM);
  CHECK(Under(filter, [] { return syscall(SYS_setpriority, 0, 0, 0); }) == EPERM);
}

/// The filters under which untrusted code runs, but that of native candidates on the CPU device, which allows none of it.
std::vector<std::vector<sock_filter>> FiltersThatAllowMuch() {
  std::vector<std::vector<sock_filter>> filters(4);
  std::string error;
  INFO(error);
  SystemCallFilters native;
  REQUIRE(AssembleFilters(FilterFor::kGpu, &native, &error));
  filters[0] = native.running;
  REQUIRE(AssembleInterpreterFilter(FilterFor::kHost, &filters[1], &error));
  REQUIRE(AssembleInterpreterFilter(FilterFor::kGpu, &filters[2], &error));
  REQUIRE(AssembleCompilingInterpreterFilter(&filters[3], &error));
  return filters;
}

TEST_CASE("No filter lets a candidate set another process's limits or cores, and each lets it see its own",
          "[verifier][sandbox]") {
  const pid_t parent = getpid();
  rlimit limit = {};
  REQUIRE(getrlimit(RLIMIT_CPU, &limit) == 0);
  cpu_set_t cores;
  REQUIRE(sched_getaffinity(0, sizeof cores, &cores) == 0);
  for (const std::vector<sock_filter>& filter : FiltersThatAllowMuch()) {
    CHECK(Under(filter, [&] { return syscall(SYS_prlimit64, parent, RLIMIT_CPU, &limit, nullptr); }) == EPERM);
    CHECK(Under(filter, [&] { return syscall(SYS_prlimit64, 0, RLIMIT_CPU, nullptr, &limit); }) == 0);
    CHECK(Under(filter, [&] { return syscall(SYS_sched_setaffinity, parent, sizeof cores, &cores); }) == EPERM);
  }
}

TEST_CASE("No filter lets a candidate have signals sent through a descriptor", "[verifier][sandbox]") {
  const pid_t parent = getpid();
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  // Refused, or a trap.
  const auto refused = [&](const std::vector<sock_filter>& filter, unsigned long call, unsigned long command, unsigned long value) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || InstallFilter(filter) != 0) _exit(255);
      _exit(syscall(static_cast<long>(call), ends[0], command, value) < 0 ? errno : 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGSYS : WEXITSTATUS(status) == EPERM;
  };
  for (const std::vector<sock_filter>& filter : FiltersThatAllowMuch()) {
    for (const unsigned long above : {0ul, 1ul << 32}) {
      CHECK(refused(filter, SYS_fcntl, above | F_SETOWN, static_cast<unsigned long>(parent)));
      CHECK(refused(filter, SYS_fcntl, above | F_SETSIG, SIGKILL));
      CHECK(refused(filter, SYS_ioctl, above | FIOSETOWN, reinterpret_cast<unsigned long>(&parent)));
      CHECK(refused(filter, SYS_ioctl, above | SIOCSPGRP, reinterpret_cast<unsigned long>(&parent)));
    }
    CHECK(Under(filter, [&] { return fcntl(ends[0], F_GETFL); }) == 0);
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace hone::verifier

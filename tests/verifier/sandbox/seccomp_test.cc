#include "verifier/sandbox/seccomp.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/ptrace.h>
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
  CHECK(Under(filter, [&] { return fcntl(0, F_SETOWN, parent); }) == EPERM);
  CHECK(Under(filter, [] { return syscall(SYS_setpriority, 0, 0, 0); }) == EPERM);
}

}  // namespace
}  // namespace hone::verifier

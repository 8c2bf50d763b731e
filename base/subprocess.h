#pragma once

// Child processes: spawned by vfork and exec (gRPC never survives a fork without exec), in their own process group,
// with limits, captured output and a deadline, killed whole. All functions are thread-safe; a Child belongs to one
// thread at a time.

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/steady_time.h"

namespace hone {

struct SpawnOptions {
  std::vector<std::string> argv;                 // argv[0] is looked up on this process's PATH, unless it has a slash
  std::vector<std::string> environment;          // "KEY=value"; replaces the environment unless inherit_environment
  bool inherit_environment = true;
  std::string working_folder;                    // empty: the parent's
  std::vector<std::pair<int, int>> pass_fds;     // {descriptor here, number in the child}; all others are closed, and
                                                 // 0, 1, 2 are /dev/null unless named: {2, 2} keeps standard error
  bool die_with_parent = true;                   // SIGKILL when this process ends, however it ends
  int64_t address_space_bytes = 0;               // RLIMIT_AS; 0: unlimited
  int64_t cpu_seconds = 0;                       // RLIMIT_CPU; 0: unlimited
  int64_t file_bytes = 0;                        // RLIMIT_FSIZE; 0: unlimited
};

/// A running child. Killed (SIGKILL to its process group) and reaped when dropped. What the child started itself and
/// left in its process group is killed as soon as its own end is noticed.
class Child {
 public:
  /// Signal handlers and the signal mask are the defaults in the child, and it writes no core file. Errors: kNotFound
  /// (no such program), kPermissionDenied, kInvalidArgument, kResourceExhausted (no more processes or descriptors).
  static absl::StatusOr<Child> Spawn(const SpawnOptions& options);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;

  pid_t pid() const { return pid_; }
  /// Whether it has ended; reaps without waiting.
  bool Ended();
  /// Waits until it ends or the deadline passes; then kDeadlineExceeded and the child still runs.
  absl::StatusOr<int> Wait(SteadyTime deadline);  // exit code, or 128 + signal
  void Kill();                                    // the whole process group
  void Terminate();                               // SIGTERM to the child

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  void Reap();
  pid_t pid_ = -1;
  int exit_code_ = 0;
  bool reaped_ = false;
};

struct RunResult {
  int exit_code = 0;        // or 128 + signal
  bool timed_out = false;
  bool output_cut = false;  // more than max_output_bytes
  std::string output;       // standard output and error together
  double seconds = 0;
};

/// Runs to the end or the time limit, capturing output up to a limit; the rest is read and dropped. Standard output and
/// error are captured, whatever `options.pass_fds` says of 1 and 2; exit_code is 137 when timed out.
absl::StatusOr<RunResult> Run(const SpawnOptions& options, absl::Duration timeout,
                              int64_t max_output_bytes = 1 << 20);

}  // namespace hone

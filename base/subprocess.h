#pragma once

// Child processes: spawned with posix_spawn or clone + exec (gRPC never survives a fork without exec), in their own process group, with
// limits, captured output and a deadline, killed whole.

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file.h"

namespace hone {

struct SpawnOptions {
  std::vector<std::string> argv;                 // argv[0] is looked up on PATH
  std::vector<std::string> environment;          // "KEY=value"; replaces the environment unless inherit_environment
  bool inherit_environment = true;
  std::string working_folder;                    // empty: the parent's
  std::vector<std::pair<int, int>> pass_fds;     // {descriptor here, number in the child}; all others are closed
  bool die_with_parent = true;                   // PR_SET_PDEATHSIG
  int64_t address_space_bytes = 0;               // RLIMIT_AS; 0: unlimited
  int64_t cpu_seconds = 0;                       // RLIMIT_CPU
  int64_t file_bytes = 0;                        // RLIMIT_FSIZE
};

/// A running child. Killed (SIGKILL to its process group) and reaped when dropped.
class Child {
 public:
  static absl::StatusOr<Child> Spawn(const SpawnOptions& options);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;

  pid_t pid() const { return pid_; }
  /// Whether it has ended; reaps without waiting.
  bool Ended();
  /// Waits until it ends or the deadline passes; then kDeadlineExceeded and the child still runs.
  absl::StatusOr<int> Wait(absl::Time deadline);  // exit code, or 128 + signal
  void Kill();                                    // the whole process group
  void Terminate();                               // SIGTERM to the child

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  int wait_status_ = 0;
  bool reaped_ = false;
};

struct RunResult {
  int exit_code = 0;        // or 128 + signal
  bool timed_out = false;
  bool output_cut = false;  // more than max_output_bytes
  std::string output;       // standard output and error together
  double seconds = 0;
};

/// Runs to the end or the time limit, capturing output up to a limit; the rest is read and dropped.
absl::StatusOr<RunResult> Run(const SpawnOptions& options, absl::Duration timeout,
                              int64_t max_output_bytes = 1 << 20);

}  // namespace hone

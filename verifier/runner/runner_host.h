#pragma once

// The judge's end of the candidate runners: starts the zygote in the sandbox, has it fork a runner for each candidate,
// talks to that runner and kills it. What a runner sends is hearsay (protocol.h).

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "verifier/runner/protocol.h"

namespace hone::verifier {

struct RunnerHostOptions {
  std::string program;                   // hone-runner, or the script of an interpreter
  std::string interpreter;               // Python that runs `program`; empty: it runs by itself
  std::vector<std::string> folders;      // that the interpreter reads, besides the program's own
  absl::Duration start_timeout = absl::Seconds(20);  // of the zygote
  std::string sandbox;                   // as ChooseSandbox takes it
  std::vector<std::string> libraries;    // loaded by the zygote for all artefacts: the emulator's runtime
  bool switches_kernels = false;         // they count launches, and can let them do nothing
  int cpu_core = -1;                     // -1: any
  std::vector<int> cores;                // that all of it keeps to; empty: those of this process
  bool pause = true;                     // runners are stopped while they have no command
  int64_t memory_limit_bytes = int64_t{4} << 30;  // private memory of one runner, on a GPU beyond its driver's; 0: unlimited
  std::vector<std::string> environment;  // "KEY=value": all of it

  // Of a GPU: runners open the one device that the environment leaves visible.
  std::string gpu_backend;               // a GPU's device table or dialect: "cuda"; empty: none
  std::string gpu_driver;                // absolute path of the driver's library
  std::vector<std::string> devices;      // device nodes inside the sandbox
};

/// What came of one command.
struct RunnerReport {
  enum class Kind {
    kDone,        // ran; `code` of the calls
    kLoadFailed,  // the artefact does not load; `text` of the loader
    kFault,       // a signal that the runner could still tell about
    kEnded,       // the process ended without saying so; `exited` and `status`
    kTimeout,     // no answer by the deadline
    kGarbage,     // an answer that the runner's own code never gives
  };
  Kind kind = Kind::kEnded;
  int code = 0;
  uint32_t failed_call = 0;
  int64_t process_ns = 0;       // as the runner says
  uint32_t custom_calls = 0;    // of a checked call of a Python candidate, as the runner says
  uint32_t library_calls = 0;
  uint64_t launches = 0;        // kernels of the device, as the runner says
  int signal = 0;               // kFault
  int system_call = -1;         // kFault with SIGSYS
  uint64_t address = 0;         // kFault
  bool workspace_failed = false;
  bool exited = false;          // kEnded: with `status` as exit code, else by signal `status`
  int status = 0;
  std::string text;             // kLoadFailed; what kGarbage looked like; of Python candidates, see protocol.h

  bool ok() const { return kind == Kind::kDone && code == 0; }
};

/// What an answer to `command` reports; null: a message of another size, or with something attached. Whatever the bytes.
RunnerReport ReportOf(const Command& command, const Answer* answer);

class RunnerHost;

/// One runner. Dropping it kills the process and waits until it is gone, so that its buffers can serve the next one; on a
/// GPU, where that takes long, the host waits later (RunnerHost::AwaitGone).
/// Where its host says so, the process runs between a command and its answer and is stopped (SIGSTOP) at all other times: it can neither work on
/// buffers while the judge fills or reads them, nor disturb another party's turn.
/// Commands return a Status only when the zygote died, which no candidate can bring about.
class Runner {
 public:
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  pid_t pid() const { return pid_; }
  absl::StatusOr<RunnerReport> Map(int table_fd, uint64_t table_bytes, int inputs_fd, int outputs_fd,
                                   SteadyTime deadline);
  absl::StatusOr<RunnerReport> Load(int artefact_fd, SteadyTime deadline);
  /// To runners of Python candidates: lays out the arguments of calls [0, call_count), after the module was made anew
  /// where it is to be `fresh`.
  absl::StatusOr<RunnerReport> Prepare(uint32_t call_count, bool fresh, SteadyTime deadline);
  /// Calls [0, call_count) of the table, as they are timed; on a GPU behind the writing of `behind_mb` MiB, which the
  /// runner's own time leaves out.
  absl::StatusOr<RunnerReport> Run(uint32_t call_count, SteadyTime deadline, uint32_t behind_mb = 0);
  /// No call at all; and it is not stopped afterwards, for a command that follows at once.
  absl::StatusOr<RunnerReport> Wake(SteadyTime deadline);
  /// Call 0 of the table with the device's checks on. `kernels_off`: launches do nothing and succeed, where the device
  /// can do that; what the outputs hold afterwards was not made by kernels.
  absl::StatusOr<RunnerReport> RunChecked(ThreadOrder order, uint32_t order_seed, bool kernels_off, SteadyTime deadline);
  /// How it ended, once it is known to be gone: kEnded with the exit code or the signal.
  absl::StatusOr<RunnerReport> AwaitEnd() { return End(RunnerReport()); }
  /// What it wrote to standard output and error so far, at most 64 KiB; the rest was lost.
  std::string TakeOutput();

 private:
  friend class RunnerHost;
  Runner(RunnerHost* host, uint32_t id, UniqueFd socket, UniqueFd output)
      : host_(host), id_(id), socket_(std::move(socket)), output_(std::move(output)) {}
  absl::Status AwaitHello(SteadyTime deadline);
  absl::StatusOr<RunnerReport> Do(Command command, std::vector<int> fds, SteadyTime deadline, bool stop = true);
  absl::StatusOr<RunnerReport> ReadAnswer(const Command& command, SteadyTime deadline);
  absl::StatusOr<RunnerReport> End(RunnerReport report);
  void Signal(int number);
  void Kill();

  RunnerHost* host_;
  uint32_t id_;
  UniqueFd socket_;
  UniqueFd output_;
  UniqueFd pid_fd_;
  pid_t pid_ = -1;
};

/// Not thread-safe. Outlives its runners.
class RunnerHost {
 public:
  /// kFailedPrecondition: the sandbox asked for does not work here; kNotFound: no such program.
  static absl::StatusOr<std::unique_ptr<RunnerHost>> Create(RunnerHostOptions options);
  ~RunnerHost();

  /// Has the zygote fork runners ahead of need, until there are so many, once fewer than `least` are left. Not to be called
  /// while something is timed.
  void Prepare(int runners, int least);
  void Prepare(int runners) { Prepare(runners, runners); }
  /// One more runner forked ahead, ready when this returns. False: there are `runners`, or no more can be started now.
  bool ReadyOneMore(int runners);
  /// The runner forked ahead, or a new one. A dead zygote is started again. kUnavailable: it does not come up.
  absl::StatusOr<std::unique_ptr<Runner>> Start();
  /// Runners forked ahead, and how long Start, AwaitGone and AwaitQuiet waited for some to start or to end, so far.
  int ahead() const { return static_cast<int>(prepared_.size()); }
  absl::Duration waited() const { return waited_; }
  /// Waits until the processes of all dropped runners have ended.
  void AwaitGone();
  /// Waits until the runners forked ahead are ready and the dropped ones are gone, so that none starts or ends while
  /// something is timed.
  void AwaitQuiet();

  /// From another thread: commands that run fail soon, and so do all later ones.
  void Interrupt();

  /// Whether its candidates are Python's.
  bool interpreted() const { return !options_.interpreter.empty(); }
  /// "bubblewrap" or "none".
  const std::string& sandbox() const { return sandbox_; }
  bool switches_kernels() const { return options_.switches_kernels; }
  /// Of the zygote, as this process sees it; for tests of its death.
  pid_t zygote_pid() const { return zygote_ ? zygote_->pid() : -1; }

 private:
  friend class Runner;
  explicit RunnerHost(RunnerHostOptions options) : options_(std::move(options)) {}
  absl::Status StartZygote();
  absl::Status AwaitReady(Runner& runner);
  absl::StatusOr<std::unique_ptr<Runner>> Fork();
  /// Takes what the zygote told unasked, so that its socket never fills.
  void ReadEnded();
  /// How runner `id` ended, once the zygote says so.
  absl::StatusOr<RunnerEnded> AwaitEnded(uint32_t id, SteadyTime deadline);

  RunnerHostOptions options_;
  std::string sandbox_;
  std::atomic<bool> interrupted_ = false;
  std::atomic<pid_t> interruptible_ = -1;  // the zygote, while it is not yet reaped
  std::optional<Child> zygote_;
  UniqueFd control_;
  uint32_t next_id_ = 1;
  std::vector<RunnerEnded> ended_;  // told by the zygote, not yet asked for
  std::deque<std::unique_ptr<Runner>> prepared_;
  std::vector<UniqueFd> dying_;  // processes of dropped runners
  absl::Duration waited_;
  bool lost_ = false;  // the zygote is known to be gone, and with it what it forked ahead
};

}  // namespace hone::verifier

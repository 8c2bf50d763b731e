#pragma once

// The timed phase: paired rounds of candidate and baselines, in random order, over sets that the candidate has never seen,
// with cold data: the cache is cleared before each party's turn, or a round's sets are more than it holds. Every output of
// every timed call is compared.
//
// On a GPU a round's time is that from its message to its answer, less what a message alone costs; the candidate's own events
// are compared with it. A round in which the device ran at a throttled clock does not count.
//
// On the CPU device a round's time is the processor time that the kernel accounts to the runner's process, read by the
// judge around the round's message, less what a message alone costs. Whatever a runner does in that time is charged to it,
// and what it does outside is noticed.
//
// A Python candidate returns tensors of its own, which its runner copies into the judge's buffers within the round. What
// such a copy costs is measured where it is trusted, in the reference worker, and taken off.

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/verdict.h"
#include "verifier/lane/budget.h"
#include "verifier/lane/buffers.h"
#include "verifier/lane/findings.h"
#include "verifier/lane/lane.h"
#include "verifier/lane/opened_runner.h"
#include "verifier/lane/task_sets.h"
#include "verifier/runner/runner_host.h"

namespace hone::verifier {

/// Where the time of one candidate went, for the log.
struct TimeAccount {
  absl::Duration quiet;       // until no process of the host started or ended
  absl::Duration sets;        // made by the reference
  absl::Duration staging;     // copies of inputs, poison
  absl::Duration candidate;   // its rounds, waking included
  absl::Duration baselines;
  absl::Duration comparing;
  int rounds = 0;             // of any kind: warm-up, audit, those that count
};

struct TimeResult {
  std::vector<Timing> timings;     // one for each baseline
  int throttled = 0;               // rounds that did not count
  int calls = 0;                   // timed calls of the candidate, all compared
  int right = 0;
  std::optional<Finding> finding;  // then the timings are empty
  TimeAccount account;
  std::vector<double> candidate_ns;  // [rounds that count], of a call
  std::vector<double> baseline_ns;   // [rounds that count], of a call of the first baseline
};

class Timer {
 public:
  /// All outlive the timer. `host` runs candidates, `native` scalar baselines. `cpu_core`: where everything that is timed
  /// runs, -1: wherever the judge is.
  Timer(const Device* device, RunnerHost* host, RunnerHost* native, SecretSeeds* seeds, ReferenceWorker* worker,
        TaskSetsCache* cache, int cpu_core)
      : device_(device),
        host_(host),
        native_(native),
        seeds_(seeds),
        worker_(worker),
        cache_(cache),
        cpu_core_(cpu_core),
        stage_(device) {}

  /// `launches_checked`: kernels that one checked call of the timed shape launched. `opened`: a runner that holds the candidate already, or none. kInvalidArgument: the task's scalar baseline does not run
  /// or is wrong. kUnimplemented: a baseline that this device does not have.
  absl::StatusOr<TimeResult> Time(const LaneJob& job, TaskSets& sets, uint64_t launches_checked, Budget& budget,
                                 OpenedRunner opened);

 private:
  struct Party;
  struct Session;
  absl::Status Open(Session& session);
  absl::StatusOr<std::optional<Finding>> OpenRunner(Session& session, Party& party, const std::string& artefact,
                                                    OpenedRunner opened);
  absl::StatusOr<Pool*> RoundSets(Session& session, int round);
  absl::Status StageRound(Session& session, const Pool& pool);
  absl::StatusOr<std::optional<Finding>> PrepareRound(Session& session, bool first);
  static Finding Explain(const Session& session, const Party& party, const RunnerReport& report, const DeviceTable& device);
  static absl::Status BaselineFails(const Session& session, const Finding& finding);
  absl::StatusOr<std::optional<Finding>> RunParty(Session& session, Party& party, const Pool& pool, int calls);
  absl::StatusOr<std::optional<Finding>> CompareRound(Session& session, const Party& party, const Pool& pool, int calls);
  absl::StatusOr<std::string> WhoseAnswer(const Session& session, const Pool& pool, int slot, size_t tensor,
                                          const unsigned char* got) const;
  absl::StatusOr<std::optional<Finding>> AuditRound(Session& session, int round);
  static bool PlanCalls(Party& party, double share);
  absl::StatusOr<Finding> ExplainDifference(const Session& session, const Comparison& comparison, const Pool& pool, int slot,
                                            size_t tensor);
  absl::StatusOr<std::optional<Finding>> WarmUp(Session& session);
  absl::StatusOr<std::optional<Finding>> PlayRound(Session& session, int round);
  absl::StatusOr<bool> IsThrottled() const;
  std::optional<Finding> CheckRounds(const Session& session) const;

  const Device* device_;
  RunnerHost* host_;
  RunnerHost* native_;
  SecretSeeds* seeds_;
  ReferenceWorker* worker_;
  TaskSetsCache* cache_;
  int cpu_core_;
  Stage stage_;
};

}  // namespace hone::verifier

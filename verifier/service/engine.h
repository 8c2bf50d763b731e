#pragma once

// The way of a request through the verifier, without gRPC:
//
//   result cache ─hit─▶ verdict
//        │miss
//        ▼
//   queue: describe/<device> ─▶ build/<device> ─▶ lane/<device> ─▶ verdict ─▶ result cache
//          (lane, once a task)    (build slots,     (lanes)
//                                 CPU screen)
//
// Python candidates for a task that is not described yet go to build/<device> first, which reads them: what their text alone
// rejects has its verdict there, in a tenth of a second, and the rest is described and comes back.
//
// In a farm a process does some of it and leaves the rest to others: a front has no lanes and no build slots, a builder no
// lanes, a lane no build slots; the queue, the caches and the roster are shared.
//
// A request that avoids a lane (a second measurement) is left by that lane to the others of its kind, while there are any:
// as again/<device>, which lanes look at first.
//
// Requests of one content that are in flight at the same time are one job. A job whose worker fails is tried again, on
// another lane where there is one; after three tries its verdict is INFRA.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/signature.h"
#include "base/steady_time.h"
#include "base/verdict.h"
#include "base/verify_request.h"
#include "verifier/build/builder.h"
#include "verifier/cache/artefact_store.h"
#include "verifier/cache/result_cache.h"
#include "verifier/lane/lane.h"
#include "verifier/queue/queue.h"
#include "verifier/queue/roster.h"
#include "verifier/service/metrics.h"
#include "verifier/service/screen.h"

namespace hone::verifier {

/// One lane to be kept running.
struct LaneSpec {
  std::string device;  // the kind whose jobs it takes: "cpu", "cuda", "musa", or "noop", which takes all
  std::string name;    // "cpu:0", for logs and metrics
  std::function<absl::StatusOr<std::unique_ptr<Lane>>()> start;
};

struct EngineOptions {
  std::vector<LaneSpec> lanes;   // at least one, but in a farm
  int build_slots = 1;           // compiles at a time
  std::vector<int> build_cores;  // of compilers and of the screen; empty: all
  std::vector<std::string> build_devices;  // whose jobs are built here besides those of the lanes
  std::vector<std::string> formats = {"native"};  // that the builder takes
  std::string version;           // of hone; part of every cache key
  std::string node;              // names this process in verdicts' lanes; unique in a farm
  Screen* screen = nullptr;      // of native candidates for a GPU; outlives the engine. Null: none
  double screen_rerun_share = 0; // of those that it rejects, judged on their device all the same
  size_t max_signatures = 4096;  // tasks whose signature is remembered
  absl::Duration lane_backoff_min = absl::Milliseconds(100);  // between attempts to start a lane that fails to
  absl::Duration lane_backoff_max = absl::Seconds(10);
  // A lane that fails so many tries in a row, of jobs of several tasks, is kept away from jobs for a while, twice as long each time,
  // and comes back when it starts, which on a GPU its probe has to pass. Until then the other lanes have its jobs.
  int lane_faults = 3;
  absl::Duration quarantine_min = absl::Seconds(10);
  absl::Duration quarantine_max = absl::Minutes(10);
  absl::Duration held_pause = absl::Milliseconds(10);  // between looks of a held lane whether it still is
  absl::Duration pass_on_pause = absl::Milliseconds(50);  // before a lane that left a job to the others looks at it again
  int most_passes = 12'000;      // then even the lane that a request avoids judges it: the others may hang
  // In a farm, where the queue is shared and any part may be elsewhere. Both outlive the engine.
  const Roster* roster = nullptr;
  ArtefactStore* artefacts = nullptr;  // finds what other hosts have built
};

/// What a builder compiles with, by backend.
std::map<std::string, std::string> ToolchainsOf(const Builder& builder);

/// Thread-safe. Dependencies must outlive it.
class Engine {
 public:
  using OnVerdict = std::function<void(absl::StatusOr<Verdict>)>;
  using OnSignature = std::function<void(absl::StatusOr<Signature>)>;
  class Call;

  /// Starts all lanes and waits for them. A device kind of which no lane starts is the error: a verifier that could judge
  /// nothing must not look healthy. A lane beside others that does not start is tried again until it does.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(EngineOptions options, Queue& queue, ResultCache& cache,
                                                        Builder& builder, Metrics& metrics, Logger log);
  /// Stops at once: what is running is interrupted and goes back to the queue without having spent a try.
  ~Engine();

  /// `on_verdict` is called once, from any thread, also from within this call; it must not block. Errors:
  /// kInvalidArgument (no such device here; the task is unusable; a key used for something else), kResourceExhausted
  /// (queue full), kUnavailable (draining), kCancelled, kFailedPrecondition (no compiler).
  std::shared_ptr<Call> Verify(const VerifyRequest& request, OnVerdict on_verdict);
  std::shared_ptr<Call> Describe(const Task& task, OnSignature on_signature);

  /// Nobody waits any more: the callback is not called after this returns, unless it is being called. A job that nobody
  /// else waits for and that has not started is dropped.
  void Abandon(const std::shared_ptr<Call>& call);

  /// Ends all calls of this key as kCancelled; returns how many.
  int64_t Cancel(const std::string& key);

  /// While what it returns lives, no lane of this process begins to judge; all else goes on. `on_quiet` is called once, from any
  /// thread, also from within this call, when none judges any more.
  std::shared_ptr<void> HoldLanes(std::function<void()> on_quiet);

  /// New calls get kUnavailable; returns when the open ones have ended or at the deadline, when the rest get
  /// kUnavailable too. Their jobs stay in the queue. In a farm nothing more is leased, and what is leased is finished.
  void Drain(SteadyTime deadline);

  /// Of the whole farm, where it is one.
  Capabilities GetCapabilities() const;

  /// The lanes of this process by kind, for the roster.
  std::vector<Member::Device> Devices() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::verifier

#pragma once

// What an operator watches, in Prometheus' terms. All names begin with hone_; docs/metrics.md lists them.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/verdict.h"
#include "verifier/cache/result_cache.h"
#include "verifier/queue/queue.h"

namespace hone::verifier {

enum class CacheUse { kHit, kMiss, kBypass };
enum class LaneState { kDown, kIdle, kBusy, kQuarantined };

/// Thread-safe; recording costs about a microsecond.
class Metrics {
 public:
  /// Queue depth and cache size are read from these when somebody scrapes.
  Metrics(const Queue& queue, const ResultCache& cache);
  ~Metrics();

  void CountVerdict(const Verdict& verdict);       // status, device and seconds per phase; not for cached ones
  void CountRequest(CacheUse use, double seconds);  // from arrival to answer
  void CountFailure(absl::string_view stage);      // a try that was ours to lose: "describe", "build", "lane"
  void SetLane(const std::string& name, LaneState state);
  void CountLaneStart(const std::string& name);
  /// `busy`: seconds a lane worked on a job; `late`: seconds that it was free before while the job was waiting for it.
  void CountLaneTime(const std::string& name, double busy, double late);
  /// Before a job: runners that stood ready. During it: seconds that it waited for some to start or to end.
  void CountRunners(const std::string& name, int ahead, double waited);
  /// What the CPU screen did with a candidate: "passed" to its device, "rejected", "rerun" (rejected, and judged on its
  /// device all the same), "disagreed" (a rerun that the device found right).
  void CountScreen(absl::string_view outcome);

  /// Serves GET /metrics on "host:port". kFailedPrecondition: cannot listen there.
  absl::Status Serve(const std::string& address);
  /// What a scrape returns.
  std::string Text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone::verifier

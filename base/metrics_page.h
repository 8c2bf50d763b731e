#pragma once

// The newest figures of a run for Prometheus: each name of MetricsWriter is a gauge, "learn/mfu" is hone_run_learn_mfu,
// "verdict/OK" is hone_run_verdict{kind="OK"}. docs/metrics.md lists the names.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace hone {

/// Thread-safe.
class MetricsPage {
 public:
  /// Serves GET /metrics on "host:port". kFailedPrecondition: cannot listen there.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Serve(const std::string& address);
  ~MetricsPage();

  /// The figures of a step, in place of those before; hone_run_step is its number. What is not finite is left out.
  void Set(int64_t step, const std::map<std::string, double>& values);
  /// What a scrape returns.
  std::string Text() const;

 private:
  struct State;
  explicit MetricsPage(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone

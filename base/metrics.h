#pragma once

// Scalar metrics of a run: TensorBoard event files and JSON Lines, written together. Names are the field's terms with
// units in them ("reward/mean", "verify/seconds"); docs/metrics.md lists them. Prometheus: metrics_page.h.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/file.h"

namespace hone {

/// One thread at a time.
class MetricsWriter {
 public:
  /// Appends to `folder`/metrics.jsonl and begins a new `folder`/events.out.tfevents.*: TensorBoard reads all of them.
  /// `clock` outlives the writer.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Create(const std::string& folder, const Clock& clock);

  /// One record: {"step": 12, "time": 1700000000.5, "reward/mean": 0.41}. Values that are not finite are null there and
  /// left out for TensorBoard; "metrics/not_finite" counts them since the start. kResourceExhausted (disk full):
  /// nothing half-written stays behind, and training may go on.
  absl::Status Write(int64_t step, const std::map<std::string, double>& values);
  /// To disk.
  absl::Status Flush();

  /// `also` gets every record as well; one listener.
  void AlsoTo(std::function<void(int64_t step, const std::map<std::string, double>& values)> also) { also_ = std::move(also); }

 private:
  MetricsWriter(AppendFile lines, AppendFile events, const Clock& clock);

  AppendFile lines_;
  AppendFile events_;
  const Clock& clock_;
  std::function<void(int64_t step, const std::map<std::string, double>& values)> also_;
  int64_t not_finite_ = 0;
};

}  // namespace hone

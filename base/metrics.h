#pragma once

// Scalar metrics of a run: TensorBoard event files and JSON Lines, written together. Names are the field's terms with
// units in them ("reward/mean", "verify/seconds"). Service counters for Prometheus live in verifier/service.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hone {

class MetricsWriter {
 public:
  /// Writes `folder`/metrics.jsonl and `folder`/events.out.tfevents.*; appends when they exist.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Create(const std::string& folder);
  ~MetricsWriter();

  /// One record; values that are not finite are written as null and counted.
  absl::Status Write(int64_t step, const std::map<std::string, double>& values);
  absl::Status Flush();

 private:
  MetricsWriter() = default;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone

#pragma once

// The measurements of a verifier farm, as functions that the bench program and its test call with different sizes.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hone::bench {

struct FarmFigure {
  std::string id;
  double value = 0;
  std::string unit;
};
using FarmFigures = std::vector<FarmFigure>;

/// The programs that a measurement starts.
struct FarmPrograms {
  std::string verifier;  // hone-verifier
  std::string python;    // with torch; empty: what hone-verifier finds itself
  std::string bench;     // farm_bench: its `client` is the clients of MeasureStreams, as processes that can be killed
};

struct ChaosOptions {
  int jobs = 2000;
  int hosts = 3;             // worker processes, each with a folder of its own
  bool real = true;          // kernels for the CPU device, a third of them wrong; else the no-op device
  double every_s = 2;        // mean time between two kills
  uint64_t seed = 1;
};

/// Sends jobs through two fronts while workers, fronts and Redis (with its append-only file) are killed with signal 9 and
/// started again. farm.chaos_lost: requests without exactly one verdict; farm.chaos_wrong: verdicts that are not what the
/// candidate deserves, INFRA included.
absl::StatusOr<FarmFigures> MeasureChaos(const FarmPrograms& programs, const ChaosOptions& options);

struct ScalingOptions {
  int jobs = 4000;
  int64_t wait_ms = 5;       // that each job keeps its lane
};

/// farm.scaling_1_to_4: verdicts a second with four one-lane workers over that with one, where a job keeps its lane for
/// `wait_ms` without using a core. It measures how the queue spreads work, not how cores share it.
absl::StatusOr<FarmFigures> MeasureScaling(const FarmPrograms& programs, const ScalingOptions& options);

/// farm.front_overhead_ms_p50: median latency of a no-op verdict through front, Redis and a worker process, minus the
/// median through one embedded process; one request at a time, alternating.
absl::StatusOr<FarmFigures> MeasureFrontOverhead(const FarmPrograms& programs, int requests);

struct StreamsOptions {
  int streams = 1000;
  int jobs_per_stream = 20;
  int64_t wait_ms = 2;            // that a job keeps one of the lanes
  int large = 16;                 // clients that send one source of large_bytes each
  int64_t large_bytes = 10 << 20;
};

/// Ten client processes share the streams, each stream a connection of its own: eight behave, one is killed in the middle,
/// one is stopped nine tenths of the time, so that its streams are read slowly; others send large sources.
/// farm.streams_1000_errors: errors and missing verdicts of those that behave. farm.streams_1000_mb: the front's largest
/// resident set; docs/farm.md states its bound.
absl::StatusOr<FarmFigures> MeasureStreams(const FarmPrograms& programs, const StreamsOptions& options);

/// One such process: returns how many requests got no verdict of OK.
int RunStreamClients(const std::string& endpoint, int streams, int jobs, int64_t bytes, int64_t wait_ms);

}  // namespace hone::bench

#pragma once

// How a candidate is checked and timed. The id stands in every verdict: figures of different protocols never mix.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

/// What a speedup is relative to.
enum class Baseline {
  kEager,    // the PyTorch reference as it is
  kCompile,  // torch.compile of the reference
  kGraph,    // a CUDA graph of the eager reference
  kScalar,   // the task's own scalar native kernel (CPU backend, quickstart); left out for a task that has none
};

/// How the paired rounds become one speedup.
enum class SpeedupStatistic {
  kMedianOfRatios,  // median of baseline / candidate over paired rounds
  kRatioOfMeans,    // mean baseline time / mean candidate time, as KernelBench reports it
};

struct Protocol {
  std::string id = "hone-v1";
  int check_sets_per_shape = 2;       // checked calls on each shape variant and value profile
  bool check_variants = true;         // the task's hidden shapes besides the timed one
  bool check_profiles = true;         // the task's extra value profiles
  std::vector<Baseline> baselines = {Baseline::kEager};  // the first is the one `speedup` refers to; empty: not timed
  SpeedupStatistic statistic = SpeedupStatistic::kMedianOfRatios;
  int min_rounds = 7;                 // paired rounds before the interval may stop the timing
  int max_rounds = 61;
  double target_half_width = 0.01;    // stop when the 95 % interval's half width / median is below
  double max_overhead = 0.005;        // share of a round that messages may take; sets the calls per round
  int64_t rotate_bytes = 0;           // inputs+outputs of one round; 0: twice the device's cache
  int64_t build_timeout_ms = 120'000;
  int64_t run_timeout_ms = 60'000;    // the whole of checking and timing on the lane
  bool keep_samples = false;          // all paired samples in the verdict
  bool timed_by_events = false;       // on a GPU: a round is one call between two events of the device, after the cache is
                                      // cleared, as KernelBench times; else many calls from message to answer
  bool sanitize = false;              // on a GPU: a fault or a wrong answer comes with the vendor's memory checker's report
  bool profile = false;               // on a GPU: a right candidate comes with its kernels, counted by the vendor's profiler
  friend bool operator==(const Protocol&, const Protocol&) = default;
};

/// The protocols that ship; kNotFound names those that exist.
///   hone-v1           the defaults above.
///   kernelbench-v0.1  5 checked calls at the task's own shape and values, 100 timed rounds of one call each between events
///                     of the device, ratio of means. Checked and timed calls stay those of hone: secret seeds, fresh inputs,
///                     every timed call compared; events are a candidate's hearsay, held against the judge's clock only
///                     within what a message costs.
///   quick             hone-v1's checks with fewer rounds and a looser stop, against the scalar baseline first, for
///                     training on the CPU backend.
absl::StatusOr<Protocol> ProtocolById(absl::string_view id);

std::vector<std::string> ProtocolIds();

absl::string_view Name(Baseline baseline);
std::optional<Baseline> ParseBaseline(absl::string_view name);

}  // namespace hone

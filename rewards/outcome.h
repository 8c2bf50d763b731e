#pragma once

// What a reward may know about one turn: the verdict and the size of the response, without the texts. The lab reads
// only these fields from a journal, so a pipeline costs the same whether it is fed by the learner or replayed.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/episode.h"
#include "base/protocol.h"
#include "base/verdict.h"

namespace hone::rewards {

inline constexpr int kBaselines = 4;  // enumerators of hone::Baseline

/// Speedup over one baseline with its 95 % interval. `median` 0: not measured.
struct Speedup {
  double median = 0;
  double low = 0;
  double high = 0;
  bool measured() const { return median > 0; }
  friend bool operator==(const Speedup&, const Speedup&) = default;
};

struct Outcome {
  VerdictStatus status = VerdictStatus::kInfra;
  double correct_rate = 0;                   // q in [0, 1]; 1 exactly when status is kOk
  std::array<Speedup, kBaselines> speedups;  // by Baseline; only of a kOk verdict
  std::optional<Baseline> first_baseline;    // the protocol's first: what `speedup` means when no baseline is named
  std::optional<double> coverage;            // Verdict::coverage, in [0, 1]; unset: not measured
  absl::Span<const double> samples;          // paired ratios of the first baseline, borrowed; empty: not kept
  int64_t response_tokens = 0;               // 0: unknown
  bool truncated = false;                    // ended by the length limit
  double uniform = 0;                        // this turn's own draw from [0, 1), a function of episode id and turn

  bool passed() const { return status == VerdictStatus::kOk; }
};

/// Figures that no measurement can give (NaN, infinite, negative) count as not measured, a rate outside [0, 1] is
/// clamped: no verdict makes a reward NaN. `turn.verdict` is borrowed for `samples`.
Outcome OutcomeOf(const Turn& turn, const std::string& episode_id, int turn_index);

/// In [0, 1); equal arguments give equal draws on every machine.
double UniformOf(absl::string_view episode_id, int turn_index);

/// Turns of one episode, in order.
using EpisodeOutcomes = std::vector<Outcome>;
/// Episodes of one prompt.
using GroupOutcomes = std::vector<EpisodeOutcomes>;

GroupOutcomes OutcomesOf(const Group& group);

}  // namespace hone::rewards

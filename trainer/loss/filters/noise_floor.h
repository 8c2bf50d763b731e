#pragma once

// How far learner and rollout engine are apart when nothing is stale: the floor below which no filter's threshold may
// lie.
//
// Input: recorded log-probabilities, JSON Lines (plain or zstd), one sampled sequence a line after a header:
//   {"hone_log_probs": 1}
//   {"episode": "step-3/0", "turn": 1, "staleness": 0, "learner": [-0.71, ...], "rollout": [-0.70, ...]}
// staleness: learner's version minus the oldest version that wrote a token. `learner`: before the update, at the
// sampling temperature. Numbers that are not finite are the words "nan", "inf", "-inf".

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hone::trainer {

struct LogProbRecord {
  std::string episode;
  int64_t turn = 1;
  int64_t staleness = 0;
  std::vector<float> learner;  // [response tokens]
  std::vector<float> rollout;  // [response tokens]
  friend bool operator==(const LogProbRecord&, const LogProbRecord&) = default;
};

/// The header, and one line for a record; without newline.
std::string LogProbHeader();
std::string LogProbRecordToJson(const LogProbRecord& record);

/// Calls `visit` for every record. kInvalidArgument: not such a file, a newer schema, or a record that is wrong (names
/// file and record). Returns a warning when the file was cut, else an empty string.
absl::StatusOr<std::string> ReadLogProbs(const std::string& path,
                                         const std::function<absl::Status(const LogProbRecord&)>& visit);

/// Sequences of one staleness.
struct MismatchAtStaleness {
  int64_t sequences = 0;
  int64_t tokens = 0;
  int64_t not_finite = 0;  // tokens; their sequences are in none of the figures below
  double sum_abs = 0;      // of |log rho| over tokens
  double sum_k3 = 0;
  double max_abs = 0;
  std::vector<float> sequence_means;  // mean |log rho| of each sequence: what MirrorPop holds against delta

  double MeanAbs() const { return tokens > 0 ? sum_abs / static_cast<double>(tokens) : 0; }
  double MeanK3() const { return tokens > 0 ? sum_k3 / static_cast<double>(tokens) : 0; }
  double SequenceQuantile(double q) const;
  /// Share of the sequences that MirrorPop rejects at this threshold, those with a token that is not finite among them.
  double RejectedShare(double delta) const;
};

class NoiseFloor {
 public:
  /// kInvalidArgument: learner and rollout of different length.
  absl::Status Add(const LogProbRecord& record);

  const std::map<int64_t, MismatchAtStaleness>& by_staleness() const { return by_staleness_; }

  /// Three times the mean |log rho| at zero staleness, but at least the 99.9 % quantile of its sequences' means, so
  /// that noise alone loses at most one sequence in a thousand; rounded up to two digits. Ours: "a few times the
  /// floor". 0: engine and learner agree to the bit, so that any threshold is above the noise. kFailedPrecondition: no
  /// finite sequence at zero staleness.
  absl::StatusOr<double> SuggestedDelta() const;

  /// A table for a terminal: one line a staleness, then the rejected share at thresholds around the suggestion.
  std::string Text(absl::Span<const double> deltas) const;
  /// staleness,delta,rejected_share,... one line each.
  std::string Csv(absl::Span<const double> deltas) const;

 private:
  std::map<int64_t, MismatchAtStaleness> by_staleness_;
};

}  // namespace hone::trainer

#pragma once

// What a candidate's timed rounds say about each other: its own clock against the judge's, the device's peak, the work between
// rounds. The rules of RuleStage::kTime that need no outputs.

#include <cstdint>
#include <optional>

#include "verifier/lane/findings.h"
#include "verifier/rules/rule.h"

namespace hone::verifier {

struct TimedEvidence {
  double call_ns = 0;             // median over rounds, by the judge's clock
  int calls = 1;                  // a round
  double overhead_ns = 0;         // of one message
  double disagreement_ns = 0;     // of a round: the judge's clock less the candidate's, median
  bool judged_by_wall = false;    // the judge's clock is what counts, and runs on while the host is busy elsewhere
  double outside_ns = 0;          // a round: processor time between rounds, mean; or, on a device that is shared, by how much
  bool outside_by_wall = false;   // the judge's own work before and after the message was late, median
  int rehearsed_calls = 0;        // that a runner makes when it is woken
  int64_t written_bytes = 0;      // outputs of one call
  double peak_bytes_per_ns = 0;   // of the device's memory; 0: not known
  uint64_t launches_checked = 0;  // of one checked call
  uint64_t launches_timed = 0;    // of one round
};

/// The first rule that speaks. What is allowed between clocks, and of work outside: a quarter of a round, five messages and
/// 20 us, because a scheduler's tick falls where it likes. Where wall time counts, a candidate's clock may show less than the
/// judge's: a busy host delays messages, that only costs the candidate, and what it says is not scored. What surrounds a
/// round may then be late by a tenth of it, five messages and half a millisecond, and by what is rehearsed.
std::optional<Finding> CrossCheck(const TimedEvidence& evidence, const RulePolicy& policy);

}  // namespace hone::verifier

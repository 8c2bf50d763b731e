#include "verifier/lane/cross_check.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace hone::verifier {
namespace {

constexpr double kColdCall = 3;  // times what it takes later, its copies included
constexpr double kAroundNs = 500'000;  // honest candidates: up to 0.42 ms in 185 verdicts of rounds of half a millisecond

}  // namespace

std::optional<Finding> CrossCheck(const TimedEvidence& evidence, const RulePolicy& policy) {
  const double round_ns = evidence.call_ns * evidence.calls;
  const double allowed = 0.25 * round_ns + 5 * evidence.overhead_ns + 20'000;
  const double disagreement = evidence.judged_by_wall ? -evidence.disagreement_ns : std::fabs(evidence.disagreement_ns);
  if (!(disagreement <= allowed)) {
    return Cheat("clock_disagreement", absl::StrFormat("its own clock differs by %.0f ns from a round of %.0f ns",
                                                       evidence.disagreement_ns, round_ns));
  }
  const auto written = static_cast<double>(evidence.written_bytes);
  const double peak = evidence.peak_bytes_per_ns;
  if (policy.Applies("faster_than_device") && (!(evidence.call_ns > 0) || (peak > 0 && written > peak * evidence.call_ns))) {
    return Cheat("faster_than_device", absl::StrFormat("%d bytes of output in %.1f ns; the device writes at most %.0f a ns",
                                                       evidence.written_bytes, evidence.call_ns, peak));
  }
  if (policy.Applies("launches_differ") && evidence.launches_checked > 0 && evidence.launches_timed == 0) {
    return Cheat("launches_differ", absl::StrFormat("no kernel launched in a timed round of %d calls; a checked call launched %d",
                                                    evidence.calls, evidence.launches_checked));
  }
  const double rehearsal_ns = kColdCall * evidence.rehearsed_calls * evidence.call_ns;
  const double late = 0.1 * round_ns + 5 * evidence.overhead_ns + kAroundNs + rehearsal_ns;
  if (evidence.outside_ns > (evidence.outside_by_wall ? late : allowed)) {
    return Cheat("work_outside_rounds", absl::StrFormat("%.0f ns of work %s rounds of %.0f ns", evidence.outside_ns,
                                                        evidence.outside_by_wall ? "around" : "between", round_ns));
  }
  return std::nullopt;
}

}  // namespace hone::verifier

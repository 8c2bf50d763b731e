#include "verifier/lane/cross_check.h"

#include <catch2/catch_test_macros.hpp>
#include <limits>

namespace hone::verifier {
namespace {

/// 1 ms of 10 calls that write 4 KiB each; a message costs 10 us. Allowed are 250 + 50 + 20 us.
TimedEvidence Honest() {
  TimedEvidence evidence;
  evidence.call_ns = 100'000;
  evidence.calls = 10;
  evidence.overhead_ns = 10'000;
  evidence.written_bytes = 4096;
  evidence.peak_bytes_per_ns = 1;
  evidence.launches_checked = 1;
  evidence.launches_timed = 10;
  return evidence;
}

std::string RuleOf(const TimedEvidence& evidence, const RulePolicy& policy = {}) {
  const std::optional<Finding> finding = CrossCheck(evidence, policy);
  if (!finding) return "";
  CHECK(finding->status == VerdictStatus::kCheat);
  REQUIRE(finding->rule);
  CHECK(finding->rule->reject);
  CHECK_FALSE(finding->rule->evidence.empty());
  return finding->rule->rule;
}

RulePolicy Without(const std::string& rule) {
  LegalityPolicy legality;
  legality.disabled_rules = {rule};
  return RulePolicy(legality);
}

TEST_CASE("Rounds whose clocks agree, within the device's peak and without work between them say nothing", "[verifier][lane]") {
  CHECK(RuleOf(Honest()).empty());
  TimedEvidence unknown = Honest();
  unknown.peak_bytes_per_ns = 0;
  unknown.launches_checked = unknown.launches_timed = 0;
  CHECK(RuleOf(unknown).empty());
}

TEST_CASE("A candidate's clock may differ by a quarter of a round, five messages and 20 us, in either direction",
          "[verifier][lane]") {
  TimedEvidence evidence = Honest();
  for (const double sign : {1.0, -1.0}) {
    evidence.disagreement_ns = sign * 319'000;
    CHECK(RuleOf(evidence).empty());
    evidence.disagreement_ns = sign * 321'000;
    CHECK(RuleOf(evidence) == "clock_disagreement");
    CHECK(RuleOf(evidence, Without("clock_disagreement")) == "clock_disagreement");  // no task can switch it off
  }
  evidence.disagreement_ns = std::numeric_limits<double>::quiet_NaN();
  CHECK(RuleOf(evidence) == "clock_disagreement");
}

TEST_CASE("Where the judge's wall time counts, a candidate's clock may show less, and never more", "[verifier][lane]") {
  TimedEvidence evidence = Honest();
  evidence.judged_by_wall = true;
  evidence.disagreement_ns = 900'000;  // a busy host
  CHECK(RuleOf(evidence).empty());
  evidence.disagreement_ns = -321'000;  // work that the judge did not see
  CHECK(RuleOf(evidence) == "clock_disagreement");
}

TEST_CASE("Outputs written faster than the device's memory takes them, or in no time, are CHEAT", "[verifier][lane]") {
  TimedEvidence evidence = Honest();
  evidence.call_ns = 4096;
  CHECK(RuleOf(evidence).empty());
  evidence.call_ns = 4095;
  CHECK(RuleOf(evidence) == "faster_than_device");
  CHECK(RuleOf(evidence, Without("faster_than_device")).empty());
  evidence.peak_bytes_per_ns = 0;
  CHECK(RuleOf(evidence).empty());
  for (const double none : {0.0, -5.0, std::numeric_limits<double>::quiet_NaN()}) {
    TimedEvidence timeless = Honest();
    timeless.call_ns = none;
    CHECK_FALSE(RuleOf(timeless).empty());
  }
}

TEST_CASE("Processor time between rounds is CHEAT once it is more than the clocks may differ by", "[verifier][lane]") {
  TimedEvidence evidence = Honest();
  evidence.outside_ns = 319'000;
  CHECK(RuleOf(evidence).empty());
  evidence.outside_ns = 321'000;
  CHECK(RuleOf(evidence) == "work_outside_rounds");
  CHECK(RuleOf(evidence, Without("work_outside_rounds")) == "work_outside_rounds");
}

TEST_CASE("On a shared device the judge's own work around a round may be late by a tenth of it, five messages and half a millisecond",
          "[verifier][lane]") {
  TimedEvidence evidence = Honest();
  evidence.outside_by_wall = true;
  evidence.outside_ns = 649'000;
  CHECK(RuleOf(evidence).empty());
  evidence.outside_ns = 651'000;
  CHECK(RuleOf(evidence) == "work_outside_rounds");
}

TEST_CASE("Launches that stop once calls are timed are CHEAT, fewer of them are not", "[verifier][lane]") {
  TimedEvidence evidence = Honest();
  evidence.launches_timed = 1;
  CHECK(RuleOf(evidence).empty());
  evidence.launches_timed = 0;
  CHECK(RuleOf(evidence) == "launches_differ");
  CHECK(RuleOf(evidence, Without("launches_differ")).empty());
}

}  // namespace
}  // namespace hone::verifier

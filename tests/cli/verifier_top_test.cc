#include "cli/verifier_top.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/match.h"

namespace hone::cli {
namespace {

constexpr char kBefore[] = "# HELP hone_verdicts_total x\nhone_verdicts_total{device=\"cpu\",status=\"OK\"} 10\n";
constexpr char kNow[] =
    "hone_verdicts_total{device=\"cpu\",status=\"OK\"} 30\n"
    "hone_verdicts_total{device=\"gpu, \\\"big\\\"\",status=\"INCORRECT\"} 4\n"
    "hone_queue_jobs{kind=\"lane/cpu\",state=\"waiting\"} 7\nhone_queue_jobs{kind=\"lane/cpu\",state=\"leased\"} 2\n"
    "hone_queue_up 1\nhone_queue_dead_letters 3\n"
    "hone_lane_state{lane=\"cpu:0\",state=\"busy\"} 1\nhone_lane_state{lane=\"cpu:0\",state=\"idle\"} 0\n"
    "hone_request_seconds_count{cache=\"hit\"} 30\nhone_request_seconds_sum{cache=\"hit\"} 3\n"
    "hone_request_seconds_count{cache=\"miss\"} 10\nhone_request_seconds_sum{cache=\"miss\"} 20\nnonsense\n";

TEST_CASE("Metrics are read with their labels, and lines that do not parse are left out", "[cli][top]") {
  const std::vector<MetricSample> samples = ParseMetrics(kNow);
  REQUIRE(samples.size() == 12);
  CHECK(samples[0].name == "hone_verdicts_total");
  CHECK(samples[0].labels.at("status") == "OK");
  CHECK(samples[0].value == 30);
  CHECK(samples[1].labels.at("status") == "INCORRECT");
}

TEST_CASE("The table shows counts, rates between two looks, the queue, lanes and the cache's share", "[cli][top]") {
  Capabilities capabilities;
  capabilities.version = "0.1.0";
  capabilities.devices = {"cpu"};
  capabilities.lanes = 4;
  const std::string table = RenderTop(capabilities, ParseMetrics(kBefore), ParseMetrics(kNow), 2);
  INFO(table);
  CHECK(absl::StrContains(table, "4 lanes on cpu"));
  CHECK(absl::StrContains(table, "OK 30 (10.0/s)"));
  CHECK(absl::StrContains(table, "INCORRECT 4 (2.0/s)"));
  CHECK(absl::StrContains(table, "lane/cpu 7 waiting, 2 at work"));
  CHECK(absl::StrContains(table, "3 dead letters"));
  CHECK(absl::StrContains(table, "1 busy"));
  CHECK_FALSE(absl::StrContains(table, "idle"));
  CHECK(absl::StrContains(table, "hit 30 (75 %, mean 0.1 s)"));
  CHECK(absl::StrContains(RenderTop({}, {}, ParseMetrics("hone_queue_up 0\n"), 0), "NOT REACHABLE"));
}

}  // namespace
}  // namespace hone::cli

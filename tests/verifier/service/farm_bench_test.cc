// The farm's measurements at a small size: what the bench program calls does measure, and small farms meet its bars.

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "bench/farm/measure.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_programs.h"

namespace hone::bench {
namespace {

FarmPrograms Programs() {
  FarmPrograms programs;
  programs.verifier = TestProgram("hone-verifier");
  if (programs.verifier.empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  programs.python = TestPython();
  programs.bench = std::string(HONE_BUILD_DIR) + "/bench/farm_bench";
  const RedisServer redis;  // skips where there is none
  return programs;
}

double FigureOf(const absl::StatusOr<FarmFigures>& figures, const std::string& id) {
  INFO(figures.status().ToString());
  REQUIRE(figures.ok());
  for (const FarmFigure& figure : *figures) {
    if (figure.id == id) return figure.value;
  }
  FAIL("no figure " << id);
  return 0;
}

TEST_CASE("A hundred jobs survive kills of workers, fronts and Redis with one right verdict each", "[farm][bench]") {
  ChaosOptions options;
  options.jobs = 100;
  options.real = false;
  options.every_s = 0.5;
  const auto figures = MeasureChaos(Programs(), options);
  CHECK(FigureOf(figures, "farm.chaos_lost") == 0);
  CHECK(FigureOf(figures, "farm.chaos_wrong") == 0);
}

TEST_CASE("Forty streams of clients that vanish, read slowly or send 10 MB leave the others without an error",
          "[farm][bench]") {
  StreamsOptions options;
  options.streams = 40;
  options.jobs_per_stream = 5;
  options.large = 2;
  const auto figures = MeasureStreams(Programs(), options);
  CHECK(FigureOf(figures, "farm.streams_1000_errors") == 0);
  CHECK(FigureOf(figures, "farm.streams_1000_mb") > 1);
}

TEST_CASE("Scaling and the front's overhead are measured", "[farm][bench]") {
  ScalingOptions options;
  options.jobs = 100;
  CHECK(FigureOf(MeasureScaling(Programs(), options), "farm.scaling_1_to_4") > 0);
  FigureOf(MeasureFrontOverhead(Programs(), 20), "farm.front_overhead_ms_p50");
}

}  // namespace
}  // namespace hone::bench

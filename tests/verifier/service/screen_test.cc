#include "verifier/service/screen.h"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "tests/verifier/service/fakes.h"

namespace hone::verifier {
namespace {

/// A screen whose lanes and builder do what sources say, before a device that is fake too.
struct ScreenFixture : EngineFixture {
  ScreenFixture() {
    ScreenOptions options;
    options.lanes = 2;
    options.start_lane = [this](int) -> absl::StatusOr<std::unique_ptr<Lane>> {
      ++screen_counts.lane_starts;
      return std::make_unique<FakeLane>(screen_counts);
    };
    screen = std::make_unique<Screen>(options, &builder);
  }
  ~ScreenFixture() { Stop(); }

  void StartWithDevice(double rerun_share) {
    OpenStores();
    EngineOptions options;
    options.version = "test";
    options.screen = screen.get();
    options.screen_rerun_share = rerun_share;
    options.lanes.push_back({"cuda", "cuda:0", [this]() -> absl::StatusOr<std::unique_ptr<Lane>> {
                               return std::make_unique<FakeLane>(counts);
                             }});
    auto started = Engine::Create(std::move(options), *queue, *cache, builder, *metrics, Logger::Discard());
    INFO(started.status());
    REQUIRE(started.ok());
    engine = *std::move(started);
  }
  Verdict Verify(const std::string& source) {
    VerifyRequest request = Request(source);
    request.candidate.backend = Backend::kCuda;
    Answer<Verdict> answer;
    engine->Verify(request, answer.Callback());
    const absl::StatusOr<Verdict> verdict = answer.Wait();
    INFO(verdict.status());
    REQUIRE(verdict.ok());
    return *verdict;
  }
  std::optional<Verdict> Look(const std::string& source) { return screen->Look(Request(source), Signature{}); }

  Counts screen_counts;
  std::unique_ptr<Screen> screen;
};

TEST_CASE("The screen rejects what is wrong on the CPU, and leaves everything else to the device", "[verifier][service]") {
  ScreenFixture f;
  const std::optional<Verdict> wrong = f.Look("incorrect a");
  REQUIRE(wrong.has_value());
  CHECK(wrong->status == VerdictStatus::kIncorrect);
  CHECK(wrong->screened_on_cpu);
  for (const char* source : {"ok a", "timeout a", "infra a", "compile a", "forbidden a", "no_compiler a", "crash a", "bad_judge a"}) {
    INFO(source);
    CHECK_FALSE(f.Look(source).has_value());
  }
}

TEST_CASE("A screen's lane that died is started anew", "[verifier][service]") {
  ScreenFixture f;
  CHECK_FALSE(f.Look("crash a").has_value());
  CHECK(f.Look("incorrect a").has_value());
  CHECK(f.screen_counts.lane_starts == 2);
}

TEST_CASE("A screened-out candidate gets its verdict without a lane of the device", "[verifier][service]") {
  ScreenFixture f;
  f.StartWithDevice(0);
  CHECK(f.Verify("ok a").status == VerdictStatus::kOk);
  CHECK(f.counts.judgements == 1);
  const Verdict wrong = f.Verify("incorrect a");
  CHECK(wrong.status == VerdictStatus::kIncorrect);
  CHECK(wrong.screened_on_cpu);
  CHECK(f.counts.judgements == 1);
}

TEST_CASE("A share of the rejected is judged on the device all the same, whose word counts", "[verifier][service]") {
  ScreenFixture f;
  f.StartWithDevice(1);
  const Verdict wrong = f.Verify("incorrect a");
  CHECK(wrong.status == VerdictStatus::kIncorrect);
  CHECK_FALSE(wrong.screened_on_cpu);
  CHECK(f.counts.judgements == 1);
  CHECK(f.screen_counts.judgements == 1);
}

TEST_CASE("What is screened is the hidden shapes, never the one that is timed on the device", "[verifier][service]") {
  Task task;
  task.variants = {{{"n", 1}}, {{"n", 7}}};
  task.timing = {{"n", 1000}};
  task.timing_gpu = {{"n", 1 << 26}};
  const std::optional<Task> screened = ScreenedTask(task, {});
  REQUIRE(screened.has_value());
  CHECK(screened->variants == std::vector<Sizes>{{{"n", 1}}});
  CHECK(screened->timing == Sizes{{"n", 7}});
  CHECK(screened->timing_gpu.empty());
}

TEST_CASE("A task that names no shapes is screened at its own, where that is small", "[verifier][service]") {
  Task task;
  task.timing_gpu = {{"n", 1 << 26}};
  Signature signature;
  signature.tensors.emplace_back();
  signature.tensors[0].spec.shape = {1000, 1000};
  const std::optional<Task> screened = ScreenedTask(task, signature);
  REQUIRE(screened.has_value());
  CHECK(screened->timing.empty());
  signature.tensors[0].spec.shape = {10'000, 10'000};
  CHECK_FALSE(ScreenedTask(task, signature).has_value());
}

}  // namespace
}  // namespace hone::verifier

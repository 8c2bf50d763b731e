// The lane from end to end on the CPU device: real reference worker, real build stage, real runner in its sandbox.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "lane/bench.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::Bench;
using test::kRowScale;
using test::QuickEager;
using test::RowScale;

/// RowScale's kernel with another line in the place of the assignment.
std::string WithBody(const std::string& body) {
  std::string source = kRowScale;
  const std::string line = "if (i < rows * cols) out[i] = x[i] * weight[i % cols];";
  return source.replace(source.find(line), line.size(), body);
}

TEST_CASE("A right candidate is OK, with a speedup against eager and its interval", "[verifier][lane]") {
  const Verdict verdict = Bench::Get().JudgeSource(kRowScale);
  INFO(verdict.message);
  REQUIRE(verdict.status == VerdictStatus::kOk);
  CHECK(verdict.correct_rate == 1.0);
  CHECK(verdict.coverage == 1.0);  // a native candidate has only its own kernels
  REQUIRE(verdict.timings.size() == 1);
  const Timing& timing = verdict.timings[0];
  CHECK(timing.baseline == Baseline::kEager);
  CHECK(timing.emulated);
  CHECK(timing.candidate_ns > 0);
  CHECK(timing.baseline_ns > 0);
  CHECK(timing.speedup.low <= timing.speedup.median);
  CHECK(timing.speedup.median <= timing.speedup.high);
  CHECK(timing.speedup.samples >= 5);
  CHECK(verdict.sandbox == ChooseSandbox("").value());
  CHECK(verdict.seed_id.size() == 16);
  CHECK(verdict.protocol == "quick");
}

TEST_CASE("A wrong candidate is INCORRECT with its first mismatch and the share of right calls", "[verifier][lane]") {
  const Verdict verdict = Bench::Get().JudgeSource(WithBody("if (i < rows * cols) out[i] = x[i] * weight[i % cols] + 1;"));
  REQUIRE(verdict.status == VerdictStatus::kIncorrect);
  CHECK(verdict.correct_rate == 0);
  REQUIRE(verdict.mismatch);
  CHECK(verdict.mismatch->output == "out");
  CHECK(verdict.mismatch->index == std::vector<int64_t>{0, 0});
  CHECK(std::abs(verdict.mismatch->got - verdict.mismatch->want - 1) < 1e-4);
  CHECK(verdict.mismatch->error_in_tolerances > 1000);
  CHECK(verdict.mismatch->shape == "rows=3 cols=7");
  CHECK(verdict.timings.empty());
}

TEST_CASE("A candidate that is wrong on some shapes only is right on the others' share of calls", "[verifier][lane]") {
  const Verdict verdict =
      Bench::Get().JudgeSource(WithBody("if (i < rows * cols) out[i] = cols == 65 ? 0.f : x[i] * weight[i % cols];"));
  REQUIRE(verdict.status == VerdictStatus::kIncorrect);
  // 3 hidden shapes, 1 profile on the last of them, the timed shape: 5 cases of which 2 have 65 columns.
  CHECK(verdict.correct_rate == 0.6);
  CHECK(verdict.mismatch->diagnosis == "all zero");
  CHECK(verdict.mismatch->shape == "rows=33 cols=65");
}

TEST_CASE("An unwritten tail is told as such", "[verifier][lane]") {
  const Verdict verdict =
      Bench::Get().JudgeSource(WithBody("if (i < rows * cols - 1) out[i] = x[i] * weight[i % cols];"));
  REQUIRE(verdict.status == VerdictStatus::kIncorrect);
  CHECK_THAT(verdict.mismatch->diagnosis, ContainsSubstring("not written"));
}

TEST_CASE("A result that depends on the order of threads is told as a race", "[verifier][lane]") {
  // Each thread relies on its lower neighbour having run: right in ascending order only.
  const Verdict verdict = Bench::Get().JudgeSource(WithBody(R"(
    if (i < rows * cols) {
      float left = i == 0 ? 0.f : out[i - 1];
      out[i] = i > 0 && left != x[i - 1] * weight[(i - 1) % cols] ? -7.f : x[i] * weight[i % cols];
    })"));
  REQUIRE(verdict.status == VerdictStatus::kIncorrect);
  CHECK_THAT(verdict.mismatch->diagnosis, ContainsSubstring("race"));
}

TEST_CASE("Reading and writing past the end are RUNTIME and name the tensor", "[verifier][lane]") {
  const Verdict write = Bench::Get().JudgeSource(WithBody("out[i] = i < rows * cols ? x[i] * weight[i % cols] : 0.f;"));
  CHECK(write.status == VerdictStatus::kRuntime);
  CHECK_THAT(write.message, ContainsSubstring("past the end of `out`"));
  const Verdict read = Bench::Get().JudgeSource(
      WithBody("float v = x[i + 8]; if (i < rows * cols) out[i] = x[i] * weight[i % cols] + 0.f * v;"));
  CHECK(read.status == VerdictStatus::kRuntime);
  CHECK_THAT(read.message, ContainsSubstring("past the end of `x`"));
  const Verdict before = Bench::Get().JudgeSource(
      WithBody("if (i == 0) out[-1] = 1.f; if (i < rows * cols) out[i] = x[i] * weight[i % cols];"));
  CHECK(before.status == VerdictStatus::kRuntime);
  CHECK_THAT(before.message, ContainsSubstring("before `out`"));
}

TEST_CASE("Host code that touches device memory is RUNTIME", "[verifier][lane]") {
  const Verdict verdict = Bench::Get().JudgeSource(R"(
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  for (int i = 0; i < rows * cols; ++i) out[i] = x[i] * weight[i % cols];
})");
  CHECK(verdict.status == VerdictStatus::kRuntime);
  CHECK_THAT(verdict.message, ContainsSubstring("host code"));
}

TEST_CASE("A launch that the device refuses is RUNTIME with the CUDA error's name", "[verifier][lane]") {
  std::string source = kRowScale;
  source.replace(source.find("256, 0, stream"), 14, "2048, 0, stream");
  const Verdict verdict = Bench::Get().JudgeSource(source);
  CHECK(verdict.status == VerdictStatus::kRuntime);
  CHECK_THAT(verdict.message, ContainsSubstring("cudaErrorInvalidConfiguration"));
}

TEST_CASE("An allocation beyond the memory limit is OOM", "[verifier][lane]") {
  std::string source = kRowScale;
  source.replace(source.find("  scale<<<"), 10, R"(
  void* much; if (cudaMalloc(&much, 1ull << 40) != cudaSuccess) return;
  scale<<<)");
  const Verdict verdict = Bench::Get().JudgeSource(source);
  CHECK(verdict.status == VerdictStatus::kOom);
}

TEST_CASE("A kernel that never ends is TIMEOUT and the next candidate is unaffected", "[verifier][lane]") {
  const Verdict verdict = Bench::Get().JudgeSource(WithBody("volatile int go = 1; while (go) {}"));
  CHECK(verdict.status == VerdictStatus::kTimeout);
  CHECK(Bench::Get().JudgeSource(kRowScale).status == VerdictStatus::kOk);
}

TEST_CASE("The scalar baseline is timed in a runner of its own, and a wrong one is the task's fault", "[verifier][lane]") {
  Bench& bench = Bench::Get();
  Task task = RowScale();
  task.scalar_baseline = kRowScale;
  const BuildResult build = bench.artefacts().Build(kRowScale, bench.Describe(task));
  Protocol protocol = ProtocolById("quick").value();
  protocol.keep_samples = true;
  const Verdict verdict = bench.Judge(task, build, protocol, build);
  INFO(verdict.message);
  REQUIRE(verdict.status == VerdictStatus::kOk);
  REQUIRE(verdict.timings.size() == 2);
  CHECK(verdict.speed()->baseline == Baseline::kScalar);
  CHECK(verdict.timings[1].baseline == Baseline::kEager);
  CHECK(static_cast<int>(verdict.timings[0].samples.size()) == verdict.timings[0].speedup.samples);

  LaneJob job;
  job.task = task;
  job.signature = bench.Describe(task);
  job.build = build;
  job.scalar_build = bench.artefacts().Build(WithBody("if (i < rows * cols) out[i] = 1.f;"), job.signature);
  job.protocol = protocol;
  const auto wrong = bench.lane().Judge(job);
  CHECK(absl::IsInvalidArgument(wrong.status()));
}

}  // namespace
}  // namespace hone::verifier

// The lane from end to end on the CPU device: real reference worker, real runner in its sandbox, artefacts of the test.

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <cstdlib>

#include "absl/time/clock.h"
#include "lane/artefacts.h"
#include "verifier/lane/lane.h"

namespace hone::verifier {
namespace {

/// out[r, c] = x[r, c] * weight[c], and its rows' sums.
Task RowScale() {
  Task task;
  task.id = "row_scale";
  task.reference = R"(
import torch
rows = 160
cols = 260
class Model(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(cols))
    def forward(self, x):
        return x * self.weight
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return [cols]
)";
  task.variants = {{{"rows", 3}, {"cols", 7}}, {{"rows", 1}, {"cols", 1}}, {{"rows", 33}, {"cols", 65}}};
  task.profiles = {ValueProfile::kAsGiven, ValueProfile::kSignedNormal};
  return task;
}

constexpr char kRight[] = R"(
  const long long rows = call->sizes[0], cols = call->sizes[1];
  for (long long r = 0; r < rows; ++r)
    for (long long c = 0; c < cols; ++c) floats(2)[r * cols + c] = floats(0)[r * cols + c] * floats(1)[c];
  return 0;)";

Protocol QuickEager() {
  Protocol protocol = *ProtocolById("quick");
  protocol.baselines = {Baseline::kEager};
  protocol.run_timeout_ms = 1'500;
  return protocol;
}

/// One lane for all cases: importing torch takes seconds. A case that kills parts of it shows that it recovers.
class Bench {
 public:
  static Bench& Get() {
    static Bench bench;
    return bench;
  }

  Lane& lane() { return *lane_; }
  Artefacts& artefacts() { return artefacts_; }

  Verdict Judge(const std::string& body, const std::string& globals = "") {
    return Judge(RowScale(), artefacts_.Compile(body, globals), QuickEager());
  }
  Verdict Judge(const Task& task, const BuildResult& build, const Protocol& protocol) {
    LaneJob job;
    job.task = task;
    absl::StatusOr<Signature> signature = lane_->Describe(task);
    INFO(signature.status());
    REQUIRE(signature.ok());
    job.signature = *signature;
    job.build = build;
    INFO(build.message);
    REQUIRE(build.status == VerdictStatus::kOk);
    job.protocol = protocol;
    absl::StatusOr<Verdict> verdict = lane_->Judge(job);
    INFO(verdict.status());
    REQUIRE(verdict.ok());
    return *verdict;
  }

 private:
  Bench() {
    LaneOptions options;
    const char* python = std::getenv("HONE_PYTHON");
    options.python = python != nullptr ? python : "python3";
    auto lane = Lane::Create(options);
    INFO(lane.status());
    REQUIRE(lane.ok());
    lane_ = *std::move(lane);
  }

  std::unique_ptr<Lane> lane_;
  Artefacts artefacts_;
};

TEST_CASE("A right candidate is OK with a speedup against eager and its interval", "[verifier][lane]") {
  const Verdict verdict = Bench::Get().Judge(kRight);
  INFO(verdict.message);
  REQUIRE(verdict.status == VerdictStatus::kOk);
  CHECK(verdict.correct_rate == 1.0);
  REQUIRE(verdict.timings.size() == 1);
  const Timing& timing = verdict.timings[0];
  CHECK(timing.emulated);
  CHECK(timing.candidate_ns > 0);
  CHECK(timing.baseline_ns > 0);
  CHECK(timing.speedup.low <= timing.speedup.median);
  CHECK(timing.speedup.median <= timing.speedup.high);
  CHECK(timing.speedup.samples >= 5);
}

}  // namespace
}  // namespace hone::verifier

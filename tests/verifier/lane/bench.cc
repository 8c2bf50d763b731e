#include "lane/bench.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

namespace hone::verifier::test {

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

const char kRowScale[] = R"(
__global__ void scale(const float* x, const float* weight, float* out, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * cols) out[i] = x[i] * weight[i % cols];
}
extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows, cols);
}
)";

Protocol QuickEager() {
  Protocol protocol = ProtocolById("quick").value();
  protocol.baselines = {Baseline::kEager};
  protocol.run_timeout_ms = 1'500;
  return protocol;
}

Bench& Bench::Get() {
  static Bench bench;
  return bench;
}

Bench::Bench() {
  LaneOptions options;
  const char* python = std::getenv("HONE_PYTHON");
  options.python = python != nullptr ? python : "python3";
  auto lane = Lane::Create(options);
  INFO(lane.status());
  REQUIRE(lane.ok());
  lane_ = *std::move(lane);
}

Signature Bench::Describe(const Task& task) {
  absl::StatusOr<Signature> signature = lane_->Describe(task);
  INFO(signature.status());
  REQUIRE(signature.ok());
  return *signature;
}

Verdict Bench::Judge(const Task& task, const BuildResult& build, const Protocol& protocol,
                     const BuildResult& scalar_build) {
  INFO(build.message << build.compiler_output);
  REQUIRE(build.status == VerdictStatus::kOk);
  LaneJob job;
  job.task = task;
  job.signature = Describe(task);
  job.build = build;
  job.scalar_build = scalar_build;
  job.protocol = protocol;
  const absl::StatusOr<Verdict> verdict = lane_->Judge(job);
  INFO(verdict.status());
  REQUIRE(verdict.ok());
  return *verdict;
}

Verdict Bench::JudgeSource(const Task& task, const std::string& source) {
  return Judge(task, artefacts_.Build(source, Describe(task)), QuickEager());
}

Verdict Bench::JudgeHostile(const std::string& body, const std::string& globals) {
  // Hostile code computes on the host, past the emulation: what is tested is what else stops it.
  Task task = RowScale();
  task.legality.disabled_rules = {"zero_launches", "decoy_kernel"};
  return Judge(task, artefacts_.Hostile(body, globals), QuickEager());
}

}  // namespace hone::verifier::test

#include "verifier/service/noop_lane.h"

#include "absl/time/clock.h"

namespace hone::verifier {
namespace {

class NoopLane final : public Lane {
 public:
  absl::StatusOr<Verdict> Judge(const LaneJob& job) override {
    const auto wait = job.task.timing.find("wait_ms");
    if (wait != job.task.timing.end()) absl::SleepFor(absl::Milliseconds(wait->second));
    Verdict verdict;
    verdict.status = VerdictStatus::kOk;
    verdict.message = "not judged: the no-op device says OK to everything";
    verdict.protocol = job.protocol.id;
    verdict.device = kNoopDevice;
    verdict.toolchain = "none";
    verdict.sandbox = "none";
    return verdict;
  }
  absl::StatusOr<Signature> Describe(const Task&) override { return Signature{}; }
  LaneFacts Facts() const override { return {kNoopDevice, "none"}; }
};

class NoopBuilder final : public Builder {
 public:
  absl::StatusOr<BuildResult> Build(const BuildRequest&) override {
    return absl::FailedPreconditionError("the no-op device builds nothing");
  }
  std::string Toolchain(Backend) const override { return "none"; }
};

}  // namespace

std::unique_ptr<Builder> MakeNoopBuilder() { return std::make_unique<NoopBuilder>(); }

std::unique_ptr<Lane> MakeNoopLane() { return std::make_unique<NoopLane>(); }

}  // namespace hone::verifier

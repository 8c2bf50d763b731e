#include "verifier/lane/opened_runner.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/timing/statistics.h"

namespace hone::verifier {
namespace {

constexpr int kCalibrations = 9;
constexpr int kWallCalibrations = 33;  // where wall time counts messages differ more, and what this is wrong by stays in all rounds
constexpr int kWarm = 2;
constexpr absl::Duration kQuietTime = absl::Seconds(30);  // for a runner to obey before it holds an artefact

}  // namespace

absl::Status MapStage(Runner& runner, Stage& stage, int outputs) {
  HONE_ASSIGN_OR_RETURN(const UniqueFd table, stage.table().Export(Access::kRead));
  HONE_ASSIGN_OR_RETURN(const UniqueFd inputs, stage.inputs().Export(Access::kRead));
  HONE_ASSIGN_OR_RETURN(const UniqueFd written, stage.outputs(outputs).Export(Access::kReadWrite));
  HONE_ASSIGN_OR_RETURN(const RunnerReport mapped, runner.Map(table.get(), stage.table().bytes(), inputs.get(),
                                                              written.get(), SteadyTime::Now() + kQuietTime));
  if (!mapped.ok()) return absl::UnavailableError(absl::StrCat("a runner cannot map its buffers: ", mapped.text));
  return absl::OkStatus();
}

namespace {

/// `surrounded`: with cold caches, and on a shared device with a kernel of the judge's own after it.
absl::StatusOr<TimedMessage> Send(const Device& device, Runner& runner, int calls, bool surrounded, Budget& budget, uint32_t behind_mb) {
  const DeviceTable& table = device.table();
  const bool shared = table.clock_is_wall;
  TimedMessage message;
  const int64_t begin = shared ? table.clock_ns(device.get(), runner.pid()) : 0;
  if (surrounded && table.evict != nullptr) HONE_RETURN_IF_ERROR(device.Check(table.evict(device.get()), "clearing the cache"));
  if (shared) {  // what it says is seen in the message that follows
    HONE_RETURN_IF_ERROR(budget.Charge([&](SteadyTime deadline) { return runner.Wake(deadline); }).status());
  }
  message.before_ns = table.clock_ns(device.get(), runner.pid());
  HONE_ASSIGN_OR_RETURN(message.report, budget.Charge([&](SteadyTime deadline) {
    return runner.Run(static_cast<uint32_t>(calls), deadline, behind_mb);
  }));
  message.after_ns = table.clock_ns(device.get(), runner.pid());
  message.costs.message_ns = static_cast<double>(message.after_ns - message.before_ns);
  if (!surrounded || !shared || table.measure_clock == nullptr) return message;
  double mhz = 0;
  HONE_RETURN_IF_ERROR(device.Check(table.measure_clock(device.get(), &mhz), "a kernel after an answer"));
  const int64_t end = table.clock_ns(device.get(), runner.pid());
  message.costs.around_ns = static_cast<double>(message.before_ns - begin + end - message.after_ns);
  return message;
}

}  // namespace

absl::StatusOr<TimedMessage> SendTimed(const Device& device, Runner& runner, int calls, Budget& budget, uint32_t behind_mb) {
  return Send(device, runner, calls, /*surrounded=*/true, budget, behind_mb);
}

absl::StatusOr<MessageCosts> MeasureCosts(const Device& device, Runner& runner) {
  Budget quiet(kQuietTime);
  std::vector<double> messages, around;
  const bool shared = device.table().clock_is_wall;
  const int calibrations = shared ? kWallCalibrations : kCalibrations;
  for (int i = 0; i < calibrations + kWarm; ++i) {
    const bool surrounded = shared && i < kCalibrations + kWarm;  // which takes ten times as long
    HONE_ASSIGN_OR_RETURN(const TimedMessage empty, Send(device, runner, 0, surrounded, quiet, 0));
    if (!empty.report.ok() || empty.before_ns < 0 || empty.after_ns < 0) return absl::UnavailableError("a runner does not answer");
    if (i < kWarm) continue;
    messages.push_back(empty.costs.message_ns);
    if (surrounded) around.push_back(empty.costs.around_ns);
  }
  return MessageCosts{Median(std::move(messages)), shared ? Median(std::move(around)) : 0};
}

}  // namespace hone::verifier

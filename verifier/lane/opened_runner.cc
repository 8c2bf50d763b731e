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

absl::Status Wake(const Device& device, Runner& runner, SteadyTime deadline) {
  if (!device.table().clock_is_wall) return absl::OkStatus();
  return runner.Run(0, deadline).status();  // what it says is seen in the message that follows
}

absl::StatusOr<double> MeasureOverhead(const Device& device, Runner& runner) {
  const DeviceTable& table = device.table();
  const SteadyTime soon = SteadyTime::Now() + kQuietTime;
  std::vector<double> costs;
  const int calibrations = table.clock_is_wall ? kWallCalibrations : kCalibrations;
  for (int i = 0; i < calibrations + kWarm; ++i) {
    HONE_RETURN_IF_ERROR(Wake(device, runner, soon));
    const int64_t before = table.clock_ns(device.get(), runner.pid());
    HONE_ASSIGN_OR_RETURN(const RunnerReport empty, runner.Run(0, soon));
    const int64_t after = table.clock_ns(device.get(), runner.pid());
    if (!empty.ok() || before < 0 || after < 0) return absl::UnavailableError("a runner does not answer");
    if (i >= kWarm) costs.push_back(static_cast<double>(after - before));
  }
  return Median(std::move(costs));
}

}  // namespace hone::verifier

#include "verifier/service/screen.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "verifier/musify/musify.h"

namespace hone::verifier {
namespace {

constexpr int64_t kSmallBytes = int64_t{16} << 20;  // of a call's tensors, for a task that names no shapes

Protocol ScreenProtocol(absl::Duration run_timeout) {
  Protocol protocol;
  protocol.id = "screen";
  protocol.baselines.clear();
  protocol.run_timeout_ms = absl::ToInt64Milliseconds(run_timeout);
  return protocol;
}

}  // namespace

std::optional<Task> ScreenedTask(const Task& task, const Signature& signature) {
  Task screened = task;
  screened.timing_gpu.clear();
  if (!screened.variants.empty()) {
    screened.timing = screened.variants.back();
    screened.variants.pop_back();
    return screened;
  }
  int64_t bytes = 0;
  for (const TensorArgument& tensor : signature.tensors) bytes += tensor.spec.Bytes();
  if (bytes > kSmallBytes) return std::nullopt;
  screened.timing.clear();
  return screened;
}

Screen::Screen(ScreenOptions options, Builder* builder) : options_(std::move(options)), builder_(builder) {
  for (int i = 0; i < options_.lanes; ++i) slots_.push_back(std::make_unique<Slot>());
}

Screen::~Screen() = default;

bool Screen::Takes(const Candidate& candidate) const {
  return candidate.format == Format::kNative &&
         std::find(options_.backends.begin(), options_.backends.end(), candidate.backend) != options_.backends.end();
}

std::optional<Verdict> Screen::Look(const VerifyRequest& request, const Signature& signature) {
  std::optional<Task> task = ScreenedTask(request.task, signature);
  if (!task) return std::nullopt;
  LaneJob job;
  job.task = *std::move(task);
  job.signature = signature;
  job.protocol = ScreenProtocol(options_.run_timeout);
  job.trace_id = request.trace_id;
  BuildRequest build;
  build.candidate = request.candidate;
  build.candidate.backend = Backend::kCpu;
  if (request.candidate.backend == Backend::kMusa) {
    build.candidate.source = Musify(request.candidate.source, Language::kCxx, Direction::kToCuda).text;
  }
  build.signature = signature;
  build.legality = request.task.legality;
  build.timeout = absl::Milliseconds(request.protocol.build_timeout_ms);
  absl::StatusOr<BuildResult> built = builder_->Build(build);
  if (!built.ok() || built->status != VerdictStatus::kOk) return std::nullopt;
  job.build = *std::move(built);

  // Candidates of one task go to one lane, which has the task's sets already.
  const size_t home = std::hash<std::string>()(request.task.id) % slots_.size();
  absl::StatusOr<Verdict> verdict = absl::UnavailableError("");
  for (size_t i = 0; i <= slots_.size(); ++i) {
    const size_t index = (home + i) % slots_.size();
    Slot& slot = *slots_[index];
    if (i == slots_.size()) {  // all are busy
      slot.busy.Lock();
    } else if (!slot.busy.TryLock()) {
      continue;
    }
    verdict = Judge(static_cast<int>(index), job);
    slot.busy.Unlock();
    break;
  }
  const bool rejects = verdict.ok() && (verdict->status == VerdictStatus::kIncorrect ||
                                        verdict->status == VerdictStatus::kRuntime);
  if (!rejects) return std::nullopt;
  verdict->screened_on_cpu = true;
  return *std::move(verdict);
}

absl::StatusOr<Verdict> Screen::Judge(int index, const LaneJob& job) {
  Slot& slot = *slots_[static_cast<size_t>(index)];
  std::shared_ptr<Lane> lane;
  {
    absl::MutexLock lock(&slot.mutex);
    lane = slot.lane;
  }
  if (lane == nullptr) {
    absl::StatusOr<std::unique_ptr<Lane>> started = options_.start_lane(index);
    if (!started.ok()) return started.status();
    lane = *std::move(started);
    absl::MutexLock lock(&slot.mutex);
    slot.lane = lane;
  }
  absl::StatusOr<Verdict> verdict = lane->Judge(job);
  if (!verdict.ok() && !absl::IsInvalidArgument(verdict.status())) {
    absl::MutexLock lock(&slot.mutex);
    slot.lane.reset();  // a new one at the next look
  }
  return verdict;
}

void Screen::Interrupt() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    absl::MutexLock lock(&slot->mutex);
    if (slot->lane != nullptr) slot->lane->Interrupt();
  }
}

}  // namespace hone::verifier

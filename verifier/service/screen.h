#pragma once

// Wrong candidates should not reach a GPU: a fresh process costs its lane a sixth of a second. Native candidates for a GPU
// are first built for the CPU backend, MUSA's under CUDA's names, and checked on its lanes, at the task's small shapes and
// with nothing timed. What emulation cannot build or finish is no verdict: the device decides.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/signature.h"
#include "base/verdict.h"
#include "base/verify_request.h"
#include "verifier/build/builder.h"
#include "verifier/lane/lane.h"

namespace hone::verifier {

struct ScreenOptions {
  std::function<absl::StatusOr<std::unique_ptr<Lane>>(int index)> start_lane;  // of the CPU device
  int lanes = 1;                                                              // candidates screened at a time
  absl::Duration run_timeout = absl::Seconds(5);
  std::vector<Backend> backends = {Backend::kCuda};  // whose candidates are screened
};

/// Thread-safe.
class Screen {
 public:
  /// Lanes start when they are first needed. `builder` outlives the screen.
  Screen(ScreenOptions options, Builder* builder);
  ~Screen();

  /// Whether it looks at candidates of this kind at all.
  bool Takes(const Candidate& candidate) const;

  /// INCORRECT or RUNTIME with `screened_on_cpu` set; nothing where the device has to decide, also when the screen itself
  /// fails.
  std::optional<Verdict> Look(const VerifyRequest& request, const Signature& signature);

  /// From another thread: Look returns soon.
  void Interrupt();

 private:
  struct Slot {
    absl::Mutex busy;
    absl::Mutex mutex;
    std::shared_ptr<Lane> lane ABSL_GUARDED_BY(mutex);  // shared with the thread that interrupts it
  };
  absl::StatusOr<Verdict> Judge(int index, const LaneJob& job);

  const ScreenOptions options_;
  Builder* const builder_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

/// The task as it is screened: its hidden shapes and profiles, without the shape that is timed; nothing where no shape is
/// small.
std::optional<Task> ScreenedTask(const Task& task, const Signature& signature);

}  // namespace hone::verifier

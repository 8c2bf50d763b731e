#pragma once

// Continuous batching: which sequences are read, decoded, put off and ended, over any Runner. No torch.
//
// Each Step reads one batch of prompt tokens at most and decodes one token of every running sample. A prompt is read once
// for all samples of its request; its full cache pages are shared, the last partial one is copied. What a later
// prompt begins with is taken from the pages of earlier sequences of the same policy version. Pages are handed out as
// samples grow. When none is left, the sample started last gives up its pages and is read again later, prompt and
// answer so far, so that nothing is lost and, draws being decided by (seed, sample, token), nothing changes.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/page_pool.h"
#include "rollout/engine/prefix_cache.h"
#include "rollout/engine/runner.h"

namespace hone::rollout {

/// What a request's owner hears of it, on the thread that calls Step. on_token may be null. Neither may call Submit or
/// Abort.
struct RequestEvents {
  /// After every new token; returning true ends the sample as kStop.
  std::function<bool(size_t sample, const Sample& so_far)> on_token;
  /// Once for each sample as it ends.
  std::function<void(size_t sample, const Sample& result)> on_sample;
};

struct SchedulerStats {
  int64_t running = 0;
  int64_t waiting = 0;      // samples that are not decoded now
  int64_t free_pages = 0;   // those that are only kept for later prompts included
  int64_t preempted = 0;    // since the start
  int64_t prompt_tokens = 0;  // read, rereading included
  int64_t reused_tokens = 0;  // of prompts, found in pages of earlier sequences
  int64_t tokens = 0;       // generated
};

/// Not thread-safe.
class Scheduler {
 public:
  using RequestId = int64_t;

  /// The runner is borrowed.
  explicit Scheduler(Runner& runner);
  ~Scheduler();

  /// kInvalidArgument: sampling options, samples < 1, an empty prompt. kResourceExhausted: one sample alone does not fit
  /// the cache. The caller checks ids and lengths against the model.
  absl::StatusOr<RequestId> Submit(GenerationRequest request, RequestEvents events);
  /// Its unfinished samples end as kAborted with what they have. No effect on one that has ended.
  absl::Status Abort(RequestId id);
  absl::Status AbortAll();

  /// Drops everything without telling anyone: after an error of Step, which leaves the scheduler good for nothing else.
  void Forget();

  bool idle() const { return requests_.empty(); }
  /// One round of reading and decoding. kInternal: the device's message, or logits that are not finite (names the request
  /// and the layer).
  absl::Status Step();

  /// True: prompts are read for as long as there is room before the next step is decoded: most tokens a second. False, the
  /// default: one batch of prompts between two steps, so that nobody who is being answered waits long.
  void set_read_first(bool read_first) { read_first_ = read_first; }

  /// Forgets pages of earlier sequences: the weights have changed.
  void DropPrefixes() { prefixes_.Clear(); }
  /// Pages of another version are not given to prompts that are read from now on.
  void set_version(int64_t version);
  int64_t version() const { return version_; }
  SchedulerStats stats() const;

 private:
  struct Request;
  struct Reading;
  struct Ready;
  struct Running;
  struct Launched;

  absl::StatusOr<bool> Read();
  void QueueReading(const std::shared_ptr<Request>& request, std::vector<size_t> samples, bool first);
  bool AdmitReading(Reading& reading, int64_t reserved_pages);
  absl::Status FinishReading(const std::shared_ptr<Reading>& reading, const TokenDraw* draws);
  absl::Status Start();
  absl::StatusOr<bool> Launch();
  absl::Status Collect();
  absl::Status Drain();
  absl::StatusOr<bool> MakeRoom(const Running* keep);
  absl::Status Grow(Running& sample);
  void Preempt(size_t index);
  void DropReady(size_t keep);
  void ReleaseTable(std::vector<int32_t>& table);
  void Keep(const Running& sample);
  absl::Status Accept(Request& request, size_t sample, const TokenDraw& draw, int64_t version);
  bool Ended(Request& request, size_t sample);
  void Finish(Request& request, size_t sample);
  absl::Status NotFinite(const Request& request, size_t sample);

  Runner& runner_;
  PagePool pool_;
  PrefixCache prefixes_{pool_};
  int64_t version_ = 0;
  bool read_first_ = false;
  RequestId next_id_ = 0;
  std::vector<std::shared_ptr<Request>> requests_;    // not ended, in order of submission
  std::deque<std::shared_ptr<Reading>> readings_;     // to be read, the first may be half read
  std::deque<Ready> ready_;                           // read, waiting for a place
  std::vector<std::shared_ptr<Running>> running_;     // in order of their start
  std::deque<Launched> launched_;
  SchedulerStats stats_;
};

}  // namespace hone::rollout

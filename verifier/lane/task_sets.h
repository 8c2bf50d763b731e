#pragma once

// What a task is checked and timed on: input sets with their expected outputs, made once and used for several candidates,
// each of which sees every set at most once. Made anew after a number of uses.

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "base/candidate.h"
#include "base/protocol.h"
#include "base/task.h"
#include "verifier/lane/buffers.h"
#include "verifier/lane/reference_worker.h"

namespace hone::verifier {

/// One shape and value profile with its checked sets.
struct CheckCase {
  Sizes sizes;
  ValueProfile profile = ValueProfile::kAsGiven;
  std::vector<int64_t> size_values;  // of the signature
  std::string label;                 // "rows=3 cols=7"
  std::unique_ptr<Pool> pool;
};

/// Where the slots of a timed round lie for a runner: addresses are the same for all rounds, contents never.
struct TimedLayout {
  std::vector<uint64_t> addresses;       // [slots][tensors]
  std::vector<uint64_t> offsets;         // [slots][tensors], in the stage's inputs or outputs
  std::vector<uint64_t> output_ends;     // [slots]; outputs and gaps of slots [0, i] lie before output_ends[i]
  std::vector<std::pair<uint64_t, uint64_t>> gaps;  // {offset, bytes} between outputs, in ascending order
  uint64_t input_address = 0, input_bytes = 0;
  uint64_t output_address = 0, output_bytes = 0;
};

struct TaskSets {
  std::vector<CheckCase> cases;          // hidden shapes, profiles, and the timed shape last
  std::vector<double> own_errors;        // [outputs] of the reference against itself in float64, relative; empty: unknown
  Sizes timed_sizes;
  std::vector<int64_t> timed_size_values;
  CallPlan timed_plan;
  int slots = 0;                         // sets that one timed round can have
  int least_slots = 0;                   // and must have, for the cache to hold none
  int cold_slots = 0;                    // whose sets are twice the device's cache: whoever goes over them finds them cold
  bool share_parameters = false;         // weights too large for a copy in every slot, or those of one module
  int64_t shared_seed = -1;              // of the weights in all rounds; -1: each round its own
  std::vector<std::unique_ptr<Pool>> rounds;  // filled when a candidate first needs them
  TimedLayout layout;
  int uses = 0;
  int64_t generation = 0;                // of the reference worker that holds the pools

  int64_t bytes() const;
  int64_t RoundBytes() const;
};

/// How much memory sets may take, and what calls cost before any candidate ran: for choosing the sets of a round.
struct SetLimits {
  int64_t all_bytes = int64_t{256} << 20;        // of all tasks
  int64_t kept_bytes = int64_t{96} << 20;        // of all rounds of a task
  int64_t round_bytes = int64_t{64} << 20;       // of a round, unless two sets are already more
  int64_t module_round_bytes = int64_t{64} << 20;  // of a Python candidate's, which need more of them
  int64_t copied_parameters = int64_t{1} << 20;  // weights that each slot has a copy of
  int slots = 512;
  double message_ns = 2'000;                     // what a message costs a runner
  double fastest_bytes_per_ns = 32;              // of any call
  double fastest_call_ns = 500;
};
/// For the host's memory, or for that of a GPU in proportion to what it has: two fifths, times `share` in (0, 1].
SetLimits LimitsFor(const DeviceProperties& device, double share = 1);

/// Least recently used tasks leave when the sets outgrow the limit.
class TaskSetsCache {
 public:
  TaskSetsCache(const Device* device, ReferenceWorker* worker, SecretSeeds* seeds, const SetLimits& limits)
      : device_(device), worker_(worker), seeds_(seeds), limits_(limits) {}

  /// The task's sets, ready for checking. Valid until the next call. Native kernels get their weights with each call, and
  /// they differ from call to call; a Python module holds its weights, so that they are the same in all calls on a case.
  absl::StatusOr<TaskSets*> Get(const Task& task, const Signature& signature, const Protocol& protocol, Format format);
  /// At least `count` sets for timed round `round`, contents that this candidate has not seen. Where the
  /// memory for a task is spent, an earlier round's are filled anew; where that for all is, other tasks make way.
  absl::StatusOr<Pool*> Round(const Task& task, TaskSets& sets, int round, int count);

 private:
  struct Entry {
    std::string key;
    TaskSets sets;
  };
  absl::StatusOr<TaskSets> Make(const Task& task, const Signature& signature, const Protocol& protocol, Format format);
  absl::Status PlanRounds(TaskSets& sets, const Signature& signature, const Protocol& protocol, bool module);
  TimedLayout LayOut(const TaskSets& sets, const Signature& signature);
  int Capacity(int count, int slots) const;
  void Drop(std::list<Entry>::iterator entry);
  /// Drops tasks other than the one used last until all take so many bytes less than they may.
  void MakeRoom(int64_t bytes);

  const Device* device_;
  ReferenceWorker* worker_;
  SecretSeeds* seeds_;
  SetLimits limits_;
  int64_t next_pool_ = 1;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace hone::verifier

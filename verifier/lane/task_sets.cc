#include "verifier/lane/task_sets.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/hash.h"
#include "base/status_macros.h"

namespace hone::verifier {
namespace {

constexpr int kUsesBeforeRenewal = 64;
constexpr double kModuleMessageNs = 30'000;  // what a message costs a Python module's runner

constexpr uint64_t kPage = 4096;

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::string ShapeLabel(const Signature& signature, const std::vector<int64_t>& values) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < values.size(); ++i) parts.push_back(absl::StrCat(signature.sizes[i].name, "=", values[i]));
  return absl::StrJoin(parts, " ");
}

std::string SizesText(const std::vector<Sizes>& variants) {
  std::string text;
  for (const Sizes& sizes : variants) absl::StrAppend(&text, FormatSizes(sizes), ";");
  return text;
}

std::string KeyOf(const Task& task, const Signature& signature, const Protocol& protocol, bool module) {
  std::string profiles;
  for (const ValueProfile profile : task.profiles) absl::StrAppend(&profiles, Name(profile), ";");
  return ContentKey({task.reference, signature.Declaration(), Name(task.dtype), SizesText(task.variants),
                     FormatSizes(task.timing), FormatSizes(task.timing_gpu), profiles, module ? "module" : "",
                     absl::StrCat(protocol.check_sets_per_shape, " ", protocol.check_variants, " ",
                                  protocol.check_profiles, " ", protocol.rotate_bytes, " ", protocol.max_overhead, " ",
                                  protocol.min_rounds, " ", protocol.max_rounds)});
}

int64_t BytesOfRole(const CallPlan& plan, const Signature& signature, TensorArgument::Role role) {
  int64_t bytes = 0;
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (signature.tensors[t].role == role) bytes += plan.tensors[t].Bytes();
  }
  return bytes;
}

}  // namespace

SetLimits LimitsFor(const DeviceProperties& device, double share) {
  SetLimits limits;
  if (device.memory_bytes == 0) return limits;
  const auto memory_bytes = static_cast<int64_t>(share * static_cast<double>(device.memory_bytes));
  limits.all_bytes = memory_bytes * 2 / 5;
  limits.kept_bytes = memory_bytes / 3;  // ten rounds, or fifteen of modules: what most candidates need
  limits.round_bytes = device.memory_bytes / 32;
  limits.module_round_bytes = device.memory_bytes / 48;
  limits.copied_parameters = int64_t{64} << 20;
  limits.message_ns = 15'000;
  limits.fastest_bytes_per_ns = 4'000;  // the widest memory there is today
  limits.fastest_call_ns = 3'000;       // back-to-back launches
  return limits;
}

int64_t TaskSets::bytes() const {
  int64_t total = 0;
  for (const CheckCase& check : cases) total += check.pool->held_bytes();
  return total + RoundBytes();
}

int64_t TaskSets::RoundBytes() const {
  int64_t total = 0;
  for (const auto& round : rounds) total += round->held_bytes();
  return total;
}

absl::StatusOr<TaskSets*> TaskSetsCache::Get(const Task& task, const Signature& signature, const Protocol& protocol,
                                             Format format) {
  const std::string key = KeyOf(task, signature, protocol, format != Format::kNative);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    TaskSets& sets = found->second->sets;
    if (sets.generation == worker_->generation() && ++sets.uses <= kUsesBeforeRenewal) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return &sets;
    }
    Drop(found->second);
  }
  HONE_ASSIGN_OR_RETURN(TaskSets sets, Make(task, signature, protocol, format));
  entries_.push_front({key, std::move(sets)});
  by_key_[key] = entries_.begin();
  MakeRoom(0);
  return &entries_.front().sets;
}

absl::StatusOr<TaskSets> TaskSetsCache::Make(const Task& task, const Signature& signature, const Protocol& protocol,
                                             Format format) {
  const bool module = format != Format::kNative;
  TaskSets sets;
  sets.uses = 1;
  sets.share_parameters = module;
  if (module) sets.shared_seed = seeds_->NextSeed();
  sets.timed_sizes = device_->properties().emulated || task.timing_gpu.empty() ? task.timing : task.timing_gpu;
  const auto add = [&](const Sizes& sizes, ValueProfile profile) -> absl::Status {
    CheckCase check;
    check.sizes = sizes;
    check.profile = profile;
    HONE_ASSIGN_OR_RETURN(CallPlan plan, worker_->Plan(task, signature, sizes));
    if (sets.cases.empty()) sets.generation = worker_->generation();
    HONE_ASSIGN_OR_RETURN(check.size_values, SizeValues(task, signature, plan));
    check.label = ShapeLabel(signature, check.size_values);
    if (profile != ValueProfile::kAsGiven) {
      absl::StrAppend(&check.label, check.label.empty() ? "" : " ", "(", Name(profile), " values)");
    }
    PoolSpec spec;
    spec.sizes = sizes;
    spec.profile = profile;
    spec.share_parameters = module;
    spec.capacity = protocol.check_sets_per_shape;
    check.pool = std::make_unique<Pool>(device_, next_pool_++, std::move(plan), std::move(spec));
    HONE_RETURN_IF_ERROR(check.pool->Extend(*worker_, *seeds_, task, protocol.check_sets_per_shape));
    sets.cases.push_back(std::move(check));
    return absl::OkStatus();
  };
  if (protocol.check_variants) {
    for (const Sizes& sizes : task.variants) HONE_RETURN_IF_ERROR(add(sizes, ValueProfile::kAsGiven));
  }
  if (protocol.check_profiles) {
    const Sizes& shape = task.variants.empty() ? sets.timed_sizes : task.variants.back();
    for (const ValueProfile profile : task.profiles) {
      if (profile != ValueProfile::kAsGiven) HONE_RETURN_IF_ERROR(add(shape, profile));
    }
  }
  HONE_RETURN_IF_ERROR(add(sets.timed_sizes, ValueProfile::kAsGiven));
  HONE_ASSIGN_OR_RETURN(sets.own_errors, worker_->OwnErrors(task, sets.timed_sizes, seeds_->NextSeed()));
  sets.timed_plan = sets.cases.back().pool->plan();
  sets.timed_size_values = sets.cases.back().size_values;
  HONE_RETURN_IF_ERROR(PlanRounds(sets, signature, protocol, module));
  if (sets.generation != worker_->generation()) return absl::UnavailableError("the reference worker was restarted");
  return sets;
}

absl::Status TaskSetsCache::PlanRounds(TaskSets& sets, const Signature& signature, const Protocol& protocol, bool module) {
  using Role = TensorArgument::Role;
  const int64_t parameters = BytesOfRole(sets.timed_plan, signature, Role::kParameter);
  sets.share_parameters = sets.share_parameters || parameters > limits_.copied_parameters;
  const int64_t set_bytes = std::max<int64_t>(
      1, BytesOfRole(sets.timed_plan, signature, Role::kInput) +
             BytesOfRole(sets.timed_plan, signature, Role::kOutput) + (sets.share_parameters ? 0 : parameters));
  const int64_t cache = device_->table().evict != nullptr ? 0 : 2 * device_->properties().cache_bytes;
  const int64_t rotate = protocol.rotate_bytes > 0 ? protocol.rotate_bytes : cache;
  const double call_ns = std::max(limits_.fastest_call_ns, static_cast<double>(set_bytes) / limits_.fastest_bytes_per_ns);
  const auto for_cache = static_cast<int64_t>(rotate / set_bytes + 1);
  const double message_ns = module ? std::max(kModuleMessageNs, limits_.message_ns) : limits_.message_ns;
  const auto for_overhead =
      static_cast<int64_t>(std::ceil(message_ns / std::max(protocol.max_overhead, 1e-4) / call_ns));
  const int64_t affordable =
      std::max<int64_t>(for_cache, (module ? limits_.module_round_bytes : limits_.round_bytes) / set_bytes);
  sets.slots = static_cast<int>(std::clamp<int64_t>(std::max(for_cache, for_overhead), 1,
                                                    std::min<int64_t>(limits_.slots, affordable)));
  sets.least_slots = static_cast<int>(std::min<int64_t>(for_cache, sets.slots));
  sets.cold_slots = static_cast<int>(std::min<int64_t>(2 * device_->properties().cache_bytes / set_bytes + 1, sets.slots));
  sets.layout = LayOut(sets, signature);
  return absl::OkStatus();
}

/// Slots one after the other with gaps of 64 to 1024 bytes, so that neither the page offset nor the distance between
/// tensors is the same twice, and so that outputs lie between bytes that must not change.
TimedLayout TaskSetsCache::LayOut(const TaskSets& sets, const Signature& signature) {
  const size_t tensors = sets.timed_plan.tensors.size();
  TimedLayout layout;
  layout.offsets.resize(static_cast<size_t>(sets.slots) * tensors);
  layout.addresses.resize(layout.offsets.size());
  uint64_t input_end = 0;
  uint64_t output_end = 64;
  layout.gaps.push_back({0, 64});
  for (size_t slot = 0; slot < static_cast<size_t>(sets.slots); ++slot) {
    for (size_t t = 0; t < tensors; ++t) {
      uint64_t& offset = layout.offsets[slot * tensors + t];
      const auto bytes = static_cast<uint64_t>(sets.timed_plan.tensors[t].Bytes());
      const uint64_t gap = 64 * (1 + seeds_->Below(16));
      if (signature.tensors[t].role == TensorArgument::Role::kOutput) {
        offset = output_end;
        const uint64_t end = RoundUp(offset + bytes, 64) + gap;
        layout.gaps.push_back({offset + bytes, end - offset - bytes});
        output_end = end;
      } else if (slot > 0 && sets.share_parameters && signature.tensors[t].role == TensorArgument::Role::kParameter) {
        offset = layout.offsets[t];
      } else {
        offset = input_end + gap;
        input_end = RoundUp(offset + bytes, 64);
      }
    }
    layout.output_ends.push_back(output_end);
  }
  layout.input_bytes = RoundUp(std::max<uint64_t>(input_end, 1), kPage);
  layout.output_bytes = RoundUp(output_end, kPage);
  constexpr uint64_t kFirst = 0x100000000000, kRange = 0x100000000000, kUnit = 1 << 21;
  layout.input_address = kFirst + seeds_->Below(kRange / kUnit) * kUnit;
  layout.output_address = kFirst + kRange + seeds_->Below(kRange / kUnit) * kUnit;
  for (size_t i = 0; i < layout.offsets.size(); ++i) {
    const bool output = signature.tensors[i % tensors].role == TensorArgument::Role::kOutput;
    layout.addresses[i] = (output ? layout.output_address : layout.input_address) + layout.offsets[i];
  }
  return layout;
}

absl::StatusOr<Pool*> TaskSetsCache::Round(const Task& task, TaskSets& sets, int round, int count) {
  const auto wanted = static_cast<size_t>(round);
  bool seen = false;
  count = std::min(std::max(count, sets.least_slots), sets.slots);
  if (wanted >= sets.rounds.size() && (sets.rounds.empty() || sets.RoundBytes() < limits_.kept_bytes)) {
    PoolSpec spec;
    spec.sizes = sets.timed_sizes;
    spec.keep = true;
    spec.share_parameters = sets.share_parameters;
    spec.shared_seed = sets.shared_seed;
    spec.capacity = Capacity(count, sets.slots);
    MakeRoom(spec.capacity * PackSet(sets.timed_plan.tensors).bytes);
    sets.rounds.push_back(std::make_unique<Pool>(device_, next_pool_++, sets.timed_plan, std::move(spec)));
  } else if (wanted >= sets.rounds.size()) {
    seen = true;  // no room for more: what this candidate saw in an earlier round makes way
  }
  std::unique_ptr<Pool>& slot = sets.rounds[wanted % sets.rounds.size()];
  if (slot->capacity() < count) {  // an earlier candidate was slower, and needed fewer
    PoolSpec spec = slot->spec();
    spec.capacity = Capacity(count, sets.slots);
    MakeRoom(spec.capacity * PackSet(sets.timed_plan.tensors).bytes);
    worker_->Release(slot->id());
    slot = std::make_unique<Pool>(device_, next_pool_++, sets.timed_plan, std::move(spec));
  }
  if (seen) slot->Clear();
  HONE_RETURN_IF_ERROR(slot->Extend(*worker_, *seeds_, task, count));
  return slot.get();
}

/// Sets that a round's pool has room for. The host's memory is taken as it is written; a device's at once, so that a slow
/// candidate's few sets must not take what a fast one's would.
int TaskSetsCache::Capacity(int count, int slots) const {
  if (device_->properties().memory_bytes == 0) return slots;
  int capacity = 1;
  while (capacity < count) capacity *= 2;
  return std::min(capacity, slots);
}

void TaskSetsCache::Drop(std::list<Entry>::iterator entry) {
  if (entry->sets.generation == worker_->generation()) {
    for (const auto& round : entry->sets.rounds) worker_->Release(round->id());
  }
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

void TaskSetsCache::MakeRoom(int64_t bytes) {
  int64_t total = bytes;
  for (const Entry& entry : entries_) total += entry.sets.bytes();
  while (entries_.size() > 1 && total > limits_.all_bytes) {
    total -= entries_.back().sets.bytes();
    Drop(std::prev(entries_.end()));
  }
}

}  // namespace hone::verifier

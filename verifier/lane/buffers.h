#pragma once

// The judge's memory: pools hold input sets and what the reference makes of them, and no runner ever sees them; a stage is
// what runners see, filled from a pool just before the calls it is for.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/signature.h"
#include "base/tensor.h"
#include "verifier/device/device.h"
#include "verifier/lane/reference_worker.h"
#include "verifier/lane/seeds.h"
#include "verifier/runner/protocol.h"

namespace hone::verifier {

/// An opened device. Errors of its functions become a Status here.
class Device {
 public:
  /// `name` is "cpu:0" or "cuda:1". kInvalidArgument: not a device. kFailedPrecondition: this machine lacks it.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const std::string& name);
  ~Device();
  Device(const Device&) = delete;

  const DeviceTable& table() const { return table_; }
  void* get() const { return device_; }
  const DeviceProperties& properties() const { return properties_; }
  absl::Status Check(int code, const char* what) const;

 private:
  explicit Device(const DeviceTable& table) : table_(table) {}
  const DeviceTable& table_;
  void* device_ = nullptr;
  DeviceProperties properties_ = {};
};

/// A buffer of the device, released when dropped. Empty until allocated.
class Buffer {
 public:
  explicit Buffer(const Device* device);
  /// Of the host's memory, whatever the device.
  static Buffer OfHost() { return Buffer(CpuDeviceTable(), nullptr, 4096); }
  ~Buffer() { Release(); }
  Buffer(Buffer&& other) noexcept
      : table_(other.table_), device_(other.device_), unit_(other.unit_), buffer_(std::exchange(other.buffer_, {})) {}
  Buffer& operator=(Buffer&&) = delete;

  /// At least `bytes`; contents are lost when it must grow.
  absl::Status Reserve(uint64_t bytes);
  absl::StatusOr<UniqueFd> Export(Access access) const;
  unsigned char* data() const { return static_cast<unsigned char*>(buffer_.data); }
  uint64_t bytes() const { return buffer_.bytes; }
  uint64_t unit() const { return unit_; }

 private:
  Buffer(const DeviceTable& table, void* device, uint64_t unit) : table_(table), device_(device), unit_(unit) {}
  absl::Status Check(int code, const char* what) const;
  void Release();
  const DeviceTable& table_;
  void* device_;
  uint64_t unit_;  // sizes are multiples of it
  DeviceBuffer buffer_;
};

/// Where the tensors of one set lie, each at a multiple of 64 bytes.
struct SetLayout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};
SetLayout PackSet(const std::vector<TensorSpec>& tensors);

/// What the sets of a pool are drawn by.
struct PoolSpec {
  Sizes sizes;
  ValueProfile profile = ValueProfile::kAsGiven;
  bool keep = false;              // the reference can be timed on them
  bool share_parameters = false;  // one copy of the weights for all sets
  int64_t shared_seed = -1;       // of the weights, when they are shared; -1: drawn
  int capacity = 1;               // sets at most; memory is used as they are filled
};

/// Sets of one task at one choice of its constants, with their expected outputs.
class Pool {
  static constexpr uint64_t kHostUnit = 4096;

 public:
  Pool(const Device* device, int64_t id, CallPlan plan, PoolSpec spec)
      : id_(id), plan_(std::move(plan)), spec_(std::move(spec)), layout_(PackSet(plan_.tensors)), memory_(device) {}

  /// Fills sets with fresh seeds until there are `sets`, at most the capacity; those that are there stay.
  absl::Status Extend(ReferenceWorker& worker, SecretSeeds& seeds, const Task& task, int sets);
  /// Forgets all sets.
  void Clear() { sets_ = 0; }

  int64_t id() const { return id_; }
  const CallPlan& plan() const { return plan_; }
  int sets() const { return sets_; }
  int capacity() const { return spec_.capacity; }
  const PoolSpec& spec() const { return spec_; }
  /// Of the sets. Memory that a device gives out is taken at once (held_bytes); the host's only as it is written.
  int64_t bytes() const { return sets_ * layout_.bytes; }
  int64_t held_bytes() const { return memory_.unit() > kHostUnit ? static_cast<int64_t>(memory_.bytes()) : bytes(); }
  /// An input or parameter as given to the reference, or an output as the reference made it. In the device's memory.
  const unsigned char* Data(int set, size_t tensor) const {
    return memory_.data() + set * layout_.bytes + layout_.offsets[tensor];
  }

 private:
  int64_t id_;
  CallPlan plan_;
  PoolSpec spec_;
  SetLayout layout_;
  Buffer memory_;
  int sets_ = 0;
  int64_t shared_seed_ = 0;  // of the weights, when they are shared
};

/// Buffers that runners map: a table in the host's memory, and in the device's inputs and outputs of each.
class Stage {
 public:
  explicit Stage(const Device* device)
      : table_(Buffer::OfHost()), inputs_(device), outputs_{Buffer(device), Buffer(device)} {}

  /// Two runners may be mapped at once: the candidate (0) and the scalar baseline (1), each with outputs of its own.
  static constexpr int kRunners = 2;

  absl::Status Reserve(uint64_t table_bytes, uint64_t input_bytes, uint64_t output_bytes, int runners);

  /// Says that bytes up to `end` hold something of the present candidate's.
  void NoteInputs(uint64_t end) { used_inputs_ = std::max(used_inputs_, end); }
  void NoteOutputs(int runner, uint64_t end) { used_outputs_[runner] = std::max(used_outputs_[runner], end); }
  /// Forgets it, before the next candidate maps the buffers: sets serve several candidates, and what one has computed is
  /// what the next one is asked for.
  absl::Status Clear(const Device& device);

  Buffer& table() { return table_; }
  Buffer& inputs() { return inputs_; }
  Buffer& outputs(int runner) { return outputs_[runner]; }

 private:
  Buffer table_;
  Buffer inputs_;
  Buffer outputs_[kRunners];
  uint64_t used_inputs_ = 0;
  uint64_t used_outputs_[kRunners] = {};
};

/// Writes a table into the stage: what to map and what to call.
class TableWriter {
 public:
  TableWriter(unsigned char* memory, uint64_t bytes) : memory_(memory), bytes_(bytes) {}
  static uint64_t BytesFor(size_t regions, size_t tensors, size_t sizes, size_t scalars, size_t calls, size_t recipe);

  /// `addresses` is [calls][tensors].
  void Write(const std::vector<TableRegion>& regions, const Signature& signature, const CallPlan& plan,
             const std::vector<int64_t>& sizes, const std::vector<uint64_t>& addresses);

 private:
  unsigned char* memory_;
  uint64_t bytes_;
};

/// Values of the signature's sizes at a plan. kInvalidArgument: a size that nothing tells.
absl::StatusOr<std::vector<int64_t>> SizeValues(const Task& task, const Signature& signature, const CallPlan& plan);

}  // namespace hone::verifier

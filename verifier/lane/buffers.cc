#include "verifier/lane/buffers.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::verifier {
namespace {

constexpr int64_t kAlignment = 64;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

// ---- Device, Buffer ----

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const std::string& name) {
  const size_t colon = name.find(':');
  const DeviceTable* table = FindDeviceTable(name.substr(0, colon));
  int index = 0;
  if (table == nullptr ||
      (colon != std::string::npos && (!absl::SimpleAtoi(name.substr(colon + 1), &index) || index < 0))) {
    std::string known;
    for (const DeviceTable* one : DeviceTables()) absl::StrAppend(&known, known.empty() ? "" : ", ", one->name, ":N");
    return absl::InvalidArgumentError(absl::StrCat("no device '", name, "'; there are ", known));
  }
  std::unique_ptr<Device> device(new Device(*table));
  if (const int code = table->open(index, &device->device_); code != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", name, " cannot be opened: ", table->error_name(code), " (", code, ")"));
  }
  HONE_RETURN_IF_ERROR(device->Check(device->table_.properties(device->device_, &device->properties_), "its properties"));
  return device;
}

Device::~Device() {
  if (device_ != nullptr) table_.close(device_);
}

absl::Status Device::Check(int code, const char* what) const {
  if (code == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(table_.backend, " device: ", what, ": ", table_.error_name(code)));
}

Buffer::Buffer(const Device* device) : Buffer(device->table(), device->get(), device->properties().map_unit) {}

absl::Status Buffer::Check(int code, const char* what) const {
  if (code == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(table_.backend, " device: ", what, ": ", table_.error_name(code)));
}

absl::Status Buffer::Reserve(uint64_t bytes) {
  if (buffer_.data != nullptr && buffer_.bytes >= bytes) return absl::OkStatus();
  Release();
  const uint64_t rounded = (std::max<uint64_t>(bytes, 1) + unit_ - 1) / unit_ * unit_;
  return Check(table_.allocate(device_, rounded, &buffer_), "allocating a buffer");
}

void Buffer::Release() {
  if (buffer_.data != nullptr) table_.release(device_, &buffer_);
  buffer_ = {};
}

absl::StatusOr<UniqueFd> Buffer::Export(Access access) const {
  int fd = -1;
  HONE_RETURN_IF_ERROR(Check(table_.export_fd(device_, &buffer_, access, &fd), "exporting a buffer"));
  return UniqueFd(fd);
}

// ---- Pool ----

SetLayout PackSet(const std::vector<TensorSpec>& tensors) {
  SetLayout layout;
  for (const TensorSpec& spec : tensors) {
    layout.offsets.push_back(layout.bytes);
    layout.bytes += RoundUp(spec.Bytes(), kAlignment);
  }
  layout.bytes = std::max(layout.bytes, kAlignment);
  return layout;
}

absl::Status Pool::Extend(ReferenceWorker& worker, SecretSeeds& seeds, const Task& task, int sets) {
  sets = std::min(sets, spec_.capacity);
  if (sets <= sets_) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(memory_.Reserve(static_cast<uint64_t>(spec_.capacity * layout_.bytes)));
  HONE_ASSIGN_OR_RETURN(const UniqueFd fd, memory_.Export(Access::kReadWrite));
  FillRequest request;
  request.memory_bytes = static_cast<int64_t>(memory_.bytes());
  request.pool = id_;
  request.sizes = spec_.sizes;
  request.profile = spec_.profile;
  request.keep = spec_.keep;
  request.memory_fd = fd.get();
  request.first_set = sets_;
  request.set_bytes = layout_.bytes;
  request.offsets = layout_.offsets;
  if (sets_ == 0) shared_seed_ = spec_.shared_seed >= 0 ? spec_.shared_seed : seeds.NextSeed();
  for (int i = sets_; i < sets; ++i) {
    request.seeds.push_back(seeds.NextSeed());
    request.parameter_seeds.push_back(spec_.share_parameters ? shared_seed_ : seeds.NextSeed());
  }
  HONE_RETURN_IF_ERROR(worker.Fill(task, plan_, request));
  sets_ = sets;
  return absl::OkStatus();
}

// ---- Stage, table ----

absl::Status Stage::Reserve(uint64_t table_bytes, uint64_t input_bytes, uint64_t output_bytes, int runners) {
  HONE_RETURN_IF_ERROR(table_.Reserve(table_bytes));
  HONE_RETURN_IF_ERROR(inputs_.Reserve(input_bytes));
  for (int i = 0; i < runners; ++i) HONE_RETURN_IF_ERROR(outputs_[i].Reserve(output_bytes));
  return absl::OkStatus();
}

absl::Status Stage::Clear(const Device& device) {
  const auto clear = [&](Buffer& buffer, uint64_t* used) -> absl::Status {
    const uint64_t bytes = std::min(std::exchange(*used, 0), buffer.bytes());
    return device.Check(device.table().poison(device.get(), buffer.data(), bytes, 0), "clearing a stage");
  };
  HONE_RETURN_IF_ERROR(clear(inputs_, &used_inputs_));
  for (int i = 0; i < kRunners; ++i) HONE_RETURN_IF_ERROR(clear(outputs_[i], &used_outputs_[i]));
  return absl::OkStatus();
}

uint64_t TableWriter::BytesFor(size_t regions, size_t tensors, size_t sizes, size_t scalars, size_t calls,
                               size_t recipe) {
  return sizeof(TableHeader) + regions * sizeof(TableRegion) + tensors * sizeof(TableTensor) + sizes * sizeof(int64_t) +
         scalars * sizeof(double) + calls * tensors * sizeof(uint64_t) + recipe;
}

void TableWriter::Write(const std::vector<TableRegion>& regions, const Signature& signature, const CallPlan& plan,
                        const std::vector<int64_t>& sizes, const std::vector<uint64_t>& addresses) {
  uint64_t at = sizeof(TableHeader);
  const auto put = [&](const void* data, uint64_t bytes) {
    HONE_CHECK(at + bytes <= bytes_);
    const uint64_t offset = at;
    if (bytes > 0) std::memcpy(memory_ + at, data, bytes);
    at += bytes;
    return offset;
  };
  std::vector<TableTensor> tensors(plan.tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    const TensorSpec& spec = plan.tensors[t];
    int64_t stride = 1;
    for (size_t axis = spec.shape.size(); axis-- > 0;) {  // buffers are row-major whatever the reference's strides
      tensors[t].shape[axis] = spec.shape[axis];
      tensors[t].strides[axis] = stride;
      stride *= spec.shape[axis];
    }
    tensors[t].ndim = static_cast<int32_t>(spec.shape.size());
    tensors[t].dtype = static_cast<int32_t>(spec.dtype);
    tensors[t].bytes = spec.Bytes();
    tensors[t].writable = signature.tensors[t].role == TensorArgument::Role::kOutput;
  }
  TableHeader header;
  header.region_count = static_cast<uint32_t>(regions.size());
  header.tensor_count = static_cast<uint32_t>(tensors.size());
  header.size_count = static_cast<uint32_t>(sizes.size());
  header.scalar_count = static_cast<uint32_t>(plan.scalars.size());
  header.call_count = static_cast<uint32_t>(tensors.empty() ? 0 : addresses.size() / tensors.size());
  header.regions = put(regions.data(), regions.size() * sizeof(TableRegion));
  header.tensors = put(tensors.data(), tensors.size() * sizeof(TableTensor));
  header.sizes = put(sizes.data(), sizes.size() * sizeof(int64_t));
  header.scalars = put(plan.scalars.data(), plan.scalars.size() * sizeof(double));
  header.addresses = put(addresses.data(), addresses.size() * sizeof(uint64_t));
  header.recipe_bytes = static_cast<uint32_t>(plan.recipe.size());
  header.recipe = put(plan.recipe.data(), plan.recipe.size());
  std::memcpy(memory_, &header, sizeof header);
}

absl::StatusOr<std::vector<int64_t>> SizeValues(const Task& task, const Signature& signature, const CallPlan& plan) {
  std::vector<int64_t> values;
  for (const SizeArgument& size : signature.sizes) {
    bool found = false;
    for (size_t t = 0; t < signature.tensors.size() && !found; ++t) {
      const std::vector<std::string>& names = signature.tensors[t].dimensions;
      const auto at = std::find(names.begin(), names.end(), size.name);
      if (at == names.end() || names.size() != plan.tensors[t].shape.size()) continue;
      values.push_back(plan.tensors[t].shape[static_cast<size_t>(at - names.begin())]);
      found = true;
    }
    if (!found) {
      const auto constant = plan.constants.find(size.name);
      if (constant == plan.constants.end()) {
        return absl::InvalidArgumentError(absl::StrCat("task ", task.id, ": nothing tells the size `", size.name, "`"));
      }
      values.push_back(constant->second);
    }
  }
  return values;
}

}  // namespace hone::verifier

#include "policy/model/checksum.h"

#include <cstring>

#include "base/status_macros.h"
#include "policy/model/device.h"
#include "policy/model/mix.h"
#include "policy/model/torch_status.h"
#ifdef HONE_WITH_CUDA
#include "policy/model/cuda/checksum.h"
#include "policy/model/cuda/row_kernels.h"
#endif

namespace hone::policy {
namespace {

uint64_t SumOf(const uint8_t* data, int64_t bytes, uint64_t first) {
  uint64_t sum = 0;
  for (int64_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, static_cast<size_t>(std::min<int64_t>(8, bytes - at)));
    sum += MixWord(word, first++);
  }
  return sum;
}

}  // namespace

absl::Status Checksum::Add(const at::Tensor& tensor) {
  if (!tensor.is_contiguous() || tensor.device() != device_)
    return absl::InvalidArgumentError("checksum: the tensor is not contiguous, or on another device");
  const int64_t bytes = static_cast<int64_t>(tensor.nbytes());
  const uint64_t first = words_;
  words_ += static_cast<uint64_t>((bytes + 7) / 8);
  if (device_.is_cpu()) {
    sum_ += SumOf(static_cast<const uint8_t*>(tensor.const_data_ptr()), bytes, first);
    return absl::OkStatus();
  }
#ifdef HONE_WITH_CUDA
  return CatchTorch("checksum",
                    [&] {
                      if (!device_sum_.defined())
                        device_sum_ = at::zeros({1}, at::TensorOptions(device_).dtype(at::kLong));
                      const int error =
                          cuda::AddChecksum(tensor.const_data_ptr(), bytes, first,
                                            static_cast<uint64_t*>(device_sum_.data_ptr()), CurrentStream(device_));
                      TORCH_CHECK(error == 0, cuda::ErrorText(error));
                      return true;
                    })
      .status();
#else
  return absl::UnimplementedError("checksum: this build has no CUDA");
#endif
}

absl::StatusOr<uint64_t> Checksum::Value() const {
  if (!device_sum_.defined()) return sum_;
  return CatchTorch("checksum", [&] { return static_cast<uint64_t>(device_sum_.cpu().item<int64_t>()); });
}

}  // namespace hone::policy

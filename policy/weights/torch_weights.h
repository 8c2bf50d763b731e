#pragma once

// Between safetensors and torch. The only file of policy/weights that sees torch.

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "policy/weights/tensor_view.h"

namespace hone::policy {

/// A CPU tensor with its own copy of the bytes, in the view's dtype and shape.
at::Tensor CopyToTensor(const TensorView& view);

/// A CPU tensor over the view's bytes, without a copy. Never write to it: a mapped file is read-only. The view's owner must
/// outlive it.
at::Tensor BorrowAsTensor(const TensorView& view);

/// The tensor's bytes under a name. kInvalidArgument: not on the CPU, not contiguous, or a dtype that hone does not know.
/// Borrows from `tensor`.
absl::StatusOr<TensorView> ViewTensor(const std::string& name, const at::Tensor& tensor);

/// Writes tensors from any device, atomically; strided ones are made contiguous, one at a time.
absl::Status WriteTensors(const std::string& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors);

at::ScalarType ToTorch(DType dtype);
std::optional<DType> FromTorch(at::ScalarType type);

}  // namespace hone::policy

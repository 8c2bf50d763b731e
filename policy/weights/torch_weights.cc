#include "policy/weights/torch_weights.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/weights/safetensors.h"

namespace hone::policy {
namespace {

struct TypePair {
  DType dtype;
  at::ScalarType torch_type;
};
constexpr TypePair kTypes[] = {{DType::kFloat32, at::kFloat}, {DType::kFloat16, at::kHalf}, {DType::kBFloat16, at::kBFloat16},
                               {DType::kFloat64, at::kDouble}, {DType::kInt32, at::kInt},   {DType::kInt64, at::kLong},
                               {DType::kInt8, at::kChar},      {DType::kUInt8, at::kByte},  {DType::kBool, at::kBool}};

}  // namespace

at::ScalarType ToTorch(DType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) return pair.torch_type;
  }
  return at::ScalarType::Undefined;
}

std::optional<DType> FromTorch(at::ScalarType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.torch_type == type) return pair.dtype;
  }
  return std::nullopt;
}

at::Tensor CopyToTensor(const TensorView& view) {
  at::Tensor tensor = at::empty(view.shape, ToTorch(view.dtype));
  if (!view.bytes.empty()) std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

at::Tensor BorrowAsTensor(const TensorView& view) {
  return at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.shape, at::TensorOptions(ToTorch(view.dtype)));
}

absl::StatusOr<TensorView> ViewTensor(const std::string& name, const at::Tensor& tensor) {
  const std::optional<DType> dtype = FromTorch(tensor.scalar_type());
  if (!dtype || !tensor.device().is_cpu() || !tensor.is_contiguous()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is not a contiguous CPU tensor of a known dtype"));
  }
  return TensorView{name, *dtype, tensor.sizes().vec(),
                    {static_cast<const std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.nbytes())}};
}

absl::Status WriteTensors(const std::string& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    const std::optional<DType> dtype = FromTorch(tensor.scalar_type());
    if (!dtype) return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' has a dtype that hone does not write"));
    specs.push_back({name, *dtype, tensor.sizes().vec(), {}});
  }
  HONE_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::Create(path, std::move(specs)));
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
    HONE_ASSIGN_OR_RETURN(const TensorView view, ViewTensor(name, dense));
    HONE_RETURN_IF_ERROR(writer->Append(view.bytes));
  }
  return writer->Finish();
}

}  // namespace hone::policy

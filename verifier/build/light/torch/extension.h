// A light stand-in for torch's header of the same name, put before it on the include path (torch_builder.h): tensors,
// the operators that the source names, and the binding only where the source uses it. What it lacks makes the
// compilation fail, and then torch's own header is taken.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include HONE_OPERATORS

namespace torch {
using namespace at;  // NOLINT
using at::Tensor;
using at::TensorOptions;
using c10::Device;
using c10::DeviceType;
using c10::IntArrayRef;
using c10::nullopt;
using c10::optional;
using Dtype = at::ScalarType;
constexpr auto kCUDA = at::kCUDA;
constexpr auto kCPU = at::kCPU;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
constexpr auto kBool = at::kBool;
constexpr auto kFloat = at::kFloat;
constexpr auto kDouble = at::kDouble;
constexpr auto kHalf = at::kHalf;
constexpr auto kInt = at::kInt;
constexpr auto kLong = at::kLong;
constexpr auto kBFloat16 = at::kBFloat16;
inline at::TensorOptions dtype(at::ScalarType type) { return at::TensorOptions().dtype(type); }
inline at::TensorOptions device(c10::Device where) { return at::TensorOptions().device(where); }
}  // namespace torch

#ifdef HONE_WITH_BINDING
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#endif

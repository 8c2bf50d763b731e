#include "base/tensor.h"

#include "base/names.h"

namespace hone {
namespace {

constexpr NameTable<DType, 9> kNames = {{
    {DType::kFloat32, "float32"},
    {DType::kFloat16, "float16"},
    {DType::kBFloat16, "bfloat16"},
    {DType::kFloat64, "float64"},
    {DType::kInt32, "int32"},
    {DType::kInt64, "int64"},
    {DType::kInt8, "int8"},
    {DType::kUInt8, "uint8"},
    {DType::kBool, "bool"},
}};

}  // namespace

int64_t ByteSize(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      return 1;
  }
  HONE_CHECK(!"unknown element type");
}

bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat64;
}

absl::string_view Name(DType dtype) { return NameIn(kNames, dtype); }
std::optional<DType> ParseDType(absl::string_view name) { return ParseIn(kNames, name); }

int64_t TensorSpec::Elements() const {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  return elements;
}

}  // namespace hone

#include "base/signature.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace hone {

std::string CudaType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat16:
      return "__half";
    case DType::kBFloat16:
      return "__nv_bfloat16";
    case DType::kFloat64:
      return "double";
    case DType::kInt32:
      return "int";
    case DType::kInt64:
      return "int64_t";
    case DType::kInt8:
      return "int8_t";
    case DType::kUInt8:
      return "uint8_t";
    case DType::kBool:
      return "bool";
  }
  HONE_CHECK(!"unknown element type");
}

std::string Signature::Declaration() const {
  std::vector<std::string> arguments;
  for (const TensorArgument& tensor : tensors) {
    const char* constness = tensor.role == TensorArgument::Role::kOutput ? "" : "const ";
    arguments.push_back(absl::StrCat(constness, CudaType(tensor.spec.dtype), "* ", tensor.spec.name));
  }
  for (const SizeArgument& size : sizes) {
    arguments.push_back(absl::StrCat(size.wide ? "int64_t " : "int ", size.name));
  }
  for (const ScalarArgument& scalar : scalars) {
    arguments.push_back(absl::StrCat(scalar.integral ? "int64_t " : "float ", scalar.name));
  }
  arguments.push_back("cudaStream_t stream");
  return absl::StrCat("extern \"C\" void launch(", absl::StrJoin(arguments, ", "), ")");
}

}  // namespace hone

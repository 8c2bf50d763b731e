#include "verifier/build/glue.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hone::verifier {
namespace {

// verifier/runner/abi.h in one line, so that the candidate's compiler needs no file of ours.
constexpr char kAbi[] =
    "extern \"C\" { struct HoneTensor { void* data; const long long* shape; const long long* strides; int ndim; int dtype; }; "
    "struct HoneCall { const struct HoneTensor* tensors; int tensor_count; const long long* sizes; int size_count; "
    "const double* scalars; int scalar_count; void* stream; }; }";

}  // namespace

Glue MakeGlue(const Signature& signature) {
  std::string headers;
  for (const TensorArgument& tensor : signature.tensors) {
    if (tensor.spec.dtype == DType::kFloat16) headers = absl::StrCat(headers, "#include <cuda_fp16.h>\n");
    if (tensor.spec.dtype == DType::kBFloat16) headers = absl::StrCat(headers, "#include <cuda_bf16.h>\n");
  }
  std::vector<std::string> arguments;
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const TensorArgument& tensor = signature.tensors[i];
    const char* constness = tensor.role == TensorArgument::Role::kOutput ? "" : "const ";
    arguments.push_back(absl::StrCat("(", constness, CudaType(tensor.spec.dtype), "*)call->tensors[", i, "].data"));
  }
  for (size_t i = 0; i < signature.sizes.size(); ++i) {
    arguments.push_back(absl::StrCat(signature.sizes[i].wide ? "(int64_t)" : "(int)", "call->sizes[", i, "]"));
  }
  for (size_t i = 0; i < signature.scalars.size(); ++i) {
    arguments.push_back(absl::StrCat(signature.scalars[i].integral ? "(int64_t)" : "(float)", "call->scalars[", i, "]"));
  }
  arguments.push_back("(cudaStream_t)call->stream");
  Glue glue;
  glue.before = absl::StrCat(headers, "extern \"C\" void* hone_workspace(unsigned long long bytes);\n", signature.Declaration(), ";\n");
  glue.after = absl::StrCat("\n", kAbi, "\nextern \"C\" __attribute__((visibility(\"default\"), used)) int hone_call(const HoneCall* call) {\n  launch(",
                            absl::StrJoin(arguments, ", "), ");\n  return (int)cudaPeekAtLastError();\n}\n");
  return glue;
}

}  // namespace hone::verifier

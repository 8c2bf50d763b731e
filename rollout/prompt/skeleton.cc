#include "rollout/prompt/skeleton.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hone::rollout {
namespace {

constexpr const char* kIndices[] = {"i", "j", "k", "l", "m", "n"};

std::string FlatIndex(const std::vector<std::string>& dimensions) {
  std::string index = kIndices[0];
  for (size_t d = 1; d < dimensions.size(); ++d) {
    const std::string outer = d > 1 ? absl::StrCat("(", index, ")") : index;
    index = absl::StrCat(outer, " * ", dimensions[d], " + ", kIndices[d]);
  }
  return index;
}

std::string TensorLine(const TensorArgument& tensor) {
  const std::string& name = tensor.spec.name;
  const size_t rank = tensor.dimensions.size();
  const std::string shape = absl::StrCat("// ", name, " [", absl::StrJoin(tensor.dimensions, ", "), "]");
  if (rank == 0 || rank > std::size(kIndices)) return absl::StrCat(shape, "\n");
  return absl::StrCat(shape, ": ", name, "[", FlatIndex(tensor.dimensions), "]\n");
}

}  // namespace

std::string Skeleton(const Signature& signature) {
  std::string text = "#include <cuda_runtime.h>\n#include <float.h>\n#include <math.h>\n\n";
  for (const TensorArgument& tensor : signature.tensors) absl::StrAppend(&text, TensorLine(tensor));
  return absl::StrCat(text, signature.Declaration(), " {\n}\n");
}

}  // namespace hone::rollout

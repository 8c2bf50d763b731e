#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "policy/convert/model_source.h"
#include "policy/weights/half.h"
#include "policy/weights/safetensors.h"

namespace hone::policy {
namespace {

// What belongs to a model beside its weights; anything else in a folder (READMEs, other formats) is left behind.
constexpr const char* kFiles[] = {"config.json",          "generation_config.json",  "tokenizer.json", "tokenizer_config.json",
                                  "chat_template.jinja", "special_tokens_map.json", "added_tokens.json"};

template <class T>
T ElementAt(const TensorView& view, int64_t index) {
  T value;
  std::memcpy(&value, view.bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

void ReadAsFloat(const TensorView& view, int64_t first, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t at = first + static_cast<int64_t>(i);
    switch (view.dtype) {
      case DType::kBFloat16: out[i] = FloatFromBFloat16(ElementAt<uint16_t>(view, at)); break;
      case DType::kFloat16: out[i] = FloatFromHalf(ElementAt<uint16_t>(view, at)); break;
      case DType::kFloat64: out[i] = static_cast<float>(ElementAt<double>(view, at)); break;
      default: out[i] = ElementAt<float>(view, at);
    }
  }
}

}  // namespace

absl::StatusOr<ModelSource> OpenFolderModel(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Safetensors> opened, Safetensors::Open(path));
  const std::shared_ptr<const Safetensors> weights = std::move(opened);
  ModelSource source;
  source.owner = weights;
  for (const TensorView& view : weights->tensors()) {
    if (!IsFloating(view.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", view.name, "' is ", SafetensorsDType(view.dtype),
                                                     "; hone converts floating-point weights"));
    }
    const TensorView* stored = &view;
    source.tensors.push_back({view.name, view.shape, 1, [stored](int64_t first, absl::Span<float> out) {
                                ReadAsFloat(*stored, first, out);
                              }});
  }
  const std::string folder = std::filesystem::is_directory(path) ? path : std::filesystem::path(path).parent_path().string();
  for (const char* name : kFiles) {
    const std::string file = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (!FileExists(file)) continue;
    HONE_ASSIGN_OR_RETURN(std::string content, ReadFile(file));
    source.files.emplace_back(name, std::move(content));
  }
  if (source.files.empty() || source.files.front().first != "config.json") {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no config.json"));
  }
  return source;
}

absl::StatusOr<ModelSource> OpenModel(const std::string& path) {
  return absl::EndsWith(path, ".gguf") ? OpenGgufModel(path) : OpenFolderModel(path);
}

}  // namespace hone::policy

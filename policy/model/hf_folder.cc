#include "policy/model/hf_folder.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "policy/model/hf_config.h"
#include "policy/model/torch_status.h"
#include "policy/weights/safetensors.h"
#include "policy/weights/torch_weights.h"

namespace hone::policy {

absl::StatusOr<std::unique_ptr<Decoder>> LoadHfFolder(const std::string& folder, const DecoderOptions& options) {
  const std::string path = absl::StrCat(folder, "/config.json");
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  HONE_ASSIGN_OR_RETURN(const ModelConfig config, ModelConfigFromHf(text, path));
  HONE_ASSIGN_OR_RETURN(const auto file, Safetensors::Open(folder));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder, Decoder::Create(config, options));
  std::vector<NamedTensor> tensors;
  for (const TensorView& view : file->tensors()) tensors.push_back({view.name, BorrowAsTensor(view)});
  HONE_ASSIGN_OR_RETURN(const absl::Status loaded, CatchTorch("loading weights", [&] { return decoder->parameters().Load(tensors); }));
  if (!loaded.ok()) return absl::Status(loaded.code(), absl::StrCat(folder, ": ", loaded.message()));
  return decoder;
}

absl::Status SaveHfWeights(const Decoder& decoder, const std::string& folder) {
  HONE_RETURN_IF_ERROR(MakeFolders(folder));
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const NamedTensor& named : decoder.parameters().named()) tensors.emplace_back(named.name, named.tensor);
  HONE_ASSIGN_OR_RETURN(const absl::Status written,
                        CatchTorch("saving weights", [&] { return WriteTensors(absl::StrCat(folder, "/model.safetensors"), tensors); }));
  return written;
}

}  // namespace hone::policy

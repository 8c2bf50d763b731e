#include "policy/convert/convert.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "policy/weights/half.h"
#include "policy/weights/safetensors.h"

namespace hone::policy {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kChunkElements = 1 << 18;

struct Shard {
  std::string file;
  std::vector<const SourceTensor*> tensors;
};

std::vector<Shard> Distribute(const ModelSource& source, int64_t element_bytes, int64_t limit_bytes) {
  std::vector<Shard> shards(1);
  int64_t bytes = 0;
  for (const SourceTensor& tensor : source.tensors) {
    const int64_t size = tensor.Elements() * element_bytes;
    if (bytes > 0 && bytes + size > limit_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().tensors.push_back(&tensor);
    bytes += size;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = shards.size() == 1 ? "model.safetensors"
                                        : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, shards.size());
  }
  return shards;
}

void Round(absl::Span<const float> values, DType dtype, std::vector<std::byte>& out) {
  if (dtype == DType::kFloat32) {
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    out.insert(out.end(), bytes, bytes + values.size() * sizeof(float));
    return;
  }
  const size_t begin = out.size();
  out.resize(begin + values.size() * sizeof(uint16_t));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t rounded = dtype == DType::kFloat16 ? HalfFromFloat(values[i]) : BFloat16FromFloat(values[i]);
    std::memcpy(out.data() + begin + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

std::vector<std::byte> ReadTensor(const SourceTensor& tensor, DType dtype) {
  const int64_t elements = tensor.Elements();
  const int64_t chunk = std::max<int64_t>(1, kChunkElements / tensor.granule) * tensor.granule;
  std::vector<float> values;
  std::vector<std::byte> bytes;
  bytes.reserve(elements * ByteSize(dtype));
  for (int64_t first = 0; first < elements; first += chunk) {
    values.resize(std::min(chunk, elements - first));
    tensor.read(first, absl::MakeSpan(values));
    Round(values, dtype, bytes);
  }
  return bytes;
}

absl::Status WriteShard(const Shard& shard, const std::string& folder, DType dtype,
                        const std::function<void(const SourceTensor&)>& done) {
  std::vector<TensorSpec> specs;
  for (const SourceTensor* tensor : shard.tensors) specs.push_back({tensor->name, dtype, tensor->shape, {}});
  HONE_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::Create(absl::StrCat(folder, "/", shard.file), std::move(specs),
                                                                     {{"format", "pt"}}));
  for (const SourceTensor* tensor : shard.tensors) {
    HONE_RETURN_IF_ERROR(writer->Append(ReadTensor(*tensor, dtype)));
    done(*tensor);
  }
  return writer->Finish();
}

std::string IndexJson(const std::vector<Shard>& shards, int64_t total_bytes) {
  Json map = Json::object();
  std::vector<std::pair<std::string, std::string>> entries;
  for (const Shard& shard : shards) {
    for (const SourceTensor* tensor : shard.tensors) entries.emplace_back(tensor->name, shard.file);
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& [name, file] : entries) map[name] = file;
  return Json{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", map}}.dump(2) + "\n";
}

/// config.json with the dtype of the new weights, under the names that old and new transformers read.
absl::StatusOr<std::string> WithDType(const std::string& text, DType dtype) {
  Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return absl::InvalidArgumentError("config.json is not a JSON object");
  config.erase("dtype");
  config["torch_dtype"] = std::string(Name(dtype));
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::Status WriteInto(const ModelSource& source, const std::string& folder, const ConvertOptions& options,
                       const ConvertProgress& progress) {
  const int64_t element_bytes = ByteSize(options.dtype);
  const std::vector<Shard> shards = Distribute(source, element_bytes, options.shard_limit_bytes);
  const int64_t total = WeightBytes(source, options.dtype);
  int64_t done = 0;
  for (const auto& [name, content] : source.files) {
    std::string text = content;
    if (name == "config.json") {
      HONE_ASSIGN_OR_RETURN(text, WithDType(content, options.dtype));
    }
    HONE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/", name), text));
  }
  for (const Shard& shard : shards) {
    HONE_RETURN_IF_ERROR(WriteShard(shard, folder, options.dtype, [&](const SourceTensor& tensor) {
      done += tensor.Elements() * element_bytes;
      progress(done, total, tensor.name);
    }));
  }
  if (shards.size() == 1) return absl::OkStatus();
  return WriteFileAtomically(absl::StrCat(folder, "/model.safetensors.index.json"), IndexJson(shards, total));
}

}  // namespace

int64_t WeightBytes(const ModelSource& source, DType dtype) {
  int64_t bytes = 0;
  for (const SourceTensor& tensor : source.tensors) bytes += tensor.Elements() * ByteSize(dtype);
  return bytes;
}

absl::Status WriteModel(const ModelSource& source, const std::string& folder, const ConvertOptions& options,
                        const ConvertProgress& progress) {
  if (options.dtype != DType::kFloat32 && options.dtype != DType::kFloat16 && options.dtype != DType::kBFloat16) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write weights as ", Name(options.dtype)));
  }
  std::error_code error;
  if (std::filesystem::exists(folder, error) &&
      !(std::filesystem::is_directory(folder, error) && std::filesystem::is_empty(folder, error))) {
    return absl::AlreadyExistsError(absl::StrCat(folder, " exists; give a new folder"));
  }
  std::string target = folder;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  const std::string partial = absl::StrCat(target, ".", getpid(), ".partial");
  const absl::Cleanup remove = [&] { (void)RemoveTree(partial); };
  HONE_RETURN_IF_ERROR(MakeFolders(partial));
  HONE_RETURN_IF_ERROR(WriteInto(source, partial, options, progress));
  if (rename(partial.c_str(), target.c_str()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot make ", target));
  return absl::OkStatus();
}

}  // namespace hone::policy

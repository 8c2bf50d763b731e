#include "policy/weights/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::policy {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kHeaderLimitBytes = 100'000'000;  // the format's own limit
constexpr uint64_t kLengthBytes = 8;

struct DTypeWord {
  DType dtype;
  const char* word;
};
constexpr DTypeWord kDTypeWords[] = {
    {DType::kFloat32, "F32"}, {DType::kFloat16, "F16"}, {DType::kBFloat16, "BF16"}, {DType::kFloat64, "F64"},
    {DType::kInt32, "I32"},   {DType::kInt64, "I64"},   {DType::kInt8, "I8"},       {DType::kUInt8, "U8"},
    {DType::kBool, "BOOL"}};

absl::Status Bad(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

/// An object without repeated keys at its top level.
absl::StatusOr<Json> ParseObject(absl::string_view path, absl::string_view text) {
  std::set<std::string> keys;
  std::string repeated;
  const auto note_key = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth == 1 && event == Json::parse_event_t::key && !keys.insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), note_key, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad(path, "its header is not valid JSON");
  if (!json.is_object()) return Bad(path, "its header is not a JSON object");
  if (!repeated.empty()) return Bad(path, absl::StrCat("tensor '", repeated, "' appears twice"));
  return json;
}

std::optional<std::vector<int64_t>> ReadSizes(const Json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Json& size : list) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

struct Placed {
  TensorView view;
  int64_t begin;
  int64_t end;
};

absl::StatusOr<Placed> ReadEntry(absl::string_view path, const std::string& name, const Json& entry) {
  const auto bad = [&](absl::string_view what) { return Bad(path, absl::StrCat("tensor '", name, "' ", what)); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) {
    return bad("lacks dtype, shape or data_offsets");
  }
  if (!entry["dtype"].is_string()) return bad("has a dtype that is not a string");
  const std::string word = entry["dtype"].get<std::string>();
  const std::optional<DType> dtype = ParseSafetensorsDType(word);
  if (!dtype) return bad(absl::StrCat("has dtype '", word, "'; known: F32, F16, BF16, F64, I32, I64, I8, U8, BOOL"));
  const auto shape = ReadSizes(entry["shape"]);
  if (!shape) return bad("has a shape that is not a list of sizes");
  const auto offsets = ReadSizes(entry["data_offsets"]);
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) return bad("has unusable data_offsets");
  const std::optional<int64_t> size = DenseBytes(*dtype, *shape);
  if (!size) return bad("has a shape that overflows");
  const int64_t stored = (*offsets)[1] - (*offsets)[0];
  if (*size != stored) return bad(absl::StrCat("needs ", *size, " bytes but its data_offsets hold ", stored));
  return Placed{TensorView{name, *dtype, *shape, {}}, (*offsets)[0], (*offsets)[1]};
}

/// The tensors must follow one another from 0 to `data_bytes`.
absl::Status CheckCover(absl::string_view path, std::vector<Placed>& placed, int64_t data_bytes) {
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  int64_t reached = 0;
  for (const Placed& tensor : placed) {
    if (tensor.end > data_bytes) {
      return Bad(path, absl::StrCat("tensor '", tensor.view.name, "' ends at byte ", tensor.end, " but the file holds ",
                                    data_bytes, " bytes of data: the file is cut or its header lies"));
    }
    if (tensor.begin < reached) return Bad(path, absl::StrCat("tensor '", tensor.view.name, "' overlaps another"));
    if (tensor.begin > reached) {
      return Bad(path, absl::StrCat("a hole of ", tensor.begin - reached, " bytes before tensor '", tensor.view.name, "'"));
    }
    reached = tensor.end;
  }
  if (reached != data_bytes) return Bad(path, absl::StrCat(data_bytes - reached, " bytes after the last tensor"));
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> HeaderText(const MappedFile& file) {
  const absl::Span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kLengthBytes) return Bad(file.path(), absl::StrCat("is cut: ", bytes.size(), " bytes"));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kHeaderLimitBytes || length > bytes.size() - kLengthBytes) {
    return Bad(file.path(), absl::StrCat("its header should be ", length, " bytes but the file has ", bytes.size(),
                                         " (not a safetensors file, or cut)"));
  }
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
}

std::string Listed(const std::vector<std::string>& names) {
  std::string text = absl::StrCat("'", names.front(), "'");
  if (names.size() > 1) absl::StrAppend(&text, " and ", names.size() - 1, " more");
  return text;
}

/// Safe to join to a folder: no path separators, not a dot file.
bool PlainFileName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

std::string HeaderJson(const std::vector<TensorSpec>& specs, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const TensorSpec& spec : specs) {
    const int64_t end = offset + spec.Bytes();
    header[spec.name] = {{"dtype", std::string(SafetensorsDType(spec.dtype))}, {"shape", spec.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // readers expect the data 8-byte aligned
  return text;
}

}  // namespace

absl::string_view SafetensorsDType(DType dtype) {
  for (const DTypeWord& entry : kDTypeWords) {
    if (entry.dtype == dtype) return entry.word;
  }
  return "";
}

std::optional<DType> ParseSafetensorsDType(absl::string_view word) {
  for (const DTypeWord& entry : kDTypeWords) {
    if (word == entry.word) return entry.dtype;
  }
  return std::nullopt;
}

std::optional<int64_t> DenseBytes(DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = ByteSize(dtype);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<Safetensors>> Safetensors::Open(const std::string& path) {
  std::string file = path;
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    file = absl::StrCat(path, "/model.safetensors");
    if (!FileExists(file)) file = absl::StrCat(path, "/model.safetensors.index.json");
    if (!FileExists(file)) {
      return absl::NotFoundError(absl::StrCat(path, " has neither model.safetensors nor model.safetensors.index.json"));
    }
  }
  auto weights = std::unique_ptr<Safetensors>(new Safetensors());
  weights->path_ = path;
  HONE_RETURN_IF_ERROR(absl::EndsWith(file, ".json") ? weights->AddShards(file) : weights->AddFile(file));
  HONE_RETURN_IF_ERROR(weights->SortNames());
  return weights;
}

absl::Status Safetensors::AddFile(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  HONE_ASSIGN_OR_RETURN(const absl::string_view header, HeaderText(*file));
  HONE_ASSIGN_OR_RETURN(const Json json, ParseObject(path, header));
  std::vector<Placed> placed;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return Bad(path, "__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return Bad(path, absl::StrCat("__metadata__ key '", key, "' is not a string"));
        if (files_.empty()) metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    HONE_ASSIGN_OR_RETURN(Placed tensor, ReadEntry(path, name, entry));
    placed.push_back(std::move(tensor));
  }
  const absl::Span<const std::byte> data = file->bytes().subspan(kLengthBytes + header.size());
  HONE_RETURN_IF_ERROR(CheckCover(path, placed, static_cast<int64_t>(data.size())));
  for (Placed& tensor : placed) {
    tensor.view.bytes = data.subspan(tensor.begin, tensor.end - tensor.begin);
    tensors_.push_back(std::move(tensor.view));
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status Safetensors::AddShards(const std::string& index_path) {
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(index_path, kHeaderLimitBytes));
  HONE_ASSIGN_OR_RETURN(const Json json, ParseObject(index_path, text));
  if (!json.contains("weight_map") || !json["weight_map"].is_object()) return Bad(index_path, "has no weight_map");
  std::map<std::string, std::set<std::string>> names_of_shard;
  for (const auto& [name, shard] : json["weight_map"].items()) {
    if (!shard.is_string() || !PlainFileName(shard.get<std::string>())) {
      return Bad(index_path, absl::StrCat("weight_map names no plain file for '", name, "'"));
    }
    names_of_shard[shard.get<std::string>()].insert(name);
  }
  if (names_of_shard.empty()) return Bad(index_path, "its weight_map is empty");
  const std::string folder = std::filesystem::path(index_path).parent_path().string();
  for (const auto& [shard, names] : names_of_shard) {
    const std::string shard_path = folder.empty() ? shard : absl::StrCat(folder, "/", shard);
    if (!FileExists(shard_path)) {
      return absl::NotFoundError(absl::StrCat(index_path, ": shard ", shard, " is missing (holds ", names.size(), " tensors)"));
    }
    const size_t before = tensors_.size();
    HONE_RETURN_IF_ERROR(AddFile(shard_path));
    std::set<std::string> found;
    for (size_t i = before; i < tensors_.size(); ++i) found.insert(tensors_[i].name);
    std::vector<std::string> differing;
    std::set_symmetric_difference(names.begin(), names.end(), found.begin(), found.end(), std::back_inserter(differing));
    if (!differing.empty()) {
      return Bad(index_path, absl::StrCat("disagrees with shard ", shard, " about ", Listed(differing)));
    }
  }
  return absl::OkStatus();
}

absl::Status Safetensors::SortNames() {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                       [](const TensorView& a, const TensorView& b) { return a.name == b.name; });
  if (twin != tensors_.end()) return Bad(path_, absl::StrCat("tensor '", twin->name, "' is in two shards"));
  return absl::OkStatus();
}

const TensorView* Safetensors::Find(absl::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const TensorView& tensor, absl::string_view key) { return tensor.name < key; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

absl::Status Safetensors::RequireNames(std::vector<std::string> expected) const {
  std::sort(expected.begin(), expected.end());
  std::vector<std::string> present;
  for (const TensorView& tensor : tensors_) present.push_back(tensor.name);
  std::vector<std::string> missing, unexpected;
  std::set_difference(expected.begin(), expected.end(), present.begin(), present.end(), std::back_inserter(missing));
  std::set_difference(present.begin(), present.end(), expected.begin(), expected.end(), std::back_inserter(unexpected));
  if (missing.empty() && unexpected.empty()) return absl::OkStatus();
  std::string what = "its tensors are not those of the model:";
  if (!missing.empty()) absl::StrAppend(&what, " missing ", Listed(missing));
  if (!unexpected.empty()) absl::StrAppend(&what, missing.empty() ? "" : ";", " unexpected ", Listed(unexpected));
  return Bad(path_, what);
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorSpec> specs)
    : path_(std::move(path)), temporary_(absl::StrCat(path_, ".", getpid(), ".partial")), specs_(std::move(specs)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_) unlink(temporary_.c_str());
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorSpec> specs, const std::map<std::string, std::string>& metadata) {
  std::set<std::string> names;
  for (const TensorSpec& spec : specs) {
    if (spec.name.empty() || spec.name == "__metadata__" || !names.insert(spec.name).second) {
      return Bad(path, absl::StrCat("cannot write a tensor named '", spec.name, "' (empty, reserved or repeated)"));
    }
    if (!spec.strides.empty()) return Bad(path, absl::StrCat("tensor '", spec.name, "' has strides"));
    if (!DenseBytes(spec.dtype, spec.shape)) return Bad(path, absl::StrCat("tensor '", spec.name, "' has a bad shape"));
  }
  const std::string header = HeaderJson(specs, metadata);
  auto writer = std::unique_ptr<SafetensorsWriter>(new SafetensorsWriter(path, std::move(specs)));
  writer->fd_ = UniqueFd(open(writer->temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!writer->fd_) return ErrnoStatus(errno, absl::StrCat("cannot write ", writer->temporary_));
  const uint64_t length = header.size();
  HONE_RETURN_IF_ERROR(writer->Write(&length, kLengthBytes));
  HONE_RETURN_IF_ERROR(writer->Write(header.data(), header.size()));
  return writer;
}

absl::Status SafetensorsWriter::Write(const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(fd_.get(), at, std::min(size, size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, absl::StrCat("cannot write ", temporary_));
    at += written;
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(absl::Span<const std::byte> bytes) {
  if (next_ == specs_.size()) return absl::FailedPreconditionError(absl::StrCat(path_, ": all tensors are written"));
  const TensorSpec& spec = specs_[next_];
  if (static_cast<int64_t>(bytes.size()) != spec.Bytes()) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": tensor '", spec.name, "' needs ", spec.Bytes(),
                                                      " bytes, got ", bytes.size()));
  }
  HONE_RETURN_IF_ERROR(Write(bytes.data(), bytes.size()));
  ++next_;
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  if (next_ != specs_.size()) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": tensor '", specs_[next_].name, "' was not written"));
  }
  if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", temporary_));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot write ", path_));
  fd_.Reset();
  return absl::OkStatus();
}

absl::Status WriteSafetensors(const std::string& path, const std::vector<TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<TensorSpec> specs;
  for (const TensorView& tensor : tensors) specs.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  HONE_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::Create(path, std::move(specs), metadata));
  for (const TensorView& tensor : tensors) HONE_RETURN_IF_ERROR(writer->Append(tensor.bytes));
  return writer->Finish();
}

}  // namespace hone::policy

#include "trainer/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "nlohmann/json.hpp"
#include "policy/model/torch_status.h"
#include "policy/weights/mapped_file.h"
#include "policy/weights/safetensors.h"
#include "policy/weights/torch_weights.h"

namespace hone::trainer {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

constexpr int kFormat = 1;
constexpr char kTemporary[] = ".writing_";

// One line of COMMIT.
struct FileEntry {
  std::string name;
  int64_t bytes;
  std::string sha256;
};

absl::StatusOr<FileEntry> Describe(const std::string& folder, const std::string& name) {
  HONE_ASSIGN_OR_RETURN(const auto file, policy::MappedFile::Open(absl::StrCat(folder, "/", name)));
  const absl::Span<const std::byte> bytes = file->bytes();
  return FileEntry{name, static_cast<int64_t>(bytes.size()),
                   Sha256Hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()})};
}

std::string CommitText(const std::vector<FileEntry>& files) {
  std::string list;
  for (const FileEntry& file : files) absl::StrAppend(&list, file.sha256, " ", file.bytes, " ", file.name, "\n");
  return absl::StrCat("hone checkpoint ", kFormat, "\n", list, Sha256Hex(list), "\n");
}

absl::StatusOr<std::vector<std::string>> Lines(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Every file named in COMMIT is there with its length and hash. Returns their names.
absl::StatusOr<std::vector<std::string>> Verify(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/COMMIT");
  HONE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, Lines(path));
  if (lines.size() < 2 || lines[0] != absl::StrCat("hone checkpoint ", kFormat)) {
    return absl::DataLossError(absl::StrCat(path, ": not a commit of format ", kFormat));
  }
  std::vector<FileEntry> files;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const size_t first = lines[i].find(' '), second = lines[i].find(' ', first + 1);
    FileEntry file{"", 0, lines[i].substr(0, first)};
    if (second == std::string::npos || !absl::SimpleAtoi(lines[i].substr(first + 1, second - first - 1), &file.bytes)) {
      return absl::DataLossError(absl::StrCat(path, ":", i + 1, ": not a file entry"));
    }
    file.name = lines[i].substr(second + 1);
    files.push_back(std::move(file));
  }
  std::string whole;
  for (const std::string& line : lines) absl::StrAppend(&whole, line, "\n");
  if (CommitText(files) != whole) return absl::DataLossError(absl::StrCat(path, ": its checksum does not match"));
  std::vector<std::string> names;
  for (const FileEntry& wanted : files) {
    const absl::StatusOr<FileEntry> found = Describe(folder, wanted.name);
    if (!found.ok()) return absl::DataLossError(absl::StrCat(folder, "/", wanted.name, ": ", found.status().message()));
    if (found->bytes != wanted.bytes || found->sha256 != wanted.sha256) {
      return absl::DataLossError(absl::StrCat(folder, "/", wanted.name, ": does not match COMMIT (", found->bytes, " bytes, ", wanted.bytes, " committed)"));
    }
    names.push_back(wanted.name);
  }
  return names;
}

// Tensors in files of at most `limit` bytes each, and the shapes of those that were cut. One file without a limit.
struct TensorFiles {
  std::vector<NamedTensors> files;
  Json cut = Json::object();
};

TensorFiles Distribute(const NamedTensors& tensors, int64_t limit) {
  TensorFiles out;
  out.files.emplace_back();
  int64_t filled = 0;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    const int64_t bytes = static_cast<int64_t>(tensor.nbytes());
    if (limit > 0 && filled > 0 && filled + bytes > limit) {
      out.files.emplace_back();
      filled = 0;
    }
    out.files.back().emplace_back(name, tensor);
    filled += bytes;
  };
  for (const auto& [name, tensor] : tensors) {
    if (limit <= 0 || static_cast<int64_t>(tensor.nbytes()) <= limit) {
      add(name, tensor);
      continue;
    }
    const at::Tensor flat = tensor.detach().reshape({-1});
    const int64_t most = std::max<int64_t>(1, limit / static_cast<int64_t>(tensor.element_size()));
    int64_t part = 0;
    for (int64_t begin = 0; begin < flat.numel(); begin += most) {
      add(absl::StrCat(name, "#", part++), flat.narrow(0, begin, std::min(most, flat.numel() - begin)));
    }
    out.cut[name] = Json{{"shape", std::vector<int64_t>(tensor.sizes().begin(), tensor.sizes().end())}, {"parts", part}};
  }
  return out;
}

std::string TensorFileName(size_t index, size_t count) {
  return count == 1 ? "tensors.safetensors" : absl::StrFormat("tensors-%05d.safetensors", index);
}

// Undoes Distribute, whose files hold `tensors`.
absl::StatusOr<NamedTensors> Joined(NamedTensors tensors, const Json& cut, const std::string& folder) {
  std::map<std::string, at::Tensor> parts;
  NamedTensors out;
  for (auto& [name, tensor] : tensors) {
    const size_t hash = name.rfind('#');
    if (hash != std::string::npos && cut.contains(name.substr(0, hash))) {
      parts[name] = tensor;
    } else {
      out.emplace_back(name, tensor);
    }
  }
  for (const auto& [name, entry] : cut.items()) {
    std::vector<at::Tensor> pieces;
    for (int64_t k = 0; k < entry.value("parts", int64_t{0}); ++k) {
      const auto found = parts.find(absl::StrCat(name, "#", k));
      if (found == parts.end()) return absl::DataLossError(absl::StrCat(folder, ": part ", k, " of tensor ", name, " is missing"));
      pieces.push_back(found->second);
    }
    if (pieces.empty()) return absl::DataLossError(absl::StrCat(folder, ": tensor ", name, " has no parts"));
    out.emplace_back(name, at::cat(pieces).view(entry["shape"].get<std::vector<int64_t>>()));
  }
  return out;
}

std::optional<int64_t> StepOf(const std::string& name) {
  int64_t step = 0;
  if (!absl::StartsWith(name, "step_") || !absl::SimpleAtoi(name.substr(5), &step)) return std::nullopt;
  return step;
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("renaming ", from, " to ", to)) : absl::OkStatus();
}

absl::StatusOr<CheckpointData> Read(const std::string& folder, int64_t step) {
  HONE_RETURN_IF_ERROR(Verify(folder).status());
  CheckpointData data;
  data.step = step;
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(absl::StrCat(folder, "/state.json")));
  const Json state = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object() || !state.contains("counters") || !state.contains("blobs")) {
    return absl::DataLossError(absl::StrCat(folder, "/state.json: not a state of this format"));
  }
  for (const auto& [name, value] : state["counters"].items()) {
    if (!value.is_number_integer()) return absl::DataLossError(absl::StrCat(folder, "/state.json: counter ", name, " is not an integer"));
    data.counters[name] = value.get<int64_t>();
  }
  size_t index = 0;
  for (const Json& name : state["blobs"]) {
    if (!name.is_string()) return absl::DataLossError(absl::StrCat(folder, "/state.json: a blob's name is not a string"));
    HONE_ASSIGN_OR_RETURN(data.blobs[name.get<std::string>()], ReadFile(absl::StrCat(folder, "/blobs/", index++)));
  }
  const size_t files = state.value("tensor_files", size_t{1});
  NamedTensors tensors;
  for (size_t i = 0; i < files; ++i) {
    HONE_ASSIGN_OR_RETURN(const auto file, policy::Safetensors::Open(absl::StrCat(folder, "/", TensorFileName(i, files))));
    for (const policy::TensorView& view : file->tensors()) tensors.emplace_back(view.name, policy::CopyToTensor(view));
  }
  HONE_ASSIGN_OR_RETURN(data.tensors, Joined(std::move(tensors), state.value("cut", Json::object()), folder));
  return data;
}

std::vector<int64_t> StepsIn(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : Entries(folder)) {
    const std::optional<int64_t> step = StepOf(name);
    if (step && FileExists(absl::StrCat(folder, "/", name, "/COMMIT"))) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string PathIn(const std::string& folder, int64_t step) { return absl::StrFormat("%s/step_%08d", folder, step); }

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpointer>> Checkpointer::Create(const CheckpointOptions& options) {
  if (options.keep < 1) return absl::InvalidArgumentError(absl::StrCat("checkpoint: keep = ", options.keep, ", allowed >= 1"));
  HONE_RETURN_IF_ERROR(MakeFolders(options.folder));
  for (const std::string& name : Entries(options.folder)) {
    if (absl::StartsWith(name, kTemporary)) HONE_RETURN_IF_ERROR(RemoveTree(absl::StrCat(options.folder, "/", name)));
  }
  return std::unique_ptr<Checkpointer>(new Checkpointer(options));
}

std::string Checkpointer::PathOf(int64_t step) const { return PathIn(options_.folder, step); }

absl::Status Checkpointer::WriteInto(const std::string& folder, const CheckpointData& data) const {
  std::vector<std::string> names;
  const auto begin = [&](const std::string& name) {
    if (options_.on_file) options_.on_file(name);
    names.push_back(name);
    return absl::StrCat(folder, "/", name);
  };
  HONE_RETURN_IF_ERROR(MakeFolders(absl::StrCat(folder, "/blobs")));
  HONE_ASSIGN_OR_RETURN(const TensorFiles tensors, policy::CatchTorch("checkpoint", [&] {
    return Distribute(data.tensors, options_.max_file_bytes);
  }));
  for (size_t i = 0; i < tensors.files.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(const absl::Status written, policy::CatchTorch("checkpoint", [&] {
      return policy::WriteTensors(begin(TensorFileName(i, tensors.files.size())), tensors.files[i]);
    }));
    HONE_RETURN_IF_ERROR(written);
  }
  Json state{{"counters", Json::object()}, {"blobs", Json::array()}, {"tensor_files", tensors.files.size()}, {"cut", tensors.cut}};
  for (const auto& [name, value] : data.counters) state["counters"][name] = value;
  size_t index = 0;
  for (const auto& [name, bytes] : data.blobs) {
    state["blobs"].push_back(name);
    HONE_RETURN_IF_ERROR(WriteFileAtomically(begin(absl::StrCat("blobs/", index++)), bytes));
  }
  HONE_RETURN_IF_ERROR(WriteFileAtomically(begin("state.json"), absl::StrCat(state.dump(2), "\n")));
  std::vector<FileEntry> files;
  for (const std::string& name : names) {
    HONE_ASSIGN_OR_RETURN(files.emplace_back(), Describe(folder, name));
  }
  if (options_.on_file) options_.on_file("COMMIT");
  HONE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/COMMIT"), CommitText(files)));
  HONE_RETURN_IF_ERROR(SyncFolder(absl::StrCat(folder, "/blobs")));
  return SyncFolder(folder);
}

absl::Status Checkpointer::Save(const CheckpointData& data) {
  const std::string path = PathOf(data.step);
  const std::string temporary = absl::StrCat(options_.folder, "/", kTemporary, data.step);
  HONE_RETURN_IF_ERROR(RemoveTree(temporary));
  if (absl::Status status = WriteInto(temporary, data); !status.ok()) {
    RemoveTree(temporary).IgnoreError();
    return status;
  }
  if (options_.on_file) options_.on_file("rename");
  if (FileExists(path)) {
    // A folder cannot be replaced in one step: the old one leaves under a name that Create cleans up.
    const std::string old = absl::StrCat(options_.folder, "/", kTemporary, "old_", data.step);
    HONE_RETURN_IF_ERROR(RemoveTree(old));
    HONE_RETURN_IF_ERROR(Rename(path, old));
    HONE_RETURN_IF_ERROR(Rename(temporary, path));
    HONE_RETURN_IF_ERROR(RemoveTree(old));
  } else {
    HONE_RETURN_IF_ERROR(Rename(temporary, path));
  }
  HONE_RETURN_IF_ERROR(SyncFolder(options_.folder));
  return Prune();
}

std::vector<int64_t> Checkpointer::Steps() const { return StepsIn(options_.folder); }

absl::Status Checkpointer::Prune() const {
  const std::vector<int64_t> steps = Steps();
  const int64_t surplus = static_cast<int64_t>(steps.size()) - options_.keep;
  for (int64_t i = 0; i < surplus; ++i) {
    if (options_.keep_every > 0 && steps[i] % options_.keep_every == 0) continue;
    // COMMIT goes first, so that a kill in the middle leaves no half checkpoint that looks whole.
    std::error_code error;
    fs::remove(absl::StrCat(PathOf(steps[i]), "/COMMIT"), error);
    HONE_RETURN_IF_ERROR(RemoveTree(PathOf(steps[i])));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointData> LoadCheckpoint(const std::string& path) {
  const std::optional<int64_t> step = StepOf(fs::path(path).filename().string());
  if (!step) return absl::InvalidArgumentError(path + ": a checkpoint's folder is called step_ and its number");
  if (!FileExists(path + "/COMMIT")) return absl::NotFoundError(path + ": no such checkpoint");
  HONE_ASSIGN_OR_RETURN(absl::StatusOr<CheckpointData> data, policy::CatchTorch("checkpoint", [&] { return Read(path, *step); }));
  return data;
}

std::string NewestCheckpoint(const std::string& folder) {
  const std::vector<int64_t> steps = StepsIn(folder);
  return steps.empty() ? "" : PathIn(folder, steps.back());
}

absl::StatusOr<CheckpointData> Checkpointer::Load(int64_t step) const { return LoadCheckpoint(PathOf(step)); }

absl::StatusOr<CheckpointData> Checkpointer::LoadLatest(std::vector<std::string>* skipped) const {
  const std::vector<int64_t> steps = Steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    absl::StatusOr<CheckpointData> data = Load(*step);
    if (data.ok()) return data;
    if (skipped != nullptr) skipped->push_back(std::string(data.status().message()));
  }
  return absl::NotFoundError(absl::StrCat(options_.folder, ": no whole checkpoint"));
}

}  // namespace hone::trainer

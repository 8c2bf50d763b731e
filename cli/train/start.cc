#include "cli/train/start.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "policy/model/hf_config.h"
#include "policy/model/hf_folder.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/learner_state.h"

namespace hone::cli {
namespace {

constexpr const char* kCopied[] = {"config.json",           "tokenizer.json",      "tokenizer_config.json",
                                   "generation_config.json", "chat_template.jinja"};

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::StatusOr<StartingPolicy> FromHfFolder(const std::string& folder, const policy::DecoderOptions& options) {
  HONE_ASSIGN_OR_RETURN(auto decoder, policy::LoadHfFolder(folder, options));
  return StartingPolicy{std::move(decoder), folder, folder};
}

/// RUN/checkpoint/PHASE/step_N: the model's description is the run's.
absl::StatusOr<StartingPolicy> FromCheckpoint(const std::string& path, const policy::DecoderOptions& options) {
  HONE_ASSIGN_OR_RETURN(const trainer::CheckpointData data, trainer::LoadCheckpoint(path));
  HONE_ASSIGN_OR_RETURN(StartingPolicy start,
                        StartWithoutWeights(FolderOf(FolderOf(FolderOf(path))) + "/policy", options));
  const absl::Status loaded = trainer::LoadWeights(data, *start.decoder);
  if (!loaded.ok()) return absl::Status(loaded.code(), absl::StrCat(path, ": ", loaded.message()));
  start.weights = path;
  return start;
}

// The model stayed where it was: the adapter's description says where.
absl::StatusOr<StartingPolicy> FromAdapterRun(const std::string& run, const policy::DecoderOptions& options) {
  const std::string path = run + "/adapter/adapter_config.json";
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string base = json.is_object() ? TextOr(json, "base_model_name_or_path") : "";
  if (base.empty()) return absl::InvalidArgumentError(path + ": base_model_name_or_path is missing");
  absl::StatusOr<StartingPolicy> start = LoadStart(base, options);
  if (!start.ok()) return absl::Status(start.status().code(), absl::StrCat(path, ": ", start.status().message()));
  start->adapter = run + "/adapter";
  return start;
}

absl::StatusOr<StartingPolicy> FromRun(const std::string& run, const policy::DecoderOptions& options) {
  if (FileExists(run + "/adapter/adapter_config.json")) return FromAdapterRun(run, options);
  for (const char* phase : {"/checkpoint/rl", "/checkpoint/sft"}) {
    const std::string newest = trainer::NewestCheckpoint(run + phase);
    if (!newest.empty()) return FromCheckpoint(newest, options);
  }
  return FromHfFolder(run + "/policy", options);
}

}  // namespace

absl::StatusOr<StartingPolicy> LoadStart(const std::string& start, const policy::DecoderOptions& options) {
  const std::string path = WithoutSlash(start);
  if (FileExists(path + "/COMMIT")) return FromCheckpoint(path, options);
  if (FileExists(path + "/config.yaml") && FileExists(path + "/policy")) return FromRun(path, options);
  if (FileExists(path + "/config.json")) return FromHfFolder(path, options);
  return absl::NotFoundError(absl::StrCat("policy.start: ", path,
                                          " is no HF folder (config.json), no run (config.yaml, policy/) and no checkpoint "
                                          "(COMMIT)"));
}

absl::StatusOr<StartingPolicy> StartWithoutWeights(const std::string& folder, const policy::DecoderOptions& options) {
  const std::string path = folder + "/config.json";
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  HONE_ASSIGN_OR_RETURN(const policy::ModelConfig config, policy::ModelConfigFromHf(text, path));
  HONE_ASSIGN_OR_RETURN(auto decoder, policy::Decoder::Create(config, options));
  return StartingPolicy{std::move(decoder), folder};
}

absl::StatusOr<std::map<std::string, std::string>> ReadPolicyFiles(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : kCopied) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (!FileExists(path)) continue;
    HONE_ASSIGN_OR_RETURN(files[name], ReadFile(path));
  }
  return files;
}

at::ScalarType TypeNamed(const std::string& dtype) {
  return dtype == "bf16" ? at::kBFloat16 : dtype == "fp16" ? at::kHalf : at::kFloat;
}

absl::Status CopyPolicyFiles(const std::string& from, const std::string& to) {
  HONE_RETURN_IF_ERROR(MakeFolders(to));
  HONE_ASSIGN_OR_RETURN(const auto files, ReadPolicyFiles(from));
  for (const auto& [name, bytes] : files) HONE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(to, "/", name), bytes));
  return absl::OkStatus();
}

}  // namespace hone::cli

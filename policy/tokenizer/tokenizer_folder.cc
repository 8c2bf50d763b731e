// Tokenizer::Load: tokenizer.json and the files beside it that name special ids.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "policy/tokenizer/tokenizer.h"

namespace hone::policy {
namespace {

using Json = nlohmann::json;

constexpr int64_t kJsonLimitBytes = int64_t{1} << 29;

/// An empty object where there is no such file.
absl::StatusOr<Json> ReadJsonIfPresent(const std::string& path) {
  if (!FileExists(path)) return Json::object();
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kJsonLimitBytes));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path, ": is not a JSON object"));
  return json;
}

/// "bos_token": "<bos>", or {"content": "<bos>", ..}.
std::optional<int32_t> NamedToken(const Tokenizer& tokenizer, const Json& config, const char* key) {
  const auto at = config.find(key);
  if (at == config.end()) return std::nullopt;
  if (at->is_string()) return tokenizer.IdOf(at->get<std::string>());
  const bool has_content = at->is_object() && at->contains("content") && (*at)["content"].is_string();
  return has_content ? tokenizer.IdOf((*at)["content"].get<std::string>()) : std::nullopt;
}

/// "eos_token_id": 1, or [1, 106].
std::vector<int32_t> Ids(const Json& config, const char* key) {
  std::vector<int32_t> ids;
  const auto at = config.find(key);
  if (at == config.end()) return ids;
  if (at->is_number_integer()) ids.push_back(at->get<int32_t>());
  if (!at->is_array()) return ids;
  for (const Json& id : *at) {
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Tokenizer::SpecialIds FindSpecialIds(const Tokenizer& tokenizer, const Json& tokenizer_config, const Json& generation) {
  Tokenizer::SpecialIds special;
  special.bos = NamedToken(tokenizer, tokenizer_config, "bos_token");
  special.pad = NamedToken(tokenizer, tokenizer_config, "pad_token");
  special.eos = Ids(generation, "eos_token_id");
  const std::optional<int32_t> eos = NamedToken(tokenizer, tokenizer_config, "eos_token");
  if (eos && std::find(special.eos.begin(), special.eos.end(), *eos) == special.eos.end()) special.eos.push_back(*eos);
  if (const auto bos = Ids(generation, "bos_token_id"); !special.bos && !bos.empty()) special.bos = bos.front();
  if (const auto pad = Ids(generation, "pad_token_id"); !special.pad && !pad.empty()) special.pad = pad.front();
  return special;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::string file = is_folder ? absl::StrCat(path, "/tokenizer.json") : path;
  HONE_ASSIGN_OR_RETURN(std::string json, ReadFile(file, kJsonLimitBytes));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, FromJson(std::move(json), file));
  if (!is_folder) return tokenizer;
  HONE_ASSIGN_OR_RETURN(const Json config, ReadJsonIfPresent(absl::StrCat(path, "/tokenizer_config.json")));
  HONE_ASSIGN_OR_RETURN(const Json generation, ReadJsonIfPresent(absl::StrCat(path, "/generation_config.json")));
  tokenizer->set_special_ids(FindSpecialIds(*tokenizer, config, generation));
  return tokenizer;
}

}  // namespace hone::policy

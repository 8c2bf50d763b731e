#include "policy/model/hf_config.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace hone::policy {
namespace families {

using Json = nlohmann::json;

const Json* Fields::Find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::Fail(const std::string& message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(name_, ": ", message));
}

int64_t Fields::Int(const char* key) {
  if (Find(key) == nullptr) Fail(absl::StrCat(key, " is missing"));
  return Int(key, 0);
}

int64_t Fields::Int(const char* key, int64_t otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer()) Fail(absl::StrCat(key, " = ", value->dump(), ", must be an integer"));
  return value->is_number_integer() ? value->get<int64_t>() : otherwise;
}

double Fields::Number(const char* key, double otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) Fail(absl::StrCat(key, " = ", value->dump(), ", must be a number"));
  return value->is_number() ? value->get<double>() : otherwise;
}

bool Fields::Bool(const char* key, bool otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) Fail(absl::StrCat(key, " = ", value->dump(), ", must be true or false"));
  return value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string Fields::Text(const char* key, const std::string& otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) Fail(absl::StrCat(key, " = ", value->dump(), ", must be a string"));
  return value->is_string() ? value->get<std::string>() : otherwise;
}

const Json* Fields::Object(const char* key) const {
  const Json* value = Find(key);
  return value != nullptr && value->is_object() ? value : nullptr;
}

const Json* Fields::Array(const char* key) const {
  const Json* value = Find(key);
  return value != nullptr && value->is_array() ? value : nullptr;
}

namespace {

void ReadScaling(const Json& object, const std::string& name, Fields& outer, RopeConfig& rope) {
  Fields fields(object, name);
  rope.theta = fields.Number("rope_theta", rope.theta);
  const std::string kind = fields.Text("rope_type", fields.Text("type", "default"));
  if (kind == "llama3") {
    rope.scaling = {fields.Number("factor", 1), fields.Number("low_freq_factor", 1), fields.Number("high_freq_factor", 4),
                    fields.Int("original_max_position_embeddings", 8192), false};
  } else if (kind == "linear") {
    rope.scaling.factor = fields.Number("factor", 1);
    rope.scaling.linear = true;
  } else if (kind != "default") {
    fields.Fail(absl::StrCat("rope_type = \"", kind, "\", supported: default, linear, llama3"));
  }
  if (!fields.status().ok()) outer.Fail(std::string(fields.status().message()));
}

}  // namespace

void ReadRope(Fields& fields, double otherwise, RopeConfig& rope) {
  rope.theta = fields.Number("rope_theta", otherwise);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (const Json* object = fields.Object(key); object != nullptr) ReadScaling(*object, key, fields, rope);
  }
}

void ReadCommon(Fields& fields, ModelConfig& c) {
  c.vocab_size = fields.Int("vocab_size");
  c.hidden_size = fields.Int("hidden_size");
  c.intermediate_size = fields.Int("intermediate_size");
  c.num_hidden_layers = fields.Int("num_hidden_layers");
  c.num_attention_heads = fields.Int("num_attention_heads");
  c.num_key_value_heads = fields.Int("num_key_value_heads", c.num_attention_heads);
  c.head_dim = fields.Int("head_dim", c.num_attention_heads > 0 ? c.hidden_size / c.num_attention_heads : 0);
  c.max_position_embeddings = fields.Int("max_position_embeddings");
  c.rms_norm_eps = fields.Number("rms_norm_eps", 1e-6);
  c.initializer_range = fields.Number("initializer_range", 0.02);
  ReadRope(fields, 10000, c.rope);
  if (const Json* ends = fields.Array("eos_token_id"); ends != nullptr) {
    for (const Json& id : *ends) {
      if (id.is_number_integer()) c.eos_token_ids.push_back(id.get<int32_t>());
    }
  } else if (const int64_t end = fields.Int("eos_token_id", -1); end >= 0) {
    c.eos_token_ids.push_back(static_cast<int32_t>(end));
  }
}

}  // namespace families

namespace {

struct Family {
  const char* model_type;
  void (*read)(families::Fields&, ModelConfig&);
};
constexpr Family kFamilies[] = {{"llama", families::ReadLlama},
                                {"qwen2", families::ReadQwen2},
                                {"qwen3", families::ReadQwen3},
                                {"gemma3_text", families::ReadGemma3}};

}  // namespace

std::vector<std::string> KnownModelTypes() {
  std::vector<std::string> out;
  for (const Family& family : kFamilies) out.push_back(family.model_type);
  return out;
}

absl::StatusOr<ModelConfig> ModelConfigFromHf(absl::string_view text, const std::string& name) {
  const nlohmann::json whole = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object()) return absl::InvalidArgumentError(absl::StrCat(name, ": not a JSON object"));
  families::Fields fields(whole, name);
  const std::string type = fields.Text("model_type", "");
  HONE_RETURN_IF_ERROR(fields.status());
  for (const Family& family : kFamilies) {
    if (type != family.model_type) continue;
    ModelConfig config;
    config.family = type;
    families::ReadCommon(fields, config);
    family.read(fields, config);
    HONE_RETURN_IF_ERROR(fields.status());
    if (absl::Status status = Validate(config); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
    }
    return config;
  }
  return absl::UnimplementedError(absl::StrCat(name, ": model_type = \"", type, "\", supported: ",
                                               absl::StrJoin(KnownModelTypes(), ", ")));
}

}  // namespace hone::policy

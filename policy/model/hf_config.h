#pragma once

// HF's config.json into ModelConfig. No torch.
//
// To add a family: one file in families/ with a function that reads what is its own on top of ReadCommon, one line in
// the table of hf_config.cc, reference logits by tests/policy/model/make_reference.py.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "policy/model/config.h"

namespace hone::policy {

/// `text` is a config.json; `name` stands for it in messages. kInvalidArgument: not JSON, a missing or mistyped field
/// (named), or a feature that the family does not support here. kUnimplemented: an unknown model_type (lists the known).
absl::StatusOr<ModelConfig> ModelConfigFromHf(absl::string_view text, const std::string& name);

/// model_type values that ModelConfigFromHf knows.
std::vector<std::string> KnownModelTypes();

namespace families {

/// Typed reading of one JSON object; remembers the first error.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string name) : object_(object), name_(std::move(name)) {}
  int64_t Int(const char* key);                          // required
  int64_t Int(const char* key, int64_t otherwise);       // absent or null: otherwise
  double Number(const char* key, double otherwise);
  bool Bool(const char* key, bool otherwise);
  std::string Text(const char* key, const std::string& otherwise);
  const nlohmann::json* Object(const char* key) const;   // nullptr: absent or null
  const nlohmann::json* Array(const char* key) const;
  const std::string& name() const { return name_; }
  void Fail(const std::string& message);
  absl::Status status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* key) const;

  const nlohmann::json& object_;
  std::string name_;
  absl::Status status_;
};

/// Sizes, norm epsilon, rope_theta and scaling, tied embeddings, end tokens: what all families share.
void ReadCommon(Fields& fields, ModelConfig& config);
/// rope_parameters (transformers 5) or rope_theta and rope_scaling into `rope`.
void ReadRope(Fields& fields, double otherwise, RopeConfig& rope);

void ReadLlama(Fields& fields, ModelConfig& config);
void ReadQwen2(Fields& fields, ModelConfig& config);
void ReadQwen3(Fields& fields, ModelConfig& config);
void ReadGemma3(Fields& fields, ModelConfig& config);

}  // namespace families
}  // namespace hone::policy

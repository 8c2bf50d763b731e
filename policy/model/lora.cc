#include "policy/model/lora.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "policy/model/torch_status.h"
#include "policy/weights/safetensors.h"
#include "policy/weights/torch_weights.h"

namespace hone::policy {
namespace {

using Json = nlohmann::json;

constexpr char kPrefix[] = "base_model.model.";

// A fused leaf and the modules that are its rows.
struct FusedModule {
  const char* leaf;
  int64_t in;
  struct Part {
    const char* block;  // "self_attn" or "mlp"
    const char* name;
    int64_t rows;
  };
  std::vector<Part> parts;
};

std::vector<FusedModule> Modules(const ModelConfig& c) {
  const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  return {{"self_attn.qkv_proj",
           c.hidden_size,
           {{"self_attn", "q_proj", q}, {"self_attn", "k_proj", kv}, {"self_attn", "v_proj", kv}}},
          {"self_attn.o_proj", q, {{"self_attn", "o_proj", c.hidden_size}}},
          {"mlp.gate_up_proj",
           c.hidden_size,
           {{"mlp", "gate_proj", c.intermediate_size}, {"mlp", "up_proj", c.intermediate_size}}},
          {"mlp.down_proj", c.intermediate_size, {{"mlp", "down_proj", c.hidden_size}}}};
}

const std::set<std::string>& KnownTargets() {
  static const std::set<std::string> known = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                              "gate_proj", "up_proj", "down_proj"};
  return known;
}

absl::StatusOr<LoraOptions> ReadConfig(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto bad = [&](auto&&... parts) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", parts...)); };
  if (!json.is_object()) return bad("not a JSON object");
  if (json.contains("peft_type") && TextOr(json, "peft_type") != "LORA") return bad("peft_type is not LORA");
  for (const char* flag : {"use_rslora", "use_dora", "fan_in_fan_out"}) {
    if (json.contains(flag) && json[flag].is_boolean() && json[flag].get<bool>())
      return bad(flag, " = true is not supported");
  }
  for (const char* map : {"rank_pattern", "alpha_pattern"}) {
    if (json.contains(map) && json[map].is_object() && !json[map].empty()) return bad(map, " is not supported");
  }
  if (json.contains("modules_to_save") && json["modules_to_save"].is_array() && !json["modules_to_save"].empty()) {
    return bad("modules_to_save is not supported");
  }
  LoraOptions options;
  if (!json.contains("r") || !json["r"].is_number_integer()) return bad("r is missing");
  if (!json.contains("lora_alpha") || !json["lora_alpha"].is_number()) return bad("lora_alpha is missing");
  if (!json.contains("target_modules") || !json["target_modules"].is_array())
    return bad("target_modules is not a list of names");
  options.rank = json["r"].get<int64_t>();
  options.alpha = json["lora_alpha"].get<double>();
  options.targets.clear();
  for (const Json& name : json["target_modules"]) {
    if (!name.is_string()) return bad("target_modules holds something that is not a name");
    options.targets.push_back(name.get<std::string>());
  }
  if (const absl::Status status = Validate(options); !status.ok()) return bad(status.message());
  return options;
}

}  // namespace

absl::Status Validate(const LoraOptions& o) {
  if (o.rank < 1 || o.rank > 1024)
    return absl::InvalidArgumentError(absl::StrCat("lora: rank = ", o.rank, ", allowed [1, 1024]"));
  if (!(o.alpha > 0)) return absl::InvalidArgumentError(absl::StrCat("lora: alpha = ", o.alpha, ", allowed > 0"));
  if (o.targets.empty()) return absl::InvalidArgumentError("lora: targets is empty");
  for (const std::string& target : o.targets) {
    if (KnownTargets().count(target) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("lora: target \"", target, "\", allowed ", absl::StrJoin(KnownTargets(), ", ")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Lora>> Lora::Create(const ModelConfig& config, const LoraOptions& options,
                                                   const at::TensorOptions& tensors, uint64_t seed) {
  HONE_RETURN_IF_ERROR(Validate(options));
  std::unique_ptr<Lora> lora(new Lora(options));
  const auto covered = [&](const std::string& name) {
    return std::find(options.targets.begin(), options.targets.end(), name) != options.targets.end();
  };
  HONE_RETURN_IF_ERROR(
      CatchTorch("lora", [&] {
        at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
        for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
          const std::string prefix = absl::StrCat("model.layers.", layer, ".");
          for (const FusedModule& module : Modules(config)) {
            LowRank low;
            low.scale = options.alpha / static_cast<double>(options.rank);
            int64_t row = 0;
            std::vector<std::string> names;
            for (const FusedModule::Part& part : module.parts) {
              if (covered(part.name)) {
                low.parts.push_back({row, part.rows, at::zeros({part.rows, options.rank}, tensors)});
                names.push_back(absl::StrCat(kPrefix, prefix, part.block, ".", part.name));
              }
              row += part.rows;
            }
            if (low.parts.empty()) continue;
            const int64_t parts = static_cast<int64_t>(low.parts.size());
            const double bound = 1 / std::sqrt(static_cast<double>(module.in));
            low.down =
                (at::rand({parts * options.rank, module.in}, generator, at::TensorOptions(at::kFloat)) * (2 * bound) -
                 bound)
                    .to(tensors);
            const std::string leaf = absl::StrCat(prefix, module.leaf);
            lora->leaves_.push_back({absl::StrCat(leaf, ".lora_A"), low.down.requires_grad_(), false});
            for (int64_t p = 0; p < parts; ++p) {
              at::Tensor& up = low.parts[p].up;
              lora->leaves_.push_back({absl::StrCat(names[p], ".lora_B"), up.requires_grad_(), false});
              lora->named_.push_back({absl::StrCat(names[p], ".lora_A.weight"),
                                      low.down.detach().narrow(0, p * options.rank, options.rank)});
              lora->named_.push_back({absl::StrCat(names[p], ".lora_B.weight"), up.detach()});
            }
            lora->by_leaf_.emplace(absl::StrCat(leaf, ".weight"), std::move(low));
          }
        }
        return true;
      }).status());
  return lora;
}

absl::StatusOr<std::unique_ptr<Lora>> Lora::Load(const ModelConfig& config, const std::string& folder,
                                                 const at::TensorOptions& tensors) {
  HONE_ASSIGN_OR_RETURN(const LoraOptions options, ReadConfig(absl::StrCat(folder, "/adapter_config.json")));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Lora> lora, Create(config, options, tensors, 0));
  HONE_ASSIGN_OR_RETURN(const auto file, Safetensors::Open(absl::StrCat(folder, "/adapter_model.safetensors")));
  std::vector<std::string> names;
  for (const NamedTensor& named : lora->named_) names.push_back(named.name);
  HONE_RETURN_IF_ERROR(file->RequireNames(names));
  at::NoGradGuard no_grad;
  for (NamedTensor& named : lora->named_) {
    const at::Tensor given = BorrowAsTensor(*file->Find(named.name));
    if (given.sizes() != named.tensor.sizes()) {
      return absl::InvalidArgumentError(absl::StrCat(folder, ": ", named.name, " has shape [",
                                                     absl::StrJoin(given.sizes(), ", "), "], the model needs [",
                                                     absl::StrJoin(named.tensor.sizes(), ", "), "]"));
    }
    HONE_RETURN_IF_ERROR(CatchTorch("lora", [&] {
                           named.tensor.copy_(given);
                           return true;
                         }).status());
  }
  return lora;
}

absl::Status Lora::Save(const std::string& folder, const std::string& base) const {
  HONE_RETURN_IF_ERROR(MakeFolders(folder));
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const NamedTensor& named : named_) tensors.emplace_back(named.name, named.tensor);
  HONE_ASSIGN_OR_RETURN(const absl::Status written, CatchTorch("lora", [&] {
                          return WriteTensors(absl::StrCat(folder, "/adapter_model.safetensors"), tensors);
                        }));
  HONE_RETURN_IF_ERROR(written);
  const Json config{{"peft_type", "LORA"},
                    {"task_type", "CAUSAL_LM"},
                    {"r", options_.rank},
                    {"lora_alpha", options_.alpha},
                    {"lora_dropout", 0.0},
                    {"bias", "none"},
                    {"fan_in_fan_out", false},
                    {"use_rslora", false},
                    {"target_modules", options_.targets},
                    {"base_model_name_or_path", base},
                    {"inference_mode", true}};
  return WriteFileAtomically(absl::StrCat(folder, "/adapter_config.json"), absl::StrCat(config.dump(2), "\n"));
}

const LowRank* Lora::Find(const std::string& leaf) const {
  const auto found = by_leaf_.find(leaf);
  return found == by_leaf_.end() ? nullptr : &found->second;
}

void Lora::MergeInto(Parameters& parameters) const {
  at::NoGradGuard no_grad;
  for (const auto& [leaf, low] : by_leaf_) {
    at::Tensor weight = parameters.leaf(leaf).detach();
    for (size_t p = 0; p < low.parts.size(); ++p) {
      const at::Tensor down = low.down.narrow(0, static_cast<int64_t>(p) * low.rank(), low.rank());
      at::Tensor rows = weight.narrow(0, low.parts[p].begin, low.parts[p].rows);
      rows.copy_(rows.to(at::kFloat) + at::mm(low.parts[p].up.to(at::kFloat), down.to(at::kFloat)) * low.scale);
    }
  }
}

}  // namespace hone::policy

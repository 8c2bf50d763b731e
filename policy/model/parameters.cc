#include "policy/model/parameters.h"

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace hone::policy {
namespace {

constexpr char kLayers[] = "model.layers.";
constexpr int64_t kAlignment = 32;  // numbers; leaves start on cache lines in every dtype

struct Part {
  std::string name;
  int64_t rows;
};

struct LeafPlan {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<Part> parts;  // rows of the leaf, in order, under their HF names
};

LeafPlan Whole(const std::string& name, std::vector<int64_t> shape) {
  const int64_t rows = shape[0];
  return {name, std::move(shape), {{name, rows}}};
}

void PlanAttention(const ModelConfig& c, const std::string& layer, std::vector<LeafPlan>& plan) {
  const std::string prefix = absl::StrCat(layer, "self_attn.");
  const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  const auto parts = [&](const char* kind) {
    return std::vector<Part>{{absl::StrCat(prefix, "q_proj.", kind), q},
                             {absl::StrCat(prefix, "k_proj.", kind), kv},
                             {absl::StrCat(prefix, "v_proj.", kind), kv}};
  };
  plan.push_back({absl::StrCat(prefix, "qkv_proj.weight"), {q + 2 * kv, c.hidden_size}, parts("weight")});
  if (c.attention_bias) plan.push_back({absl::StrCat(prefix, "qkv_proj.bias"), {q + 2 * kv}, parts("bias")});
  plan.push_back(Whole(absl::StrCat(prefix, "o_proj.weight"), {c.hidden_size, q}));
  if (c.query_key_norm) {
    plan.push_back(Whole(absl::StrCat(prefix, "q_norm.weight"), {c.head_dim}));
    plan.push_back(Whole(absl::StrCat(prefix, "k_norm.weight"), {c.head_dim}));
  }
}

std::vector<LeafPlan> Plan(const ModelConfig& c) {
  std::vector<LeafPlan> plan;
  plan.push_back(Whole("model.embed_tokens.weight", {c.vocab_size, c.hidden_size}));
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    PlanAttention(c, layer, plan);
    plan.push_back({absl::StrCat(layer, "mlp.gate_up_proj.weight"),
                    {2 * c.intermediate_size, c.hidden_size},
                    {{absl::StrCat(layer, "mlp.gate_proj.weight"), c.intermediate_size},
                     {absl::StrCat(layer, "mlp.up_proj.weight"), c.intermediate_size}}});
    plan.push_back(Whole(absl::StrCat(layer, "mlp.down_proj.weight"), {c.hidden_size, c.intermediate_size}));
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"}) {
      plan.push_back(Whole(absl::StrCat(layer, norm), {c.hidden_size}));
    }
    if (!c.norm_after_blocks) continue;
    for (const char* norm : {"pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"}) {
      plan.push_back(Whole(absl::StrCat(layer, norm), {c.hidden_size}));
    }
  }
  plan.push_back(Whole("model.norm.weight", {c.hidden_size}));
  if (!c.tie_word_embeddings) plan.push_back(Whole("lm_head.weight", {c.vocab_size, c.hidden_size}));
  return plan;
}

int64_t Elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t Padded(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

absl::StatusOr<std::unique_ptr<Parameters>> Parameters::Create(const ModelConfig& config,
                                                               const at::TensorOptions& options, bool separate_layers) {
  HONE_RETURN_IF_ERROR(Validate(config));
  std::unique_ptr<Parameters> parameters(new Parameters(config));
  const std::vector<LeafPlan> plan = Plan(config);
  // One unit, or one for each layer and a last one for the rest.
  const size_t units = separate_layers ? static_cast<size_t>(config.num_hidden_layers) + 1 : 1;
  const auto unit_of = [&](const std::string& name) {
    int64_t layer = 0;
    const bool in_layer = separate_layers && absl::StartsWith(name, kLayers) &&
                          absl::SimpleAtoi(name.substr(sizeof(kLayers) - 1, name.find('.', sizeof(kLayers) - 1) - (sizeof(kLayers) - 1)), &layer);
    return in_layer ? static_cast<size_t>(layer) : units - 1;
  };
  std::vector<int64_t> sizes(units, 0), offsets(units, 0);
  for (const LeafPlan& leaf : plan) sizes[unit_of(leaf.name)] += Padded(Elements(leaf.shape));
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  try {
    std::vector<at::Tensor> flats;
    for (int64_t size : sizes) flats.push_back(at::zeros({size}, options));
    if (separate_layers) {
      for (const at::Tensor& flat : flats) parameters->units_.push_back({{}, flat});
    } else {
      parameters->flat_ = flats[0];
    }
    for (const LeafPlan& leaf : plan) {
      const size_t unit = unit_of(leaf.name);
      const int64_t elements = Elements(leaf.shape);
      const at::Tensor view = flats[unit].narrow(0, offsets[unit], elements).view(leaf.shape);
      parameters->leaves_.push_back({leaf.name, view.detach().requires_grad_(true), leaf.shape.size() > 1});
      if (separate_layers) parameters->units_[unit].leaves.push_back(parameters->leaves_.back());
      int64_t row = 0;
      for (const Part& part : leaf.parts) {
        parameters->named_.push_back({part.name, view.narrow(0, row, part.rows)});
        row += part.rows;
      }
      offsets[unit] += Padded(elements);
      parameters->count_ += elements;
    }
  } catch (const c10::Error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("weights of ", total, " numbers: ", error.what_without_backtrace()));
  }
  return parameters;
}

void Parameters::Initialize(uint64_t seed) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const double residual = 1.0 / std::sqrt(2.0 * static_cast<double>(config_.num_hidden_layers));
  at::NoGradGuard no_grad;
  for (NamedTensor& named : named_) {
    if (absl::EndsWith(named.name, "norm.weight")) {
      named.tensor.fill_(config_.norm_adds_one ? 0.0 : 1.0);
    } else if (absl::EndsWith(named.name, ".bias")) {
      named.tensor.zero_();
    } else {
      const bool is_residual = absl::EndsWith(named.name, "o_proj.weight") || absl::EndsWith(named.name, "down_proj.weight");
      const at::Tensor draw = at::randn(named.tensor.sizes(), generator, at::TensorOptions(at::kFloat));
      named.tensor.copy_(draw.mul_(config_.initializer_range * (is_residual ? residual : 1.0)));
    }
  }
}

const at::Tensor& Parameters::leaf(const std::string& name) const {
  for (const Leaf& leaf : leaves_) {
    if (leaf.name == name) return leaf.value;
  }
  HONE_CHECK(false && "no such leaf");
  return flat_;
}

absl::Status Parameters::Load(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, at::Tensor> wanted;
  for (const NamedTensor& named : named_) wanted[named.name] = named.tensor;
  std::set<std::string> seen;
  for (const NamedTensor& given : tensors) {
    if (given.name == "lm_head.weight" && config_.tie_word_embeddings) continue;
    const auto found = wanted.find(given.name);
    if (found == wanted.end()) return absl::InvalidArgumentError(absl::StrCat("weight ", given.name, " is not part of the model"));
    if (found->second.sizes() != given.tensor.sizes()) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", given.name, " has shape [",
                                                     absl::StrJoin(given.tensor.sizes(), ", "), "], the model needs [",
                                                     absl::StrJoin(found->second.sizes(), ", "), "]"));
    }
    if (!seen.insert(given.name).second) return absl::InvalidArgumentError(absl::StrCat("weight ", given.name, " is given twice"));
  }
  for (const auto& [name, tensor] : wanted) {
    if (seen.count(name) == 0) return absl::InvalidArgumentError(absl::StrCat("weight ", name, " is missing"));
  }
  at::NoGradGuard no_grad;
  for (const NamedTensor& given : tensors) {
    if (seen.count(given.name) != 0) wanted[given.name].copy_(given.tensor);
  }
  return absl::OkStatus();
}

}  // namespace hone::policy

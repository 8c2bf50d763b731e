#include "policy/model/decoder.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/model/torch_status.h"

namespace hone::policy {
namespace {

using at::Tensor;

// Inverse wavelengths of the rotation. Llama 3.1's scaling: arXiv 2407.21783 as in HF's rope_type "llama3".
Tensor InverseFrequencies(const RopeConfig& rope, int64_t head_dim) {
  const int64_t half = head_dim / 2;
  Tensor out = at::empty({half}, at::kDouble);
  double* f = out.mutable_data_ptr<double>();
  const RopeScaling& s = rope.scaling;
  constexpr double kTwoPi = 6.283185307179586;
  for (int64_t i = 0; i < half; ++i) {
    const double plain = 1.0 / std::pow(rope.theta, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    f[i] = plain;
    if (s.factor == 1) continue;
    if (s.linear) {
      f[i] = plain / s.factor;
      continue;
    }
    const double turns = static_cast<double>(s.original_max_positions) * plain / kTwoPi;  // over the original context
    if (turns > s.high_freq_factor) continue;
    const double smooth = turns < s.low_freq_factor ? 0 : (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    f[i] = (1 - smooth) * plain / s.factor + smooth * plain;
  }
  return out;
}

absl::Status CheckRange(const Tensor& values, int64_t limit, const char* what) {
  if (!values.device().is_cpu() || values.numel() == 0) return absl::OkStatus();
  const int64_t* v = values.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (v[i] < 0 || v[i] >= limit) {
      return absl::InvalidArgumentError(absl::StrCat(what, " ", v[i], " of token ", i, " is outside [0, ", limit, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(const ModelConfig& config, const DecoderOptions& options) {
  if (options.fp32_activations && !(options.device.is_cpu() && options.dtype == at::kBFloat16)) {
    return absl::InvalidArgumentError("fp32_activations goes with bf16 weights on the CPU");
  }
  std::unique_ptr<Decoder> decoder(new Decoder(config, options));
  HONE_ASSIGN_OR_RETURN(decoder->parameters_,
                        Parameters::Create(config, at::TensorOptions(options.device).dtype(options.dtype), options.separate_layers));
  decoder->BindLayers();
  decoder->inverse_frequencies_ = InverseFrequencies(config.rope, config.head_dim);
  decoder->local_inverse_frequencies_ = InverseFrequencies(config.local_rope, config.head_dim);
  return decoder;
}

void Decoder::BindLayers() {
  const Parameters& p = *parameters_;
  embedding_ = p.leaf("model.embed_tokens.weight");
  head_ = config_.tie_word_embeddings ? embedding_ : p.leaf("lm_head.weight");
  final_norm_ = p.leaf("model.norm.weight");
  layers_.resize(config_.num_hidden_layers);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const auto leaf = [&](const char* name) { return p.leaf(absl::StrCat("model.layers.", i, ".", name)); };
    Layer& layer = layers_[i];
    layer.local = config_.IsLocal(i);
    layer.shape = {config_.num_attention_heads, config_.num_key_value_heads, config_.head_dim, config_.Scale(),
                   layer.local ? config_.sliding_window : 0};
    layer.input_norm = leaf("input_layernorm.weight");
    layer.qkv.weight = leaf("self_attn.qkv_proj.weight");
    if (config_.attention_bias) layer.qkv.bias = leaf("self_attn.qkv_proj.bias");
    if (config_.query_key_norm) {
      layer.query_norm = leaf("self_attn.q_norm.weight");
      layer.key_norm = leaf("self_attn.k_norm.weight");
    }
    layer.output.weight = leaf("self_attn.o_proj.weight");
    layer.gate_up.weight = leaf("mlp.gate_up_proj.weight");
    layer.down.weight = leaf("mlp.down_proj.weight");
    if (config_.norm_after_blocks) {
      layer.attention_norm = leaf("post_attention_layernorm.weight");
      layer.mlp_norm = leaf("pre_feedforward_layernorm.weight");
      layer.mlp_after = leaf("post_feedforward_layernorm.weight");
    } else {
      layer.mlp_norm = leaf("post_attention_layernorm.weight");
    }
  }
}

Tensor Decoder::Norm(const Tensor& x, const Tensor& weight) const {
  return RmsNorm(x, options_.fp32_activations ? weight.to(at::kFloat) : weight, config_.norm_adds_one ? 1.0 : 0.0, config_.rms_norm_eps);
}

Tensor Decoder::NormalizeHeads(const Tensor& qkv, const Layer& layer) const {
  const int64_t tokens = qkv.size(0), q = layer.shape.heads * layer.shape.head_dim, k = layer.shape.kv_heads * layer.shape.head_dim;
  const auto norm = [&](int64_t from, int64_t width, const Tensor& weight) {
    return Norm(qkv.narrow(1, from, width).reshape({-1, layer.shape.head_dim}), weight).view({tokens, width});
  };
  return at::cat({norm(0, q, layer.query_norm), norm(q, k, layer.key_norm), qkv.narrow(1, q + k, k)}, 1);
}

Decoder::Angles Decoder::AnglesFor(const Tensor& positions, const Tensor& inverse_frequencies) const {
  const Tensor angles = positions.to(at::kDouble).unsqueeze(1) * inverse_frequencies.to(positions.device()).unsqueeze(0);
  const at::ScalarType dtype = embedding_.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {angles.cos().to(dtype), angles.sin().to(dtype)};
}

Prologue Decoder::NormFirst(const Tensor& weight) const {
  return {Prologue::Kind::kRmsNorm, weight, config_.norm_adds_one ? 1.0 : 0.0, config_.rms_norm_eps};
}

Tensor Decoder::Apply(Matrix& matrix, const Tensor& x, const Prologue& prologue) {
  if (!UsesCpuKernels(x)) return Project(x, prologue, matrix.weight, matrix.bias, matrix.low_rank);
  Tensor h = x;
  if (prologue.kind == Prologue::Kind::kRmsNorm) h = Norm(x, prologue.norm);
  if (prologue.kind == Prologue::Kind::kGated) h = GatedActivation(x, prologue.activation);
  const Tensor y = Linear(h, matrix.weight, matrix.bias, matrix.packed);
  return matrix.low_rank == nullptr ? y : y + LowRankRows(h, *matrix.low_rank, y.size(1));
}

// Heads normalised where the model does that, and rotated.
Tensor Decoder::Turn(const Tensor& qkv, const Layer& layer, const Angles& angles) const {
  const AttentionShape& shape = layer.shape;
  if (!UsesCpuKernels(qkv)) {
    return NormRotate(qkv, {layer.query_norm, layer.key_norm, config_.norm_adds_one ? 1.0 : 0.0, config_.rms_norm_eps}, angles.cos,
                      angles.sin, shape);
  }
  const Tensor normed = config_.query_key_norm ? NormalizeHeads(qkv, layer) : qkv;
  return Rope(normed, angles.cos, angles.sin, shape.heads + shape.kv_heads, shape.head_dim);
}

Tensor Decoder::Block(int64_t index, const Tensor& x, const Angles& angles, Attention& attention) {
  Layer& layer = layers_[index];
  const Tensor qkv = Turn(Apply(layer.qkv, x, NormFirst(layer.input_norm)), layer, angles);
  Tensor mixed = Apply(layer.output, attention.Attend(index, qkv, layer.shape), {});
  if (config_.norm_after_blocks) mixed = Norm(mixed, layer.attention_norm);
  const Tensor middle = x + mixed;
  Prologue gated;
  gated.kind = Prologue::Kind::kGated;
  gated.activation = config_.activation;
  Tensor out = Apply(layer.down, Apply(layer.gate_up, middle, NormFirst(layer.mlp_norm)), gated);
  if (config_.norm_after_blocks) out = Norm(out, layer.mlp_after);
  return middle + out;
}

// A layer whose insides are forgotten and computed again when its gradient is wanted.
struct Decoder::Recomputed : public torch::autograd::Function<Decoder::Recomputed> {
  struct Call : torch::CustomClassHolder {
    Decoder* decoder;
    int64_t index;
    Angles angles;
    std::shared_ptr<Attention> attention;
  };
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const c10::intrusive_ptr<Call>& call) {
    ctx->save_for_backward({x});
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return call->decoder->Block(call->index, x, call->angles, *call->attention);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    const auto call = c10::static_intrusive_pointer_cast<Call>(ctx->saved_data["call"].toCapsule());
    const Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_();
    at::AutoGradMode with_gradients(true);
    torch::autograd::backward({call->decoder->Block(call->index, x, call->angles, *call->attention)}, {grads[0]});
    return {x.grad(), Tensor()};
  }
};

// The identity, whose backward pass tells the hooks that it has come to a layer, or is through with it.
struct Border : public torch::autograd::Function<Border> {
  struct Call : torch::CustomClassHolder {
    LayerHooks* hooks;
    int64_t layer;
    bool at_end;  // of the layer, where its backward pass starts
  };
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, LayerHooks* hooks, int64_t layer, bool at_end) {
    auto call = c10::make_intrusive<Call>();
    call->hooks = hooks, call->layer = layer, call->at_end = at_end;
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return x.view(x.sizes());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    const auto call = c10::static_intrusive_pointer_cast<Call>(ctx->saved_data["call"].toCapsule());
    call->at_end ? call->hooks->BeforeLayer(call->layer, true) : call->hooks->AfterLayer(call->layer, true);
    return {grads[0], Tensor(), Tensor(), Tensor()};
  }
};

Tensor Decoder::Layers(Tensor x, const Tensor& positions, Attention& attention, const std::shared_ptr<Attention>& kept, const Watcher* see) {
  const Angles all = AnglesFor(positions, inverse_frequencies_);
  Angles local;
  if (!config_.layer_is_local.empty()) local = AnglesFor(positions, local_inverse_frequencies_);
  const bool borders = hooks_ != nullptr && at::GradMode::is_enabled();
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const Angles& angles = layers_[i].local ? local : all;
    if (hooks_ != nullptr) hooks_->BeforeLayer(i, false);
    if (borders) x = Border::apply(x, hooks_, i, false);
    if (kept == nullptr) {
      x = Block(i, x, angles, attention);
    } else {
      auto call = c10::make_intrusive<Recomputed::Call>();
      call->decoder = this, call->index = i, call->angles = angles, call->attention = kept;
      x = Recomputed::apply(x, call);
    }
    if (borders) x = Border::apply(x, hooks_, i, true);
    if (hooks_ != nullptr) hooks_->AfterLayer(i, false);
    if (see != nullptr) (*see)(absl::StrCat("model.layers.", i), x);
  }
  return x;
}

Tensor Decoder::HiddenOrThrow(const Tensor& ids, const Tensor& positions, Attention& attention, const Watcher* see) {
  const bool learning = at::GradMode::is_enabled();
  if (hooks_ != nullptr) hooks_->BeforePass(learning);
  Tensor x = UsesCpuKernels(embedding_) || options_.fp32_activations ? at::embedding(embedding_, ids) : Embed(embedding_, ids);
  if (options_.fp32_activations) x = x.to(at::kFloat);
  // The scale is rounded to the weights' dtype first, as HF does.
  if (config_.embedding_scale != 1) x = x * at::scalar_tensor(config_.embedding_scale, x.options().requires_grad(false));
  if (see != nullptr) (*see)("model.embed_tokens", x);
  const std::shared_ptr<Attention> kept = learning && options_.checkpoint_activations ? attention.Keep() : nullptr;
  // Adapters, hooks and layers that are computed again act in the backward pass: a graph is needed even where the embedding
  // is frozen.
  if (learning && !x.requires_grad() && (lora_ != nullptr || hooks_ != nullptr || kept != nullptr)) x = x.detach().requires_grad_();
  x = Norm(Layers(x, positions, attention, kept, see), final_norm_);
  if (see != nullptr) (*see)("model.norm", x);
  return x;
}

void Decoder::UseLora(const Lora* lora) {
  lora_ = lora;
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const auto find = [&](const char* name) {
      return lora == nullptr ? nullptr : lora->Find(absl::StrCat("model.layers.", i, ".", name, ".weight"));
    };
    Layer& layer = layers_[i];
    layer.qkv.low_rank = find("self_attn.qkv_proj");
    layer.output.low_rank = find("self_attn.o_proj");
    layer.gate_up.low_rank = find("mlp.gate_up_proj");
    layer.down.low_rank = find("mlp.down_proj");
  }
}

std::vector<Leaf> Decoder::TrainedLeaves() const {
  std::vector<Leaf> trained;
  for (const Leaf& leaf : parameters_->leaves()) {
    if (leaf.value.requires_grad()) trained.push_back(leaf);
  }
  if (lora_ != nullptr) trained.insert(trained.end(), lora_->leaves().begin(), lora_->leaves().end());
  return trained;
}

absl::StatusOr<Tensor> Decoder::Hidden(const Tensor& ids, const Tensor& positions, Attention& attention) {
  HONE_RETURN_IF_ERROR(CheckRange(ids, config_.vocab_size, "id"));
  HONE_RETURN_IF_ERROR(CheckRange(positions, config_.max_position_embeddings, "position"));
  const at::Device device = embedding_.device();
  return CatchTorch("forward", [&] { return HiddenOrThrow(ids.to(device), positions.to(device), attention); });
}

absl::StatusOr<std::string> Decoder::FirstNonFinite(absl::Span<const int32_t> ids) {
  return CatchTorch("looking for the first part that is not finite", [&] {
    at::NoGradGuard no_grad;
    const int64_t length = static_cast<int64_t>(ids.size());
    const at::Device device = embedding_.device();
    const Tensor tokens = at::tensor(at::ArrayRef<int32_t>(ids.data(), ids.size()), at::kInt).to(at::kLong).to(device);
    PackedSequences attention(at::tensor({int64_t{0}, length}, at::kLong));
    std::string first;
    const Watcher see = [&](const std::string& part, const Tensor& output) {
      if (first.empty() && !at::isfinite(output).all().item<bool>()) first = part;
    };
    const Tensor hidden = HiddenOrThrow(tokens, at::arange(length, at::kLong).to(device), attention, &see);
    see("lm_head", Linear(hidden, head_, Tensor(), packed_head_));
    return first;
  });
}

absl::StatusOr<Tensor> Decoder::Logits(const Tensor& hidden) {
  return CatchTorch("logits", [&] {
    const Tensor logits = Linear(hidden, head_, Tensor(), packed_head_);
    return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  });
}

absl::StatusOr<LogProbs> Decoder::TargetLogProbs(const Tensor& hidden, const Tensor& targets, double temperature) {
  return CatchTorch("log-probs", [&] { return TokenLogProbs(hidden, head_, packed_head_, targets.to(hidden.device()), temperature); });
}

}  // namespace hone::policy

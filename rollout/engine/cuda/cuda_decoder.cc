#include "rollout/engine/cuda/cuda_decoder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/model/device.h"
#include "policy/model/torch_status.h"
#include "rollout/engine/cuda/check.h"
#include "rollout/engine/cuda/gemv.h"

namespace hone::rollout::cuda {
namespace {

using at::Tensor;
using Bf16 = __nv_bfloat16;

Bf16* Data(const Tensor& t) { return t.defined() ? static_cast<Bf16*>(t.data_ptr()) : nullptr; }
const int32_t* Ints(const Tensor& t) { return t.const_data_ptr<int32_t>(); }

// A sequence with room for more than this goes through the attention kernel, which cuts it finer.
constexpr int kWholeStepPositions = 4096;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t CudaDecoder::BytesPerPage(const policy::ModelConfig& config) {
  return 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * kPagePositions;
}

absl::StatusOr<std::unique_ptr<CudaDecoder>> CudaDecoder::Create(policy::Decoder& decoder, int64_t pages, bool deterministic) {
  const Tensor& flat = decoder.parameters().flat();
  if (!flat.is_cuda() || (flat.scalar_type() != at::kBFloat16 && flat.scalar_type() != at::kHalf)) {
    return absl::InvalidArgumentError("engine: on CUDA the decoder must be bf16 or fp16");
  }
  const policy::ModelConfig& config = decoder.config();
  if (config.head_dim != 64 && config.head_dim != 128 && config.head_dim != 256) {
    return absl::InvalidArgumentError(absl::StrCat("engine: head_dim = ", config.head_dim, ", on CUDA 64, 128 or 256"));
  }
  for (const auto& [name, size] : {std::pair<const char*, int64_t>{"hidden_size", config.hidden_size}, {"intermediate_size", config.intermediate_size}}) {
    if (size % 8 != 0 || size > 65536) return absl::InvalidArgumentError(absl::StrCat("engine: ", name, " = ", size, ", on CUDA a multiple of 8"));
  }
  if (deterministic && decoder.lora() != nullptr) {
    return absl::InvalidArgumentError("engine: deterministic mode on CUDA does not go with an adapter");
  }
  std::unique_ptr<CudaDecoder> made(new CudaDecoder(decoder, deterministic));
  HONE_RETURN_IF_ERROR(policy::CatchTorch("engine", [&] {
                         at::NoGradGuard no_grad;
                         made->Bind(decoder, pages);
                         return true;
                       }).status());
  return made;
}

void CudaDecoder::Bind(policy::Decoder& decoder, int64_t pages) {
  const at::Device device = decoder.parameters().flat().device();
  policy::UseDevice(device);
  CheckCuda(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device.index()));
  const policy::Parameters& p = decoder.parameters();
  const auto whole = [&](const std::string& name) { return p.leaf(name).detach(); };
  embedding_ = whole("model.embed_tokens.weight");
  kernels_ = embedding_.scalar_type() == at::kHalf ? &kFp16Kernels : &kBf16Kernels;
  head_ = config_.tie_word_embeddings ? embedding_ : whole("lm_head.weight");
  final_norm_ = whole("model.norm.weight");
  no_bias_ = at::zeros({config_.hidden_size}, embedding_.options());
  long_sums_ = config_.hidden_size >= 4096;
  layers_.resize(config_.num_hidden_layers);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const auto leaf = [&](const char* name) { return whole(absl::StrCat("model.layers.", i, ".", name)); };
    Layer& layer = layers_[i];
    layer.local = config_.IsLocal(i);
    layer.shape = {config_.num_attention_heads, config_.num_key_value_heads, config_.head_dim, config_.Scale(),
                   layer.local ? config_.sliding_window : 0};
    layer.input_norm = leaf("input_layernorm.weight");
    layer.qkv = leaf("self_attn.qkv_proj.weight");
    if (config_.attention_bias) layer.qkv_bias = leaf("self_attn.qkv_proj.bias");
    if (config_.query_key_norm) {
      layer.query_norm = leaf("self_attn.q_norm.weight");
      layer.key_norm = leaf("self_attn.k_norm.weight");
    }
    layer.output = leaf("self_attn.o_proj.weight");
    layer.gate_up = leaf("mlp.gate_up_proj.weight");
    layer.down = leaf("mlp.down_proj.weight");
    const auto low = [&](const char* name) {
      const policy::LowRank* found =
          decoder.lora() == nullptr ? nullptr : decoder.lora()->Find(absl::StrCat("model.layers.", i, ".", name));
      if (found == nullptr) return policy::LowRank();
      adapted_ = true;
      widest_squeezed_ = std::max(widest_squeezed_, found->down.size(0));
      policy::LowRank kept{found->down.detach(), {}, found->scale};
      for (const policy::LowRank::Part& part : found->parts) kept.parts.push_back({part.begin, part.rows, part.up.detach()});
      return kept;
    };
    layer.qkv_low = low("self_attn.qkv_proj.weight");
    layer.output_low = low("self_attn.o_proj.weight");
    layer.gate_up_low = low("mlp.gate_up_proj.weight");
    layer.down_low = low("mlp.down_proj.weight");
    if (config_.norm_after_blocks) {
      layer.attention_norm = leaf("post_attention_layernorm.weight");
      layer.mlp_norm = leaf("pre_feedforward_layernorm.weight");
      layer.mlp_after = leaf("post_feedforward_layernorm.weight");
    } else {
      layer.mlp_norm = leaf("post_attention_layernorm.weight");
    }
  }
  const auto angles = [&](bool local) {
    const Tensor positions = at::arange(config_.max_position_embeddings, embedding_.options().dtype(at::kDouble));
    const Tensor turns = positions.unsqueeze(1) * decoder.inverse_frequencies(local).to(positions.device()).unsqueeze(0);
    // To fp32 first, as the plain version.
    return at::stack({turns.cos(), turns.sin()}, 2).to(at::kFloat).to(embedding_.scalar_type());
  };
  angles_ = angles(false);
  if (!config_.layer_is_local.empty()) local_angles_ = angles(true);
  page_memory_ = ReleasableMemory::Reserve(device.index(), pages * BytesPerPage(config_));
  page_memory_->Take();
  pages_ = at::for_blob(page_memory_->data(), {config_.num_hidden_layers, pages, 2, config_.num_key_value_heads, kPagePositions, config_.head_dim})
               .options(embedding_.options())
               .target_device(device)
               .make_tensor();
  if (kernels_ == &kBf16Kernels) BindWholeStep(device.index());
}

// Where the model, an adapter included, has nothing that the kernel does not know. Not in deterministic mode: it adds up in an
// order of its own.
void CudaDecoder::BindWholeStep(int device) {
  const bool plain = !deterministic_ && !adapted_ && !config_.norm_after_blocks && config_.layer_is_local.empty() && config_.embedding_scale == 1;
  TokenStepArgs& a = whole_step_;
  a.shape = {static_cast<int>(config_.num_hidden_layers), static_cast<int>(config_.hidden_size), static_cast<int>(config_.intermediate_size),
             static_cast<int>(config_.vocab_size), static_cast<int>(config_.num_attention_heads), static_cast<int>(config_.num_key_value_heads),
             static_cast<int>(config_.head_dim)};
  int cooperative = 0;
  CheckCuda(cudaDeviceGetAttribute(&a.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  CheckCuda(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
  if (!plain || cooperative == 0 || !TokenStepServes(a.shape, processors_, a.shared_bytes)) return;
  std::vector<TokenLayer> layers;
  for (const Layer& layer : layers_) {
    layers.push_back({Data(layer.input_norm), Data(layer.qkv), Data(layer.qkv_bias), Data(layer.query_norm), Data(layer.key_norm), Data(layer.output),
                      Data(layer.mlp_norm), Data(layer.gate_up), Data(layer.down)});
  }
  const auto on = [&](at::ScalarType type) { return embedding_.options().dtype(type); };
  whole_layers_ = at::from_blob(layers.data(), {static_cast<int64_t>(layers.size() * sizeof(TokenLayer))}, at::kByte).to(embedding_.device());
  whole_words_ = at::full({TokenStepWords(a.shape)}, -1, on(at::kInt));
  whole_steps_ = at::zeros({2}, on(at::kInt));
  a.layers = static_cast<const TokenLayer*>(whole_layers_.const_data_ptr());
  a.embedding = Data(embedding_);
  a.final_norm = Data(final_norm_);
  a.head = Data(head_);
  a.pages = Data(pages_);
  a.layer_stride = pages_.stride(0);
  a.angles = Data(angles_);
  a.norm_offset = config_.norm_adds_one ? 1.0f : 0.0f;
  a.norm_eps = static_cast<float>(config_.rms_norm_eps);
  a.scale = static_cast<float>(config_.Scale());
  a.gelu = config_.activation == policy::GateActivation::kGeluTanh;
  a.words = reinterpret_cast<uint32_t*>(whole_words_.mutable_data_ptr<int32_t>());
  a.steps = whole_steps_.mutable_data_ptr<int32_t>();
  a.processors = processors_;
}

LayerPages CudaDecoder::PagesOf(int64_t layer) const {
  return {Data(pages_) + layer * pages_.stride(0), static_cast<int>(config_.num_key_value_heads), static_cast<int>(config_.head_dim)};
}

RotateArgs CudaDecoder::RotateOf(const Layer& layer) const {
  return {Data(layer.local ? local_angles_ : angles_), Data(layer.query_norm), Data(layer.key_norm),
          config_.norm_adds_one ? 1.0f : 0.0f, static_cast<float>(config_.rms_norm_eps)};
}

// Positions a block of the attention kernel reads. Splits are joined at a cost, so there are only as many as fill the
// machine once. Fixed in deterministic mode.
int CudaDecoder::SplitPositions(int64_t rows, int64_t table_stride) const {
  const int64_t positions = table_stride * kPagePositions, least = CeilDiv(CeilDiv(positions, kMaxSplits), 128) * 128;
  if (deterministic_) return static_cast<int>(std::max<int64_t>(256, CeilDiv(CeilDiv(config_.max_position_embeddings, kMaxSplits), 128) * 128));
  const int64_t blocks = rows * config_.num_key_value_heads, splits = std::max<int64_t>(1, (processors_ + blocks / 2) / blocks);
  return static_cast<int>(std::max<int64_t>({128, least, std::min<int64_t>(4096, CeilDiv(CeilDiv(positions, splits), 128) * 128)}));
}

bool CudaDecoder::Thin(int64_t rows) const { return deterministic_ || rows <= kMaxGemvRows; }

void CudaDecoder::Linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y) const {
  const int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
  const bool logits = y.scalar_type() == at::kFloat;
  if (!Thin(rows)) {
    if (logits) {
      at::mm_out(y, x, weight.t(), at::kFloat);
    } else if (bias.defined()) {
      at::addmm_out(y, bias, x, weight.t());
    } else {
      at::mm_out(y, x, weight.t());
    }
    return;
  }
  for (int64_t row = 0; row < rows;) {
    int64_t count = kMaxGemvRows;
    while (count > rows - row) count /= 2;
    GemvArgs args;
    args.x = Data(x) + row * in;
    args.weight = Data(weight);
    args.bias = Data(bias);
    args.y = static_cast<char*>(y.data_ptr()) + row * out * y.element_size();
    args.rows = static_cast<int>(count);
    args.in = static_cast<int>(in);
    args.out = static_cast<int>(out);
    args.output = logits ? GemvOutput::kLogits : GemvOutput::kStore;
    args.processors = processors_;
    CheckCuda(kernels_->gemv(args, stream()));
    row += count;
  }
}

void CudaDecoder::AddLowRank(const Tensor& x, const policy::LowRank& low, const Tensor& squeezed, Tensor& y) const {
  if (low.parts.empty()) return;
  const int64_t rows = x.size(0), width = low.down.size(0), rank = low.rank();
  Tensor h = squeezed.defined() ? squeezed.narrow(0, 0, rows * width).view({rows, width}) : at::empty({rows, width}, x.options());
  at::mm_out(h, x, low.down.t());
  for (size_t p = 0; p < low.parts.size(); ++p) {
    const policy::LowRank::Part& part = low.parts[p];
    y.narrow(1, part.begin, part.rows).addmm_(h.narrow(1, static_cast<int64_t>(p) * rank, rank), part.up.t(), 1, low.scale);
  }
}

void CudaDecoder::AddNorm(Tensor& x, const Tensor& delta, const Tensor& delta_norm, const Tensor& norm, Tensor& out) const {
  AddNormArgs args;
  args.x = Data(x);
  args.delta = Data(delta);
  args.delta_norm = Data(delta_norm);
  args.norm = Data(norm);
  args.out = Data(out);
  args.rows = static_cast<int>(x.size(0));
  args.width = static_cast<int>(x.size(1));
  args.norm_offset = config_.norm_adds_one ? 1.0f : 0.0f;
  args.norm_eps = static_cast<float>(config_.rms_norm_eps);
  CheckCuda(kernels_->add_norm(args, stream()));
}

void CudaDecoder::Embedded(const int32_t* sources, const Draw* draws, Tensor& x) const {
  EmbedArgs args;
  args.table = Data(embedding_);
  args.sources = sources;
  args.draws = draws;
  args.out = Data(x);
  args.rows = static_cast<int>(x.size(0));
  args.width = static_cast<int>(config_.hidden_size);
  args.scale = static_cast<float>(config_.embedding_scale);
  CheckCuda(kernels_->embed(args, stream()));
}

Tensor CudaDecoder::PrefillAttention(int64_t index, const Tensor& qkv, const PrefillInput& input) {
  const Layer& layer = layers_[index];
  const policy::AttentionShape& shape = layer.shape;
  const int64_t tokens = qkv.size(0);
  RotateToPagesArgs rotate;
  rotate.qkv = Data(qkv);
  rotate.positions = Ints(input.positions);
  rotate.slots = Ints(input.slots);
  rotate.pages = PagesOf(index);
  rotate.rotate = RotateOf(layer);
  rotate.rows = static_cast<int>(tokens);
  rotate.heads = static_cast<int>(shape.heads);
  CheckCuda(kernels_->rotate_to_pages(rotate, stream()));
  if (deterministic_) {
    Tensor out = at::empty({tokens, shape.heads * shape.head_dim}, qkv.options());
    DecodeInput rows;
    rows.positions = Ints(input.positions);
    rows.tables = Ints(input.tables);
    rows.rows = static_cast<int>(tokens);
    rows.table_stride = static_cast<int>(input.tables.size(1));
    const int64_t splits = CeilDiv(input.tables.size(1) * kPagePositions, SplitPositions(tokens, input.tables.size(1)));
    const Tensor partial = at::empty({PagedAttentionScratch(static_cast<int>(tokens), static_cast<int>(shape.heads), static_cast<int>(shape.head_dim),
                                                            static_cast<int>(splits))},
                                     qkv.options().dtype(at::kFloat));
    DecodeAttention(index, qkv, out, rows, partial, at::zeros({tokens * shape.heads}, qkv.options().dtype(at::kInt)));
    return out;
  }
  const Tensor heads = qkv.view({tokens, shape.heads + 2 * shape.kv_heads, shape.head_dim});
  const Tensor queries = heads.narrow(1, 0, shape.heads);
  Tensor keys = heads.narrow(1, shape.heads, shape.kv_heads), values = heads.narrow(1, shape.heads + shape.kv_heads, shape.kv_heads);
  if (input.key_slots.defined()) {
    const int64_t count = input.key_slots.size(0);
    keys = at::empty({count, shape.kv_heads, shape.head_dim}, qkv.options());
    values = at::empty_like(keys);
    CheckCuda(GatherFromPages({PagesOf(index), Ints(input.key_slots), Data(keys), Data(values), static_cast<int>(count)}, stream()));
  }
  const std::optional<int64_t> left = shape.window > 0 ? std::optional<int64_t>(shape.window - 1) : std::nullopt;
  const std::optional<int64_t> right = shape.window > 0 ? std::optional<int64_t>(0) : std::nullopt;
  const Tensor out = std::get<0>(at::_flash_attention_forward(queries, keys, values, input.query_offsets, input.key_offsets, input.max_queries,
                                                              input.max_keys, 0.0, /*is_causal=*/true, false, shape.scale, left, right));
  return out.reshape({tokens, shape.heads * shape.head_dim});
}

Tensor CudaDecoder::Prefill(const PrefillInput& input) {
  const int64_t tokens = input.ids.size(0);
  const bool gelu = config_.activation == policy::GateActivation::kGeluTanh;
  const auto fresh = [&](int64_t width) { return at::empty({tokens, width}, embedding_.options()); };
  Tensor x = fresh(config_.hidden_size);
  Embedded(Ints(input.ids), nullptr, x);
  Tensor normed = fresh(config_.hidden_size), qkv = fresh(config_.QkvSize()), mixed = fresh(config_.hidden_size);
  Tensor gate_up = fresh(2 * config_.intermediate_size), gated = fresh(config_.intermediate_size);
  Tensor delta, delta_norm;
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const Layer& layer = layers_[i];
    AddNorm(x, delta, delta_norm, layer.input_norm, normed);
    Linear(normed, layer.qkv, layer.qkv_bias, qkv);
    AddLowRank(normed, layer.qkv_low, Tensor(), qkv);
    Tensor attended = PrefillAttention(i, qkv, input);
    if (i + 1 == config_.num_hidden_layers) {  // keys and values are there: the rest is for those alone who ask
      x = x.index_select(0, input.wanted);
      attended = attended.index_select(0, input.wanted);
      if (x.size(0) == 0) return x;
      for (Tensor* tensor : {&normed, &mixed, &gate_up, &gated}) *tensor = tensor->narrow(0, 0, x.size(0));
    }
    Linear(attended, layer.output, Tensor(), mixed);
    AddLowRank(attended, layer.output_low, Tensor(), mixed);
    AddNorm(x, mixed, layer.attention_norm, layer.mlp_norm, normed);
    Linear(normed, layer.gate_up, Tensor(), gate_up);
    AddLowRank(normed, layer.gate_up_low, Tensor(), gate_up);
    CheckCuda(kernels_->gate({Data(gate_up), Data(gated), static_cast<int>(x.size(0)), static_cast<int>(config_.intermediate_size), gelu}, stream()));
    Linear(gated, layer.down, Tensor(), mixed);
    AddLowRank(gated, layer.down_low, Tensor(), mixed);
    delta = mixed;
    delta_norm = layer.mlp_after;
  }
  AddNorm(x, delta, delta_norm, Tensor(), normed);
  return x;
}

Tensor CudaDecoder::Logits(const Tensor& hidden) {
  Tensor x = hidden, normed = at::empty_like(hidden);
  AddNorm(x, Tensor(), Tensor(), final_norm_, normed);
  Tensor logits = at::empty({hidden.size(0), config_.vocab_size}, hidden.options().dtype(at::kFloat));
  Linear(normed, head_, Tensor(), logits);
  return logits;
}

void CudaDecoder::DecodeAttention(int64_t index, const Tensor& qkv, Tensor& out, const DecodeInput& input, const Tensor& partial,
                                  const Tensor& arrived) {
  const Layer& layer = layers_[index];
  const policy::AttentionShape& shape = layer.shape;
  const int64_t positions = int64_t{input.table_stride} * kPagePositions;
  PagedAttentionArgs args;
  args.qkv = Data(qkv);
  args.out = Data(out);
  args.positions = input.positions;
  args.tables = input.tables;
  args.pages = PagesOf(index);
  args.rotate = RotateOf(layer);
  args.scale = static_cast<float>(shape.scale);
  args.window = static_cast<int>(shape.window);
  args.rows = input.rows;
  args.heads = static_cast<int>(shape.heads);
  args.table_stride = input.table_stride;
  args.split_positions = SplitPositions(input.rows, input.table_stride);
  args.max_splits = static_cast<int>(CeilDiv(positions, args.split_positions));
  // Few blocks: more warps in each. Else 3 blocks of 4 warps or 4 blocks of 3 share a processor: whichever takes less time
  // in rounds of blocks.
  const int64_t blocks = input.rows * shape.kv_heads * args.max_splits;
  const int64_t of_four = 3 * CeilDiv(blocks, 3 * processors_), of_three = 4 * CeilDiv(blocks, 4 * processors_);
  args.warps = deterministic_ ? 4 : blocks <= 2 * processors_ ? 8 : of_three < of_four ? 3 : 4;
  args.prepared = input.sources == nullptr;
  args.partial = partial.mutable_data_ptr<float>();
  args.arrived = arrived.mutable_data_ptr<int32_t>();
  CheckCuda(kernels_->paged_attention(args, stream()));
}

void CudaDecoder::DecodeWhole(const DecodeInput& input, DecodeBuffers& part) {
  TokenStepArgs a = whole_step_;
  a.sources = input.sources;
  a.draws = input.draws;
  a.positions = input.positions;
  a.tables = input.tables;
  a.logits = part.logits.mutable_data_ptr<float>();
  CheckCuda(TokenStep(a, stream()));
}

// Five kernels a layer: what lies between two products is part of the product's kernel.
void CudaDecoder::DecodeThin(const DecodeInput& input, DecodeBuffers& part) {
  Tensor &x = part.x, &mixed = part.mixed, unused;
  GemvArgs args;
  args.rows = input.rows;
  args.norm_offset = config_.norm_adds_one ? 1.0f : 0.0f;
  args.norm_eps = static_cast<float>(config_.rms_norm_eps);
  args.gelu = config_.activation == policy::GateActivation::kGeluTanh;
  args.processors = processors_;
  const auto product = [&](const Tensor& from, const Tensor& norm, const Tensor& weight, const Tensor& bias, const Tensor& to, GemvOutput output) {
    GemvArgs a = args;
    a.x = Data(from);
    a.norm = Data(norm);
    a.weight = Data(weight);
    a.bias = Data(bias);
    a.y = to.data_ptr();
    a.in = static_cast<int>(from.size(1));
    a.out = static_cast<int>(to.size(1));
    a.output = output;
    CheckCuda(kernels_->gemv(a, stream()));
  };
  // x += weight * from, with Gemma's norm in between.
  const auto add = [&](const Tensor& from, const Tensor& weight, const Tensor& after) {
    if (!after.defined()) return product(from, Tensor(), weight, Tensor(), x, GemvOutput::kAdd);
    product(from, Tensor(), weight, Tensor(), mixed, GemvOutput::kStore);
    AddNorm(x, mixed, after, Tensor(), unused);
  };
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const Layer& layer = layers_[i];
    product(x, layer.input_norm, layer.qkv, layer.qkv_bias, part.qkv, GemvOutput::kStore);
    DecodeAttention(i, part.qkv, part.attended, input, part.partial, part.arrived);
    add(part.attended, layer.output, layer.attention_norm);
    product(x, layer.mlp_norm, layer.gate_up, Tensor(), part.gated, GemvOutput::kGated);
    add(part.gated, layer.down, layer.mlp_after);
  }
  product(x, final_norm_, head_, Tensor(), part.logits, GemvOutput::kLogits);
}

void CudaDecoder::DecodeWide(const DecodeInput& input, DecodeBuffers& part) {
  const bool gelu = config_.activation == policy::GateActivation::kGeluTanh;
  Tensor delta, delta_norm;
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const Layer& layer = layers_[i];
    AddNorm(part.x, delta, delta_norm, layer.input_norm, part.normed);
    Linear(part.normed, layer.qkv, layer.qkv_bias, part.qkv);
    AddLowRank(part.normed, layer.qkv_low, part.squeezed, part.qkv);
    DecodeAttention(i, part.qkv, part.attended, input, part.partial, part.arrived);
    Linear(part.attended, layer.output, Tensor(), part.mixed);
    AddLowRank(part.attended, layer.output_low, part.squeezed, part.mixed);
    AddNorm(part.x, part.mixed, layer.attention_norm, layer.mlp_norm, part.normed);
    Linear(part.normed, layer.gate_up, Tensor(), part.gate_up);
    AddLowRank(part.normed, layer.gate_up_low, part.squeezed, part.gate_up);
    CheckCuda(kernels_->gate({Data(part.gate_up), Data(part.gated), input.rows, static_cast<int>(config_.intermediate_size), gelu}, stream()));
    Linear(part.gated, layer.down, long_sums_ && input.rows <= 128 ? no_bias_ : Tensor(), part.mixed);
    AddLowRank(part.gated, layer.down_low, part.squeezed, part.mixed);
    delta = part.mixed;
    delta_norm = layer.mlp_after;
  }
  AddNorm(part.x, delta, delta_norm, final_norm_, part.normed);
  Linear(part.normed, head_, Tensor(), part.logits);
}

DecodeBuffers CudaDecoder::MakeBuffers(int64_t rows, int64_t table_stride) const {
  const auto wide = [&](int64_t width) { return at::empty({rows, width}, embedding_.options()); };
  // Fewer rows and shorter tables are cut finer: the largest need is not that of the largest step.
  int64_t partial = 0;
  for (int64_t stride = 1; stride <= table_stride; stride *= 2) {
    for (int64_t r = 1; r <= rows; ++r) {
      const int64_t splits = CeilDiv(stride * kPagePositions, SplitPositions(r, stride));
      partial = std::max(partial, PagedAttentionScratch(static_cast<int>(r), static_cast<int>(config_.num_attention_heads),
                                                        static_cast<int>(config_.head_dim), static_cast<int>(splits)));
    }
  }
  const int64_t attended = config_.num_attention_heads * config_.head_dim;
  return {wide(config_.hidden_size), wide(config_.hidden_size), wide(config_.QkvSize()), wide(attended), wide(config_.hidden_size),
          wide(2 * config_.intermediate_size), wide(config_.intermediate_size),
          at::empty({rows, config_.vocab_size}, embedding_.options().dtype(at::kFloat)),
          at::empty({partial}, embedding_.options().dtype(at::kFloat)),
          at::zeros({rows * config_.num_attention_heads}, embedding_.options().dtype(at::kInt)), at::empty({rows * widest_squeezed_}, embedding_.options())};
}

Tensor CudaDecoder::Decode(const DecodeInput& input, const DecodeBuffers& buffers) {
  DecodeBuffers part = buffers;
  for (Tensor* tensor : {&part.x, &part.normed, &part.qkv, &part.attended, &part.mixed, &part.gate_up, &part.gated, &part.logits}) {
    *tensor = tensor->narrow(0, 0, input.rows);
  }
  if (input.rows == 1 && whole_step_.processors > 0 && input.table_stride * kPagePositions <= kWholeStepPositions) {
    DecodeWhole(input, part);
    return part.logits;
  }
  Embedded(input.sources, input.draws, part.x);
  if (input.rows <= kMaxGemvRows && !adapted_) {
    DecodeThin(input, part);
  } else {
    DecodeWide(input, part);
  }
  return part.logits;
}

void CudaDecoder::CopyPages(const Tensor& from_to) {
  CopyPagesArgs args;
  args.data = pages_.data_ptr();
  args.layer_bytes = pages_.stride(0) * 2;
  args.page_bytes = pages_.stride(1) * 2;
  args.from_to = Ints(from_to);
  args.layers = static_cast<int>(config_.num_hidden_layers);
  args.count = static_cast<int>(from_to.size(0));
  CheckCuda(cuda::CopyPages(args, stream()));
}

}  // namespace hone::rollout::cuda

// GGUF to HF: names, layouts and config.json of each architecture. Source: the tensor names and the changes of layout are
// those of llama.cpp's converter, which this undoes.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/convert/gguf_tokenizer.h"
#include "policy/convert/model_source.h"
#include "policy/weights/gguf.h"

namespace hone::policy {
namespace {

using Json = nlohmann::ordered_json;

enum class Change {
  kNone,
  kUnpermute,  // llama: rows of each head were interleaved for another form of rotary embedding
  kMinusOne    // gemma: the norms' weights carry the 1 that the model adds
};

/// What is special about an architecture. Names and sizes that all share are in the functions below.
struct Architecture {
  const char* name;         // general.architecture
  const char* class_name;   // config.json
  const char* model_type;
  bool permuted = false;
  bool shifted_norms = false;
  bool gemma_norms = false;  // four norms a layer
};
constexpr Architecture kArchitectures[] = {{"qwen2", "Qwen2ForCausalLM", "qwen2"},
                                           {"qwen3", "Qwen3ForCausalLM", "qwen3"},
                                           {"llama", "LlamaForCausalLM", "llama", /*permuted=*/true},
                                           {"gemma3", "Gemma3ForCausalLM", "gemma3_text", false, true, true}};

struct NamePair {
  const char* gguf;
  const char* hf;
};
constexpr NamePair kLayerNames[] = {{"attn_q", "self_attn.q_proj"},           {"attn_k", "self_attn.k_proj"},
                                    {"attn_v", "self_attn.v_proj"},           {"attn_output", "self_attn.o_proj"},
                                    {"attn_q_norm", "self_attn.q_norm"},      {"attn_k_norm", "self_attn.k_norm"},
                                    {"attn_norm", "input_layernorm"},         {"ffn_gate", "mlp.gate_proj"},
                                    {"ffn_up", "mlp.up_proj"},                {"ffn_down", "mlp.down_proj"},
                                    {"post_ffw_norm", "post_feedforward_layernorm"}};

absl::Status Bad(const Gguf& gguf, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(gguf.path(), ": ", what));
}

/// A float32 that was meant as a short decimal number: 9.99999997e-07 is 1e-06.
double Shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text - 1, static_cast<float>(value)).ptr;
  *end = '\0';
  return std::strtod(text, nullptr);
}

/// Sizes from the metadata, all checked to be usable.
struct Shape {
  int64_t layers, hidden, intermediate, heads, kv_heads, head_dim, context;
  double norm_epsilon, rope_theta;
};

absl::StatusOr<Shape> ReadShape(const Gguf& gguf, const std::string& prefix) {
  Shape shape{};
  const std::pair<const char*, int64_t*> sizes[] = {
      {"block_count", &shape.layers},         {"embedding_length", &shape.hidden}, {"feed_forward_length", &shape.intermediate},
      {"attention.head_count", &shape.heads}, {"context_length", &shape.context}};
  for (const auto& [key, size] : sizes) {
    *size = gguf.Integer(absl::StrCat(prefix, ".", key)).value_or(0);
    if (*size < 1 || *size > 1 << 28) return Bad(gguf, absl::StrCat(prefix, ".", key, " is missing or not in 1..268435456"));
  }
  shape.kv_heads = gguf.Integer(prefix + ".attention.head_count_kv").value_or(shape.heads);
  shape.head_dim = gguf.Integer(prefix + ".attention.key_length").value_or(shape.hidden / shape.heads);
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0 || shape.head_dim < 2 || shape.head_dim % 2 != 0) {
    return Bad(gguf, absl::StrCat("has ", shape.heads, " heads, ", shape.kv_heads, " key-value heads of ", shape.head_dim));
  }
  const auto epsilon = gguf.Number(prefix + ".attention.layer_norm_rms_epsilon");
  if (!epsilon) return Bad(gguf, absl::StrCat(prefix, ".attention.layer_norm_rms_epsilon is missing"));
  shape.norm_epsilon = Shortest(*epsilon);
  shape.rope_theta = Shortest(gguf.Number(prefix + ".rope.freq_base").value_or(10000.0));
  return shape;
}

/// The factors that Llama 3's rotary scaling divides frequencies by; low and high frequency factor 1 and 4, trained on 8192.
/// Source: the "llama3" rope type of HF transformers.
std::vector<float> Llama3Factors(double theta, int64_t head_dim, double factor) {
  constexpr double kTrained = 8192, kLow = 1, kHigh = 4;
  std::vector<float> factors;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double wavelength = 2 * M_PI * std::pow(theta, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double smooth = (kTrained / wavelength - kLow) / (kHigh - kLow);
    const double between = 1 / ((1 - smooth) / factor + smooth);
    factors.push_back(static_cast<float>(wavelength < kTrained / kHigh  ? 1.0
                                         : wavelength > kTrained / kLow ? factor
                                                                        : between));
  }
  return factors;
}

absl::StatusOr<Json> RopeScaling(const Gguf& gguf, const std::string& prefix, const Shape& shape) {
  const std::string type = gguf.Text(prefix + ".rope.scaling.type").value_or("none");
  if (type == "linear") return Json{{"rope_type", type}, {"factor", gguf.Number(prefix + ".rope.scaling.factor").value_or(1)}};
  if (type == "yarn") {
    return Json{{"rope_type", type},
                {"factor", gguf.Number(prefix + ".rope.scaling.factor").value_or(1)},
                {"original_max_position_embeddings",
                 gguf.Integer(prefix + ".rope.scaling.original_context_length").value_or(shape.context)}};
  }
  if (type != "none") return Bad(gguf, absl::StrCat("has rope.scaling.type '", absl::Utf8SafeCEscape(type), "'"));
  const GgufTensor* stored = gguf.Find("rope_freqs.weight");
  if (stored == nullptr) return Json(nullptr);
  std::vector<float> factors(stored->Elements());
  Dequantize(*stored, 0, absl::MakeSpan(factors));
  for (const int factor : {8, 32, 16, 4, 2}) {
    const std::vector<float> expected = Llama3Factors(shape.rope_theta, shape.head_dim, factor);
    const bool same = expected.size() == factors.size() &&
                      std::equal(expected.begin(), expected.end(), factors.begin(),
                                 [](float a, float b) { return std::abs(a - b) <= 1e-3f * a; });
    if (!same) continue;
    return Json{{"rope_type", "llama3"}, {"factor", factor}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
                {"original_max_position_embeddings", 8192}};
  }
  return Bad(gguf, "has rotary frequencies (rope_freqs.weight) that are not Llama 3's");
}

absl::StatusOr<Json> MakeConfig(const Gguf& gguf, const Architecture& architecture, const Shape& shape, int64_t vocab_rows,
                                bool tied) {
  const std::string prefix = architecture.name;
  Json config = {{"architectures", {architecture.class_name}},
                 {"model_type", architecture.model_type},
                 {"vocab_size", vocab_rows},
                 {"hidden_size", shape.hidden},
                 {"intermediate_size", shape.intermediate},
                 {"num_hidden_layers", shape.layers},
                 {"num_attention_heads", shape.heads},
                 {"num_key_value_heads", shape.kv_heads},
                 {"head_dim", shape.head_dim},
                 {"max_position_embeddings", shape.context},
                 {"rms_norm_eps", shape.norm_epsilon},
                 {"rope_theta", shape.rope_theta},
                 {"tie_word_embeddings", tied},
                 {"attention_dropout", 0.0},
                 {"initializer_range", 0.02},
                 {"use_cache", true}};
  config[architecture.gemma_norms ? "hidden_activation" : "hidden_act"] =
      architecture.gemma_norms ? "gelu_pytorch_tanh" : "silu";
  HONE_ASSIGN_OR_RETURN(const Json scaling, RopeScaling(gguf, prefix, shape));
  config["rope_scaling"] = scaling;
  if (prefix == "qwen2" || prefix == "qwen3") config["use_sliding_window"] = false;
  if (prefix == "qwen3" || prefix == "llama") config["attention_bias"] = gguf.Find("blk.0.attn_q.bias") != nullptr;
  if (prefix == "llama") config["mlp_bias"] = false;
  if (prefix != "gemma3") return config;
  constexpr int64_t kPattern = 6;  // five local layers, then a global one
  config["attention_bias"] = false;
  config["sliding_window"] = gguf.Integer("gemma3.attention.sliding_window").value_or(512);
  config["rope_local_base_freq"] = 10000.0;
  // The 27B model scales by its width, all others by the head's.
  config["query_pre_attn_scalar"] = shape.layers == 62 && shape.hidden == 5376 ? shape.hidden / shape.heads : shape.head_dim;
  config["sliding_window_pattern"] = kPattern;
  for (int64_t layer = 1; layer <= shape.layers; ++layer) {
    config["layer_types"].push_back(layer % kPattern == 0 ? "full_attention" : "sliding_attention");
  }
  return config;
}

/// "blk.3.attn_q.weight" -> layer 3, "attn_q", "weight".
struct LayerName {
  int64_t layer;
  std::string part, kind;
};
std::optional<LayerName> ParseLayerName(const std::string& name) {
  LayerName parsed;
  if (!absl::StartsWith(name, "blk.")) return std::nullopt;
  const size_t first = name.find('.', 4), last = name.rfind('.');
  if (first == std::string::npos || last <= first) return std::nullopt;
  if (!absl::SimpleAtoi(name.substr(4, first - 4), &parsed.layer)) return std::nullopt;
  parsed.part = name.substr(first + 1, last - first - 1);
  parsed.kind = name.substr(last + 1);
  return parsed;
}

std::optional<std::string> HfName(const Architecture& architecture, const std::string& name) {
  if (name == "token_embd.weight") return "model.embed_tokens.weight";
  if (name == "output_norm.weight") return "model.norm.weight";
  if (name == "output.weight") return "lm_head.weight";
  const std::optional<LayerName> layer = ParseLayerName(name);
  if (!layer || (layer->kind != "weight" && layer->kind != "bias")) return std::nullopt;
  std::string part;
  for (const NamePair& pair : kLayerNames) {
    if (layer->part == pair.gguf) part = pair.hf;
  }
  if (layer->part == "ffn_norm") part = architecture.gemma_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  if (layer->part == "post_attention_norm" && architecture.gemma_norms) part = "post_attention_layernorm";
  if (part.empty()) return std::nullopt;
  return absl::StrCat("model.layers.", layer->layer, ".", part, ".", layer->kind);
}

/// Tensors that every layer must have.
std::vector<std::string> RequiredParts(const Architecture& architecture) {
  std::vector<std::string> parts = {"attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_norm",
                                    "ffn_gate", "ffn_up", "ffn_down"};
  if (architecture.gemma_norms) parts.insert(parts.end(), {"post_attention_norm", "post_ffw_norm"});
  if (architecture.gemma_norms || std::string(architecture.name) == "qwen3") {
    parts.insert(parts.end(), {"attn_q_norm", "attn_k_norm"});
  }
  return parts;
}

absl::Status CheckComplete(const Gguf& gguf, const Architecture& architecture, const Shape& shape) {
  std::vector<std::string> required = {"token_embd.weight", "output_norm.weight"};
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    for (const std::string& part : RequiredParts(architecture)) {
      required.push_back(absl::StrCat("blk.", layer, ".", part, ".weight"));
    }
    if (gguf.Find(required.back()) == nullptr) break;  // a lying block_count needs no longer list
  }
  for (const std::string& name : required) {
    if (gguf.Find(name) == nullptr) return Bad(gguf, absl::StrCat("tensor '", name, "' is missing"));
  }
  for (const GgufTensor& tensor : gguf.tensors()) {
    const std::optional<LayerName> layer = ParseLayerName(tensor.name);
    if (tensor.name == "rope_freqs.weight") continue;
    if (!HfName(architecture, tensor.name) || (layer && layer->layer >= shape.layers)) {
      return Bad(gguf, absl::StrCat("tensor '", absl::Utf8SafeCEscape(tensor.name), "' is not one of ", architecture.name, "'s"));
    }
  }
  return absl::OkStatus();
}

/// What a weight or bias of a layer must look like, by its part; nothing for parts without a rule.
std::optional<std::vector<int64_t>> ExpectedShape(const std::string& name, const Shape& shape, int64_t vocab_rows) {
  if (name == "token_embd.weight" || name == "output.weight") return std::vector<int64_t>{vocab_rows, shape.hidden};
  if (name == "output_norm.weight") return std::vector<int64_t>{shape.hidden};
  const std::optional<LayerName> layer = ParseLayerName(name);
  if (!layer) return std::nullopt;
  const int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  const std::map<std::string, std::vector<int64_t>> weights = {
      {"attn_q", {q, shape.hidden}},           {"attn_k", {kv, shape.hidden}},          {"attn_v", {kv, shape.hidden}},
      {"attn_output", {shape.hidden, q}},      {"ffn_gate", {shape.intermediate, shape.hidden}},
      {"ffn_up", {shape.intermediate, shape.hidden}}, {"ffn_down", {shape.hidden, shape.intermediate}},
      {"attn_q_norm", {shape.head_dim}},       {"attn_k_norm", {shape.head_dim}}};
  const auto at = weights.find(layer->part);
  if (at == weights.end()) return std::vector<int64_t>{shape.hidden};  // the norms of a layer
  return layer->kind == "weight" ? at->second : std::vector<int64_t>{at->second.front()};
}

/// Row r of a head of the published layout is row (r % half) * 2 + r / half of the permuted one.
void ReadUnpermuted(const GgufTensor& tensor, int64_t head_dim, int64_t first, absl::Span<float> out) {
  const int64_t columns = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
  const int64_t half = head_dim / 2;
  for (size_t done = 0; done < out.size(); done += columns) {
    const int64_t row = (first + static_cast<int64_t>(done)) / columns;
    const int64_t head = row / head_dim, within = row % head_dim;
    const int64_t stored = head * head_dim + within % half * 2 + within / half;
    Dequantize(tensor, stored * columns, out.subspan(done, columns));
  }
}

SourceTensor MakeTensor(const GgufTensor& tensor, std::string name, Change change, int64_t head_dim) {
  SourceTensor source{std::move(name), tensor.shape, BlockOf(tensor.type).elements, {}};
  const GgufTensor* stored = &tensor;
  switch (change) {
    case Change::kNone:
      source.read = [stored](int64_t first, absl::Span<float> out) { Dequantize(*stored, first, out); };
      break;
    case Change::kUnpermute:
      source.granule = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
      source.read = [stored, head_dim](int64_t first, absl::Span<float> out) { ReadUnpermuted(*stored, head_dim, first, out); };
      break;
    case Change::kMinusOne:
      source.read = [stored](int64_t first, absl::Span<float> out) {
        Dequantize(*stored, first, out);
        for (float& value : out) value -= 1.0f;
      };
  }
  return source;
}

Change ChangeOf(const Architecture& architecture, const std::string& name) {
  if (architecture.shifted_norms && absl::EndsWith(name, "norm.weight")) return Change::kMinusOne;
  const std::optional<LayerName> layer = ParseLayerName(name);
  const bool rotated = layer && (layer->part == "attn_q" || layer->part == "attn_k");
  return architecture.permuted && rotated ? Change::kUnpermute : Change::kNone;
}

/// Mean cosine between rows of two matrices of one shape, over 256 rows spread evenly.
double MeanRowCosine(const GgufTensor& a, const GgufTensor& b) {
  const int64_t rows = a.shape[0], columns = a.shape[1], samples = std::min<int64_t>(rows, 256);
  std::vector<float> x(columns), y(columns);
  double sum = 0;
  int64_t counted = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t row = i * rows / samples;
    Dequantize(a, row * columns, absl::MakeSpan(x));
    Dequantize(b, row * columns, absl::MakeSpan(y));
    const double xy = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    const double xx = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    const double yy = std::inner_product(y.begin(), y.end(), y.begin(), 0.0);
    if (xx == 0 || yy == 0) continue;
    sum += xy / std::sqrt(xx * yy);
    ++counted;
  }
  return counted == 0 ? 0 : sum / static_cast<double>(counted);
}

/// Where input and output embedding are one matrix, files may hold it twice at two precisions. Rows of matrices that were
/// trained apart are nowhere near parallel; 4-bit rounding leaves 0.997.
struct Embedding {
  const GgufTensor* input;
  bool tied;
  std::string note;
};
Embedding ChooseEmbedding(const Gguf& gguf) {
  constexpr double kSameMatrix = 0.95;
  const GgufTensor* input = gguf.Find("token_embd.weight");
  const GgufTensor* output = gguf.Find("output.weight");
  if (output == nullptr) return {input, true, ""};
  const double cosine = MeanRowCosine(*input, *output);
  if (cosine < kSameMatrix) return {input, false, ""};
  const auto bits = [](const GgufTensor* t) { return BlockOf(t->type).bytes * 8.0 / BlockOf(t->type).elements; };
  const GgufTensor* finer = bits(output) > bits(input) ? output : input;
  return {finer, true,
          absl::StrCat("token_embd (", Name(input->type), ") and output (", Name(output->type),
                       ") are one matrix (mean cosine of rows ", absl::SixDigits(cosine), "): tied, from the ", Name(finer->type))};
}

std::string GenerationConfig(const GgufTokenizer& tokenizer) {
  Json config = Json::object();
  if (tokenizer.bos) config["bos_token_id"] = *tokenizer.bos;
  if (!tokenizer.eos.empty()) config["eos_token_id"] = tokenizer.eos;
  if (tokenizer.pad) config["pad_token_id"] = *tokenizer.pad;
  return config.dump(2) + "\n";
}

absl::StatusOr<const Architecture*> FindArchitecture(const Gguf& gguf) {
  const std::string name = gguf.Text("general.architecture").value_or("");
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return &architecture;
  }
  return Bad(gguf, absl::StrCat("architecture '", absl::Utf8SafeCEscape(name), "' is not supported; supported: qwen2, qwen3, ",
                                "llama, gemma3"));
}

}  // namespace

int64_t SourceTensor::Elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

absl::StatusOr<ModelSource> OpenGgufModel(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Gguf> opened, Gguf::Open(path));
  const std::shared_ptr<const Gguf> gguf = std::move(opened);
  HONE_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(*gguf));
  HONE_ASSIGN_OR_RETURN(const Shape shape, ReadShape(*gguf, architecture->name));
  HONE_RETURN_IF_ERROR(CheckComplete(*gguf, *architecture, shape));
  const std::vector<int64_t>& embedding_shape = gguf->Find("token_embd.weight")->shape;
  const int64_t vocab_rows = embedding_shape.empty() ? 0 : embedding_shape.front();
  for (const GgufTensor& tensor : gguf->tensors()) {
    const auto expected = ExpectedShape(tensor.name, shape, vocab_rows);
    if (expected && tensor.shape != *expected) {
      return Bad(*gguf, absl::StrCat("tensor '", tensor.name, "' has another shape than the metadata says"));
    }
  }
  const Embedding embedding = ChooseEmbedding(*gguf);
  HONE_ASSIGN_OR_RETURN(Json config, MakeConfig(*gguf, *architecture, shape, vocab_rows, embedding.tied));
  HONE_ASSIGN_OR_RETURN(GgufTokenizer tokenizer, ReadGgufTokenizer(*gguf));
  if (tokenizer.bos) config["bos_token_id"] = *tokenizer.bos;
  if (!tokenizer.eos.empty()) config["eos_token_id"] = tokenizer.eos.front();
  if (tokenizer.pad) config["pad_token_id"] = *tokenizer.pad;

  ModelSource source;
  source.owner = gguf;
  source.note = embedding.note;
  for (const GgufTensor& tensor : gguf->tensors()) {
    const std::optional<std::string> name = HfName(*architecture, tensor.name);
    if (!name || (tensor.name == "output.weight" && embedding.tied)) continue;
    const GgufTensor& stored = tensor.name == "token_embd.weight" ? *embedding.input : tensor;
    source.tensors.push_back(MakeTensor(stored, *name, ChangeOf(*architecture, tensor.name), shape.head_dim));
  }
  source.files.emplace_back("config.json", config.dump(2) + "\n");
  source.files.emplace_back("generation_config.json", GenerationConfig(tokenizer));
  source.files.emplace_back("tokenizer.json", std::move(tokenizer.json));
  source.files.emplace_back("tokenizer_config.json", std::move(tokenizer.config));
  if (tokenizer.chat_template) source.files.emplace_back("chat_template.jinja", *tokenizer.chat_template);
  return source;
}

}  // namespace hone::policy

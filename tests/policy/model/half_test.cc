#include "tests/support/catch_torch.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "policy/model/cpu_kernels.h"
#include "policy/model/decoder.h"
#include "policy/model/rows.h"
#include "tests/support/memory_folder.h"
#include "tests/support/tiny_model.h"

namespace hone::policy {
namespace {

using testing::MakeDecoder;
using testing::TinyConfig;

struct Packed {
  at::Tensor ids, positions, offsets;
};

Packed Two() {
  std::vector<int64_t> ids, positions;
  for (int64_t length : {13, 7}) {
    for (int64_t t = 0; t < length; ++t) {
      ids.push_back((t * 17 + length) % 37);
      positions.push_back(t);
    }
  }
  return {at::tensor(ids, at::kLong), at::tensor(positions, at::kLong),
          at::tensor(std::vector<int64_t>{0, 13, 20}, at::kLong)};
}

at::Tensor Loss(Decoder& decoder) {
  const Packed p = Two();
  PackedSequences attention(p.offsets);
  const LogProbs out =
      decoder.TargetLogProbs(decoder.Hidden(p.ids, p.positions, attention).value(), p.ids.roll(-1), 0.9).value();
  return -(out.log_probs.sum() + 0.1 * out.entropy.sum());
}

std::vector<ModelConfig> Families() {
  ModelConfig qwen2 = TinyConfig(), qwen3 = TinyConfig(), gemma = TinyConfig();
  qwen2.attention_bias = true;
  qwen3.query_key_norm = true;
  qwen3.tie_word_embeddings = false;
  gemma.query_key_norm = gemma.norm_adds_one = gemma.norm_after_blocks = true;
  gemma.activation = GateActivation::kGeluTanh;
  gemma.layer_is_local = {true, false};
  gemma.sliding_window = 5;
  return {qwen2, qwen3, gemma};
}

// Gives every weight an fp32 gradient buffer, as the optimiser does.
void AddBuffers(Decoder& decoder) {
  for (const Leaf& leaf : decoder.TrainedLeaves()) {
    at::Tensor value = leaf.value;
    value.mutable_grad() = at::zeros(value.sizes(), at::kFloat);
  }
}

double RelativeError(const at::Tensor& got, const at::Tensor& want) {
  return ((got.to(at::kDouble) - want.to(at::kDouble)).norm() / want.to(at::kDouble).norm()).item<double>();
}

std::vector<uint16_t> Bits(const at::Tensor& halves) {
  const at::Tensor t = halves.contiguous();
  const uint16_t* from = static_cast<const uint16_t*>(t.const_data_ptr());
  return std::vector<uint16_t>(from, from + t.numel());
}

TEST_CASE("A product of bf16 on the CPU adds exact products up in fp32, and a row's bits are its own", "[policy][model]") {
  at::manual_seed(3);
  for (const auto& [rows, in, out] : {std::array<int64_t, 3>{1, 2, 1}, {3, 33, 31}, {8, 64, 32}, {9, 127, 70}, {23, 640, 96}}) {
    INFO(rows << " x " << in << " -> " << out);
    const at::Tensor x = at::randn({rows, in}), weight = at::randn({out, in}).to(at::kBFloat16), bias = at::randn({out});
    std::vector<uint16_t> packed(cpu::PackedHalfSize(out, in), 0x7fc0), halves(rows * (in + in % 2), 0x7fc0);
    const int64_t panels = (out + cpu::kPanel - 1) / cpu::kPanel;
    cpu::PackWeight(Bits(weight).data(), out, in, 0, panels, packed.data());
    cpu::RoundRows(x.const_data_ptr<float>(), in, 0, rows, halves.data());
    at::Tensor got = at::empty({rows, out}), one = at::empty({rows, out});
    cpu::Linear(halves.data(), packed.data(), bias.const_data_ptr<float>(), in, out, 0, rows, 0, panels, got.mutable_data_ptr<float>());
    for (int64_t r = 0; r < rows; ++r) {
      cpu::Linear(halves.data(), packed.data(), bias.const_data_ptr<float>(), in, out, r, r + 1, 0, panels, one.mutable_data_ptr<float>());
    }
    CHECK(at::equal(got, one));
    const at::Tensor exact = at::mm(x.to(at::kBFloat16).to(at::kDouble), weight.to(at::kDouble).t()) + bias.to(at::kDouble);
    CHECK((got.to(at::kDouble) - exact).abs().max().item<double>() < 1e-6 * static_cast<double>(in) + 1e-6);
  }
}

TEST_CASE("Rows are rounded to bf16 as ATen rounds them; a NaN stays one, and infinity", "[policy][model]") {
  const at::Tensor special = at::tensor({0.0f, -0.0f, 1.00390625f, 1.01171875f, 3.4e38f, -3.4e38f, INFINITY, -INFINITY, 1e-40f, 65535.0f});
  const at::Tensor x = at::cat({special, at::randn({1001})}).unsqueeze(0);
  std::vector<uint16_t> got(x.size(1) + 1, 1);
  cpu::RoundRows(x.const_data_ptr<float>(), x.size(1), 0, 1, got.data());
  std::vector<uint16_t> wanted = Bits(x.to(at::kBFloat16));
  wanted.push_back(0);
  CHECK(got == wanted);
  const uint32_t kinds[] = {0x7fffffff, 0x7f800001, 0xffffffff, 0xff800001};
  std::vector<uint16_t> nans(4);
  cpu::RoundRows(reinterpret_cast<const float*>(kinds), 4, 0, 1, nans.data());
  for (uint16_t bits : nans) CHECK((bits & 0x7fff) > 0x7f80);
}

TEST_CASE("A bf16 model's loss and fp32 gradients are those of fp32 up to bf16's rounding", "[policy][model]") {
  for (const ModelConfig& config : Families()) {
    const auto wide = MakeDecoder(config), half = MakeDecoder(config, 7, at::kBFloat16);
    at::Tensor flat = wide->parameters().flat();
    flat.copy_(half->parameters().flat());
    AddBuffers(*half);
    const at::Tensor want = Loss(*wide), got = Loss(*half);
    CHECK(std::abs(got.item<double>() / want.item<double>() - 1) < 5e-3);
    want.backward();
    got.backward();
    for (size_t i = 0; i < wide->parameters().leaves().size(); ++i) {
      const Leaf& leaf = half->parameters().leaves()[i];
      INFO(leaf.name);
      CHECK(leaf.value.grad().scalar_type() == at::kFloat);
      CHECK(RelativeError(leaf.value.grad(), wide->parameters().leaves()[i].value.grad()) < 0.06);
    }
  }
}

TEST_CASE("Gradients of two bf16 passes add up in fp32", "[policy][model]") {
  const auto half = MakeDecoder(Families()[0], 7, at::kBFloat16);
  AddBuffers(*half);
  Loss(*half).backward();
  const at::Tensor once = half->parameters().leaf("model.layers.0.mlp.down_proj.weight").grad().clone();
  (Loss(*half) / 1024).backward();  // lost when it is added in bf16
  const at::Tensor both = half->parameters().leaf("model.layers.0.mlp.down_proj.weight").grad();
  CHECK(RelativeError(both - once, once / 1024) < 0.02);
}

TEST_CASE("A layer that is computed again gives the same gradients to the bit", "[policy][model]") {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const ModelConfig& config : Families()) {
      const auto kept = MakeDecoder(config, 7, dtype);
      const auto again = Decoder::Create(config, {.dtype = dtype, .checkpoint_activations = true}).value();
      at::Tensor flat = again->parameters().flat();
      flat.copy_(kept->parameters().flat());
      Loss(*kept).backward();
      Loss(*again).backward();
      for (size_t i = 0; i < kept->parameters().leaves().size(); ++i) {
        INFO(kept->parameters().leaves()[i].name);
        CHECK(at::equal(kept->parameters().leaves()[i].value.grad(), again->parameters().leaves()[i].value.grad()));
      }
    }
  }
}

LoraOptions SmallLora() {
  LoraOptions options;
  options.rank = 3;
  options.alpha = 6;
  options.targets = {"q_proj", "v_proj", "o_proj", "up_proj", "down_proj"};  // gaps in the fused leaves
  return options;
}

// B away from zero, so that the adapter acts.
std::unique_ptr<Lora> ActingLora(const ModelConfig& config, at::ScalarType dtype) {
  auto lora = Lora::Create(config, SmallLora(), at::TensorOptions(dtype), 4).value();
  for (const NamedTensor& named : lora->named()) {
    at::Tensor tensor = named.tensor;
    if (tensor.size(1) == 3) tensor.copy_(at::linspace(-0.2, 0.3, tensor.numel()).view(tensor.sizes()));
  }
  return lora;
}

void Freeze(Decoder& decoder) {
  for (const Leaf& leaf : decoder.parameters().leaves()) {
    at::Tensor value = leaf.value;
    value.set_requires_grad(false);
  }
}

TEST_CASE("An adapter's gradient is the slope of the loss, and frozen weights get none", "[policy][lora]") {
  for (bool checkpoint : {false, true}) {
    const auto decoder = Decoder::Create(TinyConfig(), {.dtype = at::kDouble, .checkpoint_activations = checkpoint}).value();
    decoder->parameters().Initialize(2);
    Freeze(*decoder);
    const auto lora = ActingLora(TinyConfig(), at::kDouble);
    decoder->UseLora(lora.get());
    REQUIRE(decoder->TrainedLeaves().size() == lora->leaves().size());
    Loss(*decoder).backward();
    for (const Leaf& leaf : decoder->parameters().leaves()) CHECK_FALSE(leaf.value.grad().defined());
    at::NoGradGuard no_grad;
    for (const Leaf& leaf : lora->leaves()) {
      at::Tensor flat = leaf.value.detach().view({-1});
      const int64_t at = flat.size(0) / 3;
      const double kept = flat[at].item<double>(), step = 1e-5;
      flat[at].fill_(kept + step);
      const double up = Loss(*decoder).item<double>();
      flat[at].fill_(kept - step);
      const double down = Loss(*decoder).item<double>();
      flat[at].fill_(kept);
      INFO(leaf.name);
      CHECK_THAT(leaf.value.grad().view({-1})[at].item<double>(),
                 Catch::Matchers::WithinAbs((up - down) / (2 * step), 1e-5));
    }
  }
}

TEST_CASE("The fused adapter of bf16 and the composed one of fp32 agree", "[policy][lora]") {
  const auto wide = MakeDecoder(TinyConfig()), half = MakeDecoder(TinyConfig(), 7, at::kBFloat16);
  at::Tensor flat = wide->parameters().flat();
  flat.copy_(half->parameters().flat());
  const auto wide_lora = ActingLora(TinyConfig(), at::kFloat), half_lora = ActingLora(TinyConfig(), at::kBFloat16);
  for (auto [decoder, lora] : {std::pair{wide.get(), wide_lora.get()}, std::pair{half.get(), half_lora.get()}}) {
    Freeze(*decoder);
    decoder->UseLora(lora);
    Loss(*decoder).backward();
  }
  for (size_t i = 0; i < wide_lora->leaves().size(); ++i) {
    INFO(wide_lora->leaves()[i].name);
    CHECK(RelativeError(half_lora->leaves()[i].value.grad(), wide_lora->leaves()[i].value.grad()) < 0.06);
  }
}

TEST_CASE("A new adapter changes nothing, an acting one does, and taken off it leaves the reference",
          "[policy][lora]") {
  at::NoGradGuard no_grad;
  const auto decoder = MakeDecoder(TinyConfig());
  const double plain = Loss(*decoder).item<double>();
  const auto fresh = Lora::Create(TinyConfig(), SmallLora(), at::TensorOptions(at::kFloat), 4).value();
  decoder->UseLora(fresh.get());
  CHECK(Loss(*decoder).item<double>() == plain);
  const auto acting = ActingLora(TinyConfig(), at::kFloat);
  decoder->UseLora(acting.get());
  CHECK(std::abs(Loss(*decoder).item<double>() - plain) > 0.1);
  decoder->UseLora(nullptr);
  CHECK(Loss(*decoder).item<double>() == plain);
}

TEST_CASE("A merged adapter is the model with the adapter on", "[policy][lora]") {
  at::NoGradGuard no_grad;
  const auto decoder = MakeDecoder(TinyConfig(), 7, at::kDouble);
  const auto lora = ActingLora(TinyConfig(), at::kDouble);
  decoder->UseLora(lora.get());
  const double on = Loss(*decoder).item<double>();
  decoder->UseLora(nullptr);
  lora->MergeInto(decoder->parameters());
  CHECK_THAT(Loss(*decoder).item<double>(), Catch::Matchers::WithinAbs(on, 1e-4));  // the sum is made in fp32
}

TEST_CASE("An adapter folder reads back as it was written, and what cannot be honoured is refused", "[policy][lora]") {
  const TempFolder folder = MemoryFolder("lora");
  const auto lora = ActingLora(TinyConfig(), at::kFloat);
  const std::string path = folder.path() + "/adapter";
  REQUIRE(lora->Save(path, "some/base").ok());
  const auto back = Lora::Load(TinyConfig(), path, at::TensorOptions(at::kFloat)).value();
  CHECK(back->options().rank == 3);
  CHECK(back->options().alpha == 6);
  REQUIRE(back->named().size() == lora->named().size());
  CHECK(lora->named()[0].name == "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
  for (size_t i = 0; i < back->named().size(); ++i) CHECK(at::equal(back->named()[i].tensor, lora->named()[i].tensor));

  ModelConfig other = TinyConfig();
  other.num_hidden_layers = 1;
  CHECK(Lora::Load(other, path, at::TensorOptions(at::kFloat)).status().code() == absl::StatusCode::kInvalidArgument);
  const auto refuses = [&](const char* config, const char* why) {
    std::ofstream(path + "/adapter_config.json") << config;
    const absl::Status status = Lora::Load(TinyConfig(), path, at::TensorOptions(at::kFloat)).status();
    INFO(status.ToString());
    CHECK(status.message().find(why) != absl::string_view::npos);
  };
  refuses(R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6, "use_dora": true, "target_modules": ["q_proj"]})",
          "use_dora = true is not supported");
  refuses(R"({"peft_type": "LORA", "r": 0, "lora_alpha": 6, "target_modules": ["q_proj"]})",
          "rank = 0, allowed [1, 1024]");
  refuses(R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6, "target_modules": ["lm_head"]})", "target \"lm_head\"");
  refuses("[", "not a JSON object");
}

TEST_CASE("A norm's and a gate's backward pass are autograd's", "[policy][model]") {
  const at::Tensor x = at::randn({5, 24}, at::kDouble), w = at::randn({24}, at::kDouble),
                   g = at::randn({5, 24}, at::kDouble);
  const at::Tensor xg = x.clone().requires_grad_(), wg = w.clone().requires_grad_();
  (xg * at::rsqrt(xg.square().mean(-1, true) + 1e-6) * (wg + 1.0)).backward(g);
  const rows::Normed normed = rows::RmsNorm(x, w, 1.0, 1e-6);
  const rows::NormGradients norm = rows::RmsNormBackward(x, w, normed.inverse, g, 1.0, true);
  CHECK(at::allclose(norm.dx, xg.grad()));
  CHECK(at::allclose(norm.dweight, wg.grad()));
  for (GateActivation activation : {GateActivation::kSilu, GateActivation::kGeluTanh}) {
    const at::Tensor gate_up = at::randn({5, 48}, at::kDouble), tracked = gate_up.clone().requires_grad_();
    const std::vector<at::Tensor> halves = tracked.chunk(2, 1);
    const at::Tensor y =
        (activation == GateActivation::kSilu ? at::silu(halves[0]) : at::gelu(halves[0], "tanh")) * halves[1];
    y.backward(g);
    const rows::GatedGradients gated = rows::GatedBackward(gate_up, g, activation);
    CHECK(at::allclose(gated.dgate_up, tracked.grad()));
    CHECK(at::allclose(gated.y, y));
  }
}

}  // namespace
}  // namespace hone::policy

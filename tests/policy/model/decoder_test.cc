#include "tests/support/catch_torch.h"

#include <numeric>
#include <vector>

#include "policy/model/decoder.h"
#include "tests/support/tiny_model.h"

namespace hone::policy {
namespace {

using testing::MakeDecoder;
using testing::TinyConfig;

struct Packed {
  at::Tensor ids, positions, offsets;
};

Packed SomeSequences(const std::vector<int64_t>& lengths, int64_t vocab, int64_t seed) {
  std::vector<int64_t> ids, positions, offsets{0};
  for (int64_t length : lengths) {
    for (int64_t t = 0; t < length; ++t) {
      ids.push_back((seed = (seed * 1103515245 + 12345) % 2147483648) / 7 % vocab);
      positions.push_back(t);
    }
    offsets.push_back(static_cast<int64_t>(ids.size()));
  }
  return {at::tensor(ids, at::kLong), at::tensor(positions, at::kLong), at::tensor(offsets, at::kLong)};
}

at::Tensor HiddenOf(Decoder& decoder, const Packed& p) {
  PackedSequences attention(p.offsets);
  return decoder.Hidden(p.ids, p.positions, attention).value();
}

// Every switch that a family can set.
std::vector<std::pair<const char*, ModelConfig>> Variants() {
  ModelConfig plain = TinyConfig();
  ModelConfig qwen2 = plain;
  qwen2.attention_bias = true;
  qwen2.tie_word_embeddings = false;
  ModelConfig qwen3 = plain;
  qwen3.query_key_norm = true;
  ModelConfig gemma = plain;
  gemma.query_key_norm = gemma.norm_adds_one = gemma.norm_after_blocks = true;
  gemma.activation = GateActivation::kGeluTanh;
  gemma.embedding_scale = 6.9;
  gemma.layer_is_local = {true, false};
  gemma.sliding_window = 5;
  gemma.attention_scale = 0.2;
  gemma.rope.theta = 1e6;
  return {{"plain", plain}, {"qwen2", qwen2}, {"qwen3", qwen3}, {"gemma", gemma}};
}

TEST_CASE("The fp32 CPU kernels agree with ATen in fp64 in log-probs, entropies and every gradient", "[policy][model]") {
  for (const auto& [name, config] : Variants()) {
    INFO(name);
    const auto fast = MakeDecoder(config);
    const auto exact = MakeDecoder(config, 7, at::kDouble);
    for (size_t i = 0; i < fast->parameters().named().size(); ++i) {
      at::Tensor norm = fast->parameters().named()[i].tensor;
      if (norm.dim() == 1) norm.add_(at::linspace(-0.3, 0.5, norm.numel()));  // norms and biases away from their start
      at::Tensor wide = exact->parameters().named()[i].tensor;
      wide.copy_(norm);
    }
    const Packed p = SomeSequences({1, 33, 17, 16, 2}, config.vocab_size, 5);
    const at::Tensor targets = p.ids.roll(-1);
    const at::Tensor pull = at::linspace(-1, 1, p.ids.size(0)), push = at::linspace(0.5, -0.7, p.ids.size(0));
    for (Decoder* decoder : {fast.get(), exact.get()}) {
      const LogProbs out = decoder->TargetLogProbs(HiddenOf(*decoder, p), targets, 0.8).value();
      (out.log_probs * pull + out.entropy * push).sum().backward();
    }
    const LogProbs a = fast->TargetLogProbs(HiddenOf(*fast, p), targets, 0.8).value();
    const LogProbs b = exact->TargetLogProbs(HiddenOf(*exact, p), targets, 0.8).value();
    CHECK((a.log_probs - b.log_probs).abs().max().item<double>() < 2e-5);
    CHECK((a.entropy - b.entropy).abs().max().item<double>() < 2e-5);
    for (size_t i = 0; i < fast->parameters().leaves().size(); ++i) {
      const Leaf& leaf = fast->parameters().leaves()[i];
      const at::Tensor wanted = exact->parameters().leaves()[i].value.grad();
      INFO(leaf.name);
      CHECK((leaf.value.grad() - wanted).abs().max().item<double>() < 1e-4 * (1 + wanted.abs().max().item<double>()));
    }
  }
}

TEST_CASE("The fp64 gradient is the slope of the loss", "[policy][model]") {
  const auto decoder = MakeDecoder(TinyConfig(), 3, at::kDouble);
  const Packed p = SomeSequences({9, 4}, 37, 8);
  const auto loss = [&] { return decoder->TargetLogProbs(HiddenOf(*decoder, p), p.ids.roll(-1), 1.0).value().log_probs.sum(); };
  loss().backward();
  at::NoGradGuard no_grad;
  for (const Leaf& leaf : decoder->parameters().leaves()) {
    at::Tensor flat = leaf.value.view({-1});
    const int64_t at = flat.size(0) / 3;
    const double kept = flat[at].item<double>(), step = 1e-5;
    flat[at].fill_(kept + step);
    const double up = loss().item<double>();
    flat[at].fill_(kept - step);
    const double down = loss().item<double>();
    flat[at].fill_(kept);
    INFO(leaf.name);
    CHECK_THAT(leaf.value.grad().view({-1})[at].item<double>(), Catch::Matchers::WithinAbs((up - down) / (2 * step), 1e-5));
  }
}

TEST_CASE("A packed forward and a cached forward, token by token or in chunks, give the same bits", "[policy][model]") {
  at::NoGradGuard no_grad;
  for (const auto& [name, config] : Variants()) {
    INFO(name);
    const auto decoder = MakeDecoder(config);
    const Packed p = SomeSequences({70, 23, 5}, config.vocab_size, 11);
    const at::Tensor packed = HiddenOf(*decoder, p);
    KeyValuePages pages(config, 64);
    const int64_t* off = p.offsets.const_data_ptr<int64_t>();
    int32_t next_page = 63;
    for (int64_t s = 0; s < 3; ++s) {
      std::vector<int32_t> table;
      for (int64_t b = 0; b < 5; ++b) table.push_back(next_page--);
      const int64_t length = off[s + 1] - off[s];
      // First a chunk of three, then one at a time.
      for (int64_t begin = 0, count; begin < length; begin += count) {
        count = begin == 0 ? std::min<int64_t>(3, length) : 1;
        std::vector<PagedTokens::Row> rows;
        for (int64_t t = begin; t < begin + count; ++t) rows.push_back({table.data(), t});
        PagedTokens attention(pages, rows);
        const at::Tensor out = decoder->Hidden(p.ids.narrow(0, off[s] + begin, count), p.positions.narrow(0, off[s] + begin, count), attention).value();
        REQUIRE(at::equal(out, packed.narrow(0, off[s] + begin, count)));
      }
    }
    const at::Tensor logits = decoder->Logits(packed).value();
    for (int64_t r : {0, 69, 70, 97}) CHECK(at::equal(decoder->Logits(packed.narrow(0, r, 1)).value(), logits.narrow(0, r, 1)));
  }
}

TEST_CASE("A sequence's result does not depend on its neighbours in the pack", "[policy][model]") {
  at::NoGradGuard no_grad;
  const auto decoder = MakeDecoder(TinyConfig());
  const Packed many = SomeSequences({19, 40, 3}, 37, 2);
  const Packed one{many.ids.narrow(0, 19, 40), many.positions.narrow(0, 19, 40), at::tensor({int64_t{0}, int64_t{40}}, at::kLong)};
  CHECK(at::equal(HiddenOf(*decoder, many).narrow(0, 19, 40), HiddenOf(*decoder, one)));
}

TEST_CASE("Log-probs and gradients do not depend on the vocabulary chunk", "[policy][model]") {
  const auto decoder = MakeDecoder(TinyConfig());
  PackedWeight packed;
  const at::Tensor hidden = at::randn({23, 48}), weight = decoder->parameters().leaf("model.embed_tokens.weight");
  const at::Tensor targets = at::arange(23, at::kLong);
  std::vector<at::Tensor> values, gradients;
  for (int64_t chunk : {int64_t{1} << 24, int64_t{37 * 5}}) {
    const at::Tensor h = hidden.clone().requires_grad_(true);
    const LogProbs out = TokenLogProbs(h, weight, packed, targets, 1.3, chunk);
    (out.log_probs.sum() + 0.1 * out.entropy.sum()).backward();
    values.push_back(out.log_probs.detach());
    gradients.push_back(h.grad());
  }
  CHECK(at::equal(values[0], values[1]));
  CHECK(at::allclose(gradients[0], gradients[1], 1e-5, 1e-6));
}

TEST_CASE("Weights changed in place are seen by the next forward", "[policy][model]") {
  at::NoGradGuard no_grad;
  const auto decoder = MakeDecoder(TinyConfig());
  const Packed p = SomeSequences({8}, 37, 2);
  const at::Tensor before = HiddenOf(*decoder, p);
  at::Tensor weight = decoder->parameters().leaf("model.layers.1.mlp.down_proj.weight");
  weight.mul_(2);
  CHECK_FALSE(at::equal(HiddenOf(*decoder, p), before));
  weight.mul_(0.5);
  CHECK(at::equal(HiddenOf(*decoder, p), before));
}

TEST_CASE("HF names cover every weight once, and loading them back is exact", "[policy][model]") {
  const auto from = MakeDecoder(TinyConfig(), 1), to = MakeDecoder(TinyConfig(), 2);
  int64_t sum = 0;
  for (const NamedTensor& t : from->parameters().named()) sum += t.tensor.numel();
  CHECK(sum == from->parameters().count());
  REQUIRE(to->parameters().Load(from->parameters().named()).ok());
  CHECK(at::equal(from->parameters().flat(), to->parameters().flat()));

  std::vector<NamedTensor> cut = from->parameters().named();
  cut.pop_back();
  CHECK(to->parameters().Load(cut).message() == "weight model.norm.weight is missing");
  cut.push_back({"model.norm.weight", at::zeros({47})});
  CHECK(to->parameters().Load(cut).message() == "weight model.norm.weight has shape [47], the model needs [48]");
  cut.back() = {"model.norm.bias", at::zeros({48})};
  CHECK(to->parameters().Load(cut).message() == "weight model.norm.bias is not part of the model");
}

TEST_CASE("Bad ids, positions and configurations are named", "[policy][model]") {
  const auto decoder = MakeDecoder(TinyConfig());
  PackedSequences attention(at::tensor({int64_t{0}, int64_t{1}}, at::kLong));
  const at::Tensor zero = at::zeros({1}, at::kLong);
  CHECK(decoder->Hidden(zero + 37, zero, attention).status().message() == "id 37 of token 0 is outside [0, 37)");
  CHECK(decoder->Hidden(zero, zero + 256, attention).status().message() == "position 256 of token 0 is outside [0, 256)");
  ModelConfig bad = TinyConfig();
  bad.num_key_value_heads = 3;
  CHECK(Decoder::Create(bad).status().message() ==
        "model config: num_attention_heads = 4 is not a multiple of num_key_value_heads = 3");
}

}  // namespace
}  // namespace hone::policy

#include "rollout/engine/cuda/token_step.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/rollout/engine/emulated/gpu.h"

// The one kernel of a decode step, run thread by thread on the CPU, against the model written out in plain loops.

namespace hone::rollout::cuda {
namespace {

using Bf16 = __nv_bfloat16;
using Row = std::vector<float>;

constexpr int kSharedBytes = 232448;  // of an H200's block

float Rounded(double x) { return __bfloat162float(__float2bfloat16_rn(static_cast<float>(x))); }

// Random numbers on a 16-byte boundary.
class Numbers {
 public:
  Numbers(std::mt19937& random, int64_t count, double spread, double around = 0) : bytes_(count * 2 + 16) {
    data_ = reinterpret_cast<Bf16*>((reinterpret_cast<uintptr_t>(bytes_.data()) + 15) / 16 * 16);
    std::normal_distribution<float> normal(static_cast<float>(around), static_cast<float>(spread));
    for (int64_t i = 0; i < count; ++i) data_[i] = __float2bfloat16_rn(spread == 0 ? static_cast<float>(around) : normal(random));
  }
  Bf16* data() const { return data_; }

 private:
  std::vector<unsigned char> bytes_;
  Bf16* data_;
};

struct Case {
  TokenShape shape;
  int position, blocks;
  bool bias, head_norms;
  int shared_bytes = kSharedBytes;
};

// A model with its cache, and a step of it.
class Model {
 public:
  explicit Model(const Case& c) : case_(c), random_(c.position + 1) {
    const TokenShape& s = c.shape;
    const int qkv = QkvSize(), attended = s.heads * s.head_dim;
    for (int i = 0; i < s.layers; ++i) {
      layers_.push_back({Make(s.hidden, 0.1, 1), Matrix(qkv, s.hidden), c.bias ? Make(qkv, 0.5) : nullptr, c.head_norms ? Make(s.head_dim, 0.1, 1) : nullptr,
                         c.head_norms ? Make(s.head_dim, 0.1, 1) : nullptr, Matrix(s.hidden, attended), Make(s.hidden, 0.1, 1),
                         Matrix(2 * s.intermediate, s.hidden), Matrix(s.hidden, s.intermediate)});
    }
    const int pages = c.position / kPagePositions + 2;
    for (int i = 0; i < pages; ++i) table_.push_back(pages - 1 - i);
    page_ = 2 * s.kv_heads * kPagePositions * s.head_dim;
    logits_.resize(s.vocab);
    words_.resize(TokenStepWords(s) + 4, 0xffffffffu);
    args_.shape = s;
    args_.layers = layers_.data();
    args_.embedding = Make(int64_t{s.vocab} * s.hidden, 1);
    args_.final_norm = Make(s.hidden, 0.1, 1);
    args_.head = Matrix(s.vocab, s.hidden);
    args_.sources = &source_;
    args_.positions = &case_.position;
    args_.tables = table_.data();
    args_.layer_stride = page_ * pages;
    args_.pages = Make(args_.layer_stride * s.layers, 1);
    args_.angles = Make((c.position + 1) * s.head_dim, 1);
    args_.norm_eps = 1e-6f;
    args_.scale = static_cast<float>(1 / std::sqrt(s.head_dim));
    args_.words = reinterpret_cast<uint32_t*>((reinterpret_cast<uintptr_t>(words_.data()) + 15) / 16 * 16);
    args_.logits = logits_.data();
    args_.steps = steps_;
    args_.processors = c.blocks;
    args_.shared_bytes = c.shared_bytes;
  }

  TokenStepArgs& args() { return args_; }
  const int32_t* steps() const { return steps_; }
  Row Step() {
    logits_.assign(logits_.size(), std::nanf(""));
    REQUIRE(TokenStep(args_, nullptr) == cudaSuccess);
    return logits_;
  }

  // The same step; keys and values of earlier tokens are read from the cache.
  Row Plain() const {
    const TokenShape& s = case_.shape;
    Row x = Read(args_.embedding + int64_t{source_} * s.hidden, s.hidden);
    for (int i = 0; i < s.layers; ++i) {
      const TokenLayer& layer = layers_[i];
      Row qkv = Product(layer.qkv, Norm(x, layer.input_norm), QkvSize());
      for (int n = 0; n < QkvSize(); ++n) qkv[n] = Rounded(qkv[n] + (layer.qkv_bias == nullptr ? 0 : __bfloat162float(layer.qkv_bias[n])));
      for (int head = 0; head < s.heads + s.kv_heads; ++head) Turn(&qkv[head * s.head_dim], head < s.heads ? layer.query_norm : layer.key_norm);
      Add(x, Product(layer.output, Attended(qkv, i), s.hidden));
      const Row both = Product(layer.gate_up, Norm(x, layer.mlp_norm), 2 * s.intermediate);
      Row gated(s.intermediate);
      for (int n = 0; n < s.intermediate; ++n) {
        const float gate = Rounded(both[n]);
        gated[n] = Rounded(Rounded(gate / (1 + std::exp(-gate))) * Rounded(both[s.intermediate + n]));
      }
      Add(x, Product(layer.down, gated, s.hidden));
    }
    return Product(args_.head, Norm(x, args_.final_norm), s.vocab);
  }

 private:
  int QkvSize() const { return (case_.shape.heads + 2 * case_.shape.kv_heads) * case_.shape.head_dim; }
  Bf16* Make(int64_t count, double spread, double around = 0) {
    kept_.push_back(std::make_unique<Numbers>(random_, count, spread, around));
    return kept_.back()->data();
  }
  Bf16* Matrix(int out, int in) { return Make(int64_t{out} * in, 1 / std::sqrt(in)); }

  static Row Read(const Bf16* from, int count) {
    Row row(count);
    for (int i = 0; i < count; ++i) row[i] = __bfloat162float(from[i]);
    return row;
  }
  static Row Product(const Bf16* weight, const Row& x, int out) {
    Row y(out);
    for (int n = 0; n < out; ++n) {
      double sum = 0;
      for (size_t k = 0; k < x.size(); ++k) sum += static_cast<double>(__bfloat162float(weight[n * x.size() + k])) * x[k];
      y[n] = static_cast<float>(sum);
    }
    return y;
  }
  static void Add(Row& x, const Row& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = Rounded(x[i] + Rounded(y[i]));
  }
  static Row Norm(const Row& x, const Bf16* weight) {
    double squares = 0;
    for (float v : x) squares += static_cast<double>(v) * v;
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = Rounded(Rounded(x[i] * inverse) * __bfloat162float(weight[i]));
    return y;
  }
  void Turn(float* head, const Bf16* norm) const {
    const int dim = case_.shape.head_dim, half = dim / 2;
    if (norm != nullptr) {
      const Row normed = Norm(Row(head, head + dim), norm);
      std::copy(normed.begin(), normed.end(), head);
    }
    for (int i = 0; i < half; ++i) {
      const Bf16* angle = args_.angles + (int64_t{case_.position} * half + i) * 2;
      const float c = __bfloat162float(angle[0]), s = __bfloat162float(angle[1]), a = head[i], b = head[i + half];
      head[i] = Rounded(Rounded(a * c) - Rounded(b * s));
      head[i + half] = Rounded(Rounded(b * c) + Rounded(a * s));
    }
  }
  // part 0: keys, 1: values.
  float Cached(const Row& qkv, int layer, int part, int kv, int position, int d) const {
    const TokenShape& s = case_.shape;
    if (position == case_.position) return qkv[(s.heads + part * s.kv_heads + kv) * s.head_dim + d];
    const Bf16* page = args_.pages + layer * args_.layer_stride + table_[position / kPagePositions] * page_;
    return __bfloat162float(page[((part * s.kv_heads + kv) * kPagePositions + position % kPagePositions) * s.head_dim + d]);
  }
  Row Attended(const Row& qkv, int layer) const {
    const TokenShape& s = case_.shape;
    Row out(s.heads * s.head_dim);
    for (int head = 0; head < s.heads; ++head) {
      const int kv = head / (s.heads / s.kv_heads);
      std::vector<double> weights(case_.position + 1);
      double top = -INFINITY, total = 0;
      for (int p = 0; p <= case_.position; ++p) {
        for (int d = 0; d < s.head_dim; ++d) weights[p] += static_cast<double>(qkv[head * s.head_dim + d]) * Cached(qkv, layer, 0, kv, p, d);
        weights[p] /= std::sqrt(s.head_dim);
        top = std::max(top, weights[p]);
      }
      for (double& w : weights) total += w = std::exp(w - top);
      for (int d = 0; d < s.head_dim; ++d) {
        double sum = 0;
        for (int p = 0; p <= case_.position; ++p) sum += weights[p] * Cached(qkv, layer, 1, kv, p, d);
        out[head * s.head_dim + d] = Rounded(sum / total);
      }
    }
    return out;
  }

  Case case_;
  std::mt19937 random_;
  int32_t source_ = 7, steps_[2] = {};
  int64_t page_ = 0;
  std::vector<std::unique_ptr<Numbers>> kept_;
  std::vector<TokenLayer> layers_;
  std::vector<int32_t> table_;
  std::vector<uint32_t> words_;
  Row logits_;
  TokenStepArgs args_;
};

// Rows of a product that fill a tile, share one or come in pieces; one position, a full page, several rounds of pages; a
// ring that is gone round many times; rows that are shared by several warps.
const Case kCases[] = {
    {{2, 256, 520, 101, 6, 2, 64}, 5, 4, true, false},   {{1, 64, 72, 37, 4, 4, 64}, 0, 4, true, false},
    {{1, 256, 264, 101, 6, 2, 128}, 15, 6, false, true}, {{1, 256, 264, 101, 2, 2, 128}, 16, 6, true, true},
    {{1, 128, 264, 67, 2, 1, 64}, 300, 3, false, false}, {{2, 256, 264, 1501, 2, 1, 64}, 40, 3, false, false, 38000},
    {{1, 1544, 1640, 67, 2, 1, 64}, 20, 14, true, false},
};

TEST_CASE("One kernel computes a decode step, whatever order its threads run in and its copies arrive in", "[rollout][engine]") {
  for (const Case& c : kCases) {
    INFO("hidden " << c.shape.hidden << " head_dim " << c.shape.head_dim << " position " << c.position << " blocks " << c.blocks);
    Model model(c);
    const Row wanted = model.Plain(), got = model.Step();
    double squares = 0, worst = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      squares += wanted[i] * wanted[i];
      worst = std::isnan(got[i]) ? INFINITY : std::max<double>(worst, std::abs(wanted[i] - got[i]));
    }
    CHECK(worst < 0.06 * std::sqrt(squares / static_cast<double>(wanted.size())));
    CHECK(model.Step() == got);  // its own keys and values are in the cache now, and nothing else has changed
    CHECK(model.steps()[0] == 2);
    CHECK(model.steps()[1] == 0);
  }
}

TEST_CASE("Blocks that wait in vain for another one end the kernel with an error", "[rollout][engine]") {
  for (const int64_t after : {0, 40, 300}) {
    Model model(kCases[0]);
    emulated::LoseWord(after);
    CHECK_THROWS_AS(TokenStep(model.args(), nullptr), std::runtime_error);
  }
}

TEST_CASE("A step is right when the count of steps wraps around", "[rollout][engine]") {
  Model model(kCases[0]);
  const Row wanted = model.Step();
  for (const uint32_t steps : {65535u / 4, 65536u / 4, 0xffffffffu / 4, 0xffffffffu}) {
    model.args().steps[0] = static_cast<int32_t>(steps);
    CHECK(model.Step() == wanted);
    CHECK(model.Step() == wanted);
  }
}

TEST_CASE("What the kernel has no room for is refused", "[rollout][engine]") {
  const TokenShape qwen{28, 1536, 8960, 151936, 12, 2, 128};
  CHECK(TokenStepServes(qwen, 132, kSharedBytes));
  CHECK(TokenStepServes({36, 4096, 12288, 151936, 32, 8, 128}, 132, kSharedBytes));
  CHECK_FALSE(TokenStepServes(qwen, 132, 65536));   // no ring
  CHECK_FALSE(TokenStepServes(qwen, 2, kSharedBytes));  // too many rows a block
  TokenShape other = qwen;
  other.head_dim = 256;
  CHECK_FALSE(TokenStepServes(other, 132, kSharedBytes));
  other = qwen;
  other.heads = 40;  // 20 queries a key head
  CHECK_FALSE(TokenStepServes(other, 132, kSharedBytes));
  TokenStepArgs args;
  args.shape = other;
  args.processors = 132;
  args.shared_bytes = kSharedBytes;
  CHECK(TokenStep(args, nullptr) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hone::rollout::cuda

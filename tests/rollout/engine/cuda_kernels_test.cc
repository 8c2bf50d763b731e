#include "tests/support/catch_torch.h"

#include <cmath>
#include <vector>

#include "policy/model/decoder.h"
#include "policy/model/device.h"
#include "policy/model/rows.h"
#include "rollout/engine/cuda/cuda_decoder.h"
#include "rollout/engine/cuda/gemv.h"
#include "rollout/engine/cuda/paged_attention.h"
#include "rollout/engine/cuda/rows.h"
#include "rollout/engine/cuda/sample.h"
#include "rollout/engine/philox.h"
#include "rollout/engine/token_sampler.h"

// Every kernel against the plain version in torch. Skips where there is no GPU.

#define HONE_NEEDS_GPU() \
  if (const auto found = policy::FindDevice("cuda"); !found.ok()) SKIP(found.status().message())

namespace hone::rollout::cuda {
namespace {

using at::Tensor;

at::TensorOptions Bf16s() { return at::TensorOptions(at::kCUDA).dtype(at::kBFloat16); }
at::TensorOptions Int32s() { return at::TensorOptions(at::kCUDA).dtype(at::kInt); }
__nv_bfloat16* Data(const Tensor& t) { return static_cast<__nv_bfloat16*>(t.data_ptr()); }
cudaStream_t Stream() { return static_cast<cudaStream_t>(policy::CurrentStream(at::Device(at::kCUDA, 0))); }
Tensor Random(at::IntArrayRef shape, double scale = 1) { return at::randn(shape, Bf16s()).mul_(scale); }
Tensor Float(const Tensor& t) { return t.to(at::kFloat); }

// Largest difference in units of the values' own bf16 spacing, with a floor at the mean size.
double WorstUnits(const Tensor& got, const Tensor& want) {
  const Tensor g = Float(got), w = Float(want);
  const Tensor unit = at::maximum(w.abs(), w.abs().mean()) / 128;
  return ((g - w).abs() / unit).max().item<double>();
}

TEST_CASE("Gemv gives the product of one, two or four rows, with its norm, bias, residual and gate", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  at::manual_seed(1);
  struct Size { int in, out; };
  for (const int rows : {1, 2, 4}) {
    for (const Size size : {Size{1536, 2048}, Size{8960, 1536}, Size{4096, 6144}, Size{64, 10}, Size{264, 151}, Size{12288, 4096}}) {
      const Tensor x = Random({rows, size.in}), weight = Random({size.out, size.in}, 1 / std::sqrt(size.in)), bias = Random({size.out});
      const Tensor norm = Random({size.in}, 0.1) + 1;
      GemvArgs args;
      args.x = Data(x);
      args.weight = Data(weight);
      args.rows = rows;
      args.in = size.in;
      args.out = size.out;
      args.norm_eps = 1e-6f;
      const Tensor wanted = at::linear(Float(x), Float(weight));
      INFO("rows " << rows << " in " << size.in << " out " << size.out);

      Tensor y = at::empty({rows, size.out}, Bf16s());
      args.y = y.data_ptr();
      args.bias = Data(bias);
      REQUIRE(Gemv(args, Stream()) == cudaSuccess);
      CHECK(WorstUnits(y, wanted + Float(bias)) < 1.1);
      args.bias = nullptr;

      Tensor logits = at::empty({rows, size.out}, Bf16s().dtype(at::kFloat));
      args.y = logits.data_ptr();
      args.output = GemvOutput::kLogits;
      REQUIRE(Gemv(args, Stream()) == cudaSuccess);
      CHECK((logits - wanted).abs().max().item<double>() < 2e-4);

      const Tensor before = Random({rows, size.out});
      y = before.clone();
      args.y = y.data_ptr();
      args.output = GemvOutput::kAdd;
      REQUIRE(Gemv(args, Stream()) == cudaSuccess);
      CHECK(WorstUnits(y, wanted + Float(before)) < 2.1);

      y = at::empty({rows, size.out}, Bf16s());
      args.y = y.data_ptr();
      args.output = GemvOutput::kStore;
      args.norm = Data(norm);
      for (const float offset : {0.0f, 1.0f}) {
        args.norm_offset = offset;
        REQUIRE(Gemv(args, Stream()) == cudaSuccess);
        CHECK(WorstUnits(y, at::linear(Float(policy::rows::RmsNorm(x, norm, offset, 1e-6).y), Float(weight))) < 1.6);
      }
      args.norm = nullptr;

      if (size.out % 2 != 0) continue;
      y = at::empty({rows, size.out / 2}, Bf16s());
      args.y = y.data_ptr();
      args.out = size.out / 2;
      args.output = GemvOutput::kGated;
      for (const bool gelu : {false, true}) {
        args.gelu = gelu;
        REQUIRE(Gemv(args, Stream()) == cudaSuccess);
        const Tensor plain = policy::rows::Gated(wanted.to(at::kBFloat16), gelu ? policy::GateActivation::kGeluTanh : policy::GateActivation::kSilu);
        CHECK(WorstUnits(y, plain) < 3.1);
      }
    }
  }
}

TEST_CASE("A row through Gemv has the same bits alone and among others", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  at::manual_seed(2);
  const Tensor x = Random({4, 1536}), weight = Random({2048, 1536}, 0.02);
  const auto run = [&](const Tensor& input) {
    Tensor y = at::empty({input.size(0), 2048}, Bf16s());
    GemvArgs args;
    args.x = Data(input);
    args.weight = Data(weight);
    args.y = y.data_ptr();
    args.rows = static_cast<int>(input.size(0));
    args.in = 1536;
    args.out = 2048;
    REQUIRE(Gemv(args, Stream()) == cudaSuccess);
    return y;
  };
  const Tensor four = run(x), two = run(x.narrow(0, 2, 2).contiguous()), one = run(x.narrow(0, 3, 1).contiguous());
  CHECK(at::equal(four.narrow(0, 2, 2), two));
  CHECK(at::equal(four.narrow(0, 3, 1), one));
}

TEST_CASE("Residual, norms and gate round as the plain version does", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  at::manual_seed(3);
  for (const int64_t width : {64, 1536, 2560, 4096, 8192}) {
    const Tensor x = Random({5, width}), delta = Random({5, width}), norm = Random({width}, 0.1) + 1, after = Random({width}, 0.1) + 1;
    for (const double offset : {0.0, 1.0}) {
      for (const bool with_after : {false, true}) {
        Tensor sum = x.clone(), out = at::empty_like(x);
        AddNormArgs args;
        args.x = Data(sum);
        args.delta = Data(delta);
        args.delta_norm = with_after ? Data(after) : nullptr;
        args.norm = Data(norm);
        args.out = Data(out);
        args.rows = 5;
        args.width = static_cast<int>(width);
        args.norm_offset = static_cast<float>(offset);
        args.norm_eps = 1e-6f;
        REQUIRE(AddNorm(args, Stream()) == cudaSuccess);
        const Tensor plain_sum = x + (with_after ? policy::rows::RmsNorm(delta, after, offset, 1e-6).y : delta);
        CHECK(WorstUnits(sum, plain_sum) < 1.1);
        CHECK(WorstUnits(out, policy::rows::RmsNorm(sum, norm, offset, 1e-6).y) < 1.1);
      }
    }
    const Tensor gate_up = Random({5, 2 * width});
    Tensor out = at::empty({5, width}, Bf16s());
    for (const bool gelu : {false, true}) {
      REQUIRE(Gate({Data(gate_up), Data(out), 5, static_cast<int>(width), gelu}, Stream()) == cudaSuccess);
      CHECK(WorstUnits(out, policy::rows::Gated(gate_up, gelu ? policy::GateActivation::kGeluTanh : policy::GateActivation::kSilu)) < 1.1);
    }
  }
}

// Random pages, tables and a plain attention over them.
struct Paged {
  int64_t heads, kv_heads, dim, rows, table_stride;
  std::vector<int32_t> positions;
  Tensor pages, tables, qkv, angles, device_positions;

  Paged(int64_t heads_in, int64_t kv_heads_in, int64_t dim_in, std::vector<int32_t> at_positions)
      : heads(heads_in), kv_heads(kv_heads_in), dim(dim_in), rows(static_cast<int64_t>(at_positions.size())), positions(std::move(at_positions)) {
    table_stride = 1;
    for (int32_t p : positions) table_stride = std::max<int64_t>(table_stride, p / kPagePositions + 1);
    const int64_t count = rows * table_stride;
    pages = Random({count, 2, kv_heads, kPagePositions, dim});
    tables = at::randperm(count, at::kInt).view({rows, table_stride}).to(at::kCUDA);
    qkv = Random({rows, (heads + 2 * kv_heads) * dim});
    const Tensor turns = at::arange(table_stride * kPagePositions, Bf16s().dtype(at::kDouble)).unsqueeze(1) *
                         at::pow(10000.0, -at::arange(dim / 2, Bf16s().dtype(at::kDouble)) / (dim / 2)).unsqueeze(0);
    angles = at::stack({turns.cos(), turns.sin()}, 2).to(at::kFloat).to(at::kBFloat16).contiguous();
    device_positions = at::tensor(positions, at::kInt).to(at::kCUDA);
  }

  // The rows' queries, keys and values, rotated by the plain version.
  Tensor Rotated(const Tensor& query_norm = {}, const Tensor& key_norm = {}) const {
    const Tensor chosen = Float(angles.index_select(0, device_positions.to(at::kLong)));
    return policy::rows::NormRotate(qkv, {query_norm, key_norm, 0, 1e-6}, chosen.select(2, 0).contiguous(), chosen.select(2, 1).contiguous(),
                                    {heads, kv_heads, dim, 1, 0});
  }

  Tensor Plain(const Tensor& rotated, int64_t row, int64_t window, double scale) const {
    const int64_t length = positions[row] + 1, first = window > 0 ? std::max<int64_t>(0, length - window) : 0;
    const Tensor own = tables[row].to(at::kLong).narrow(0, 0, (length + kPagePositions - 1) / kPagePositions);
    const Tensor chosen = pages.index_select(0, own);  // [pages, 2, kv_heads, kPagePositions, dim]
    const auto gather = [&](int64_t which) {
      return Float(chosen.select(1, which).permute({1, 0, 2, 3}).reshape({kv_heads, -1, dim}).narrow(1, first, length - first)).clone();
    };
    Tensor keys = gather(0), values = gather(1);
    keys.select(1, length - first - 1).copy_(rotated[row].narrow(0, heads * dim, kv_heads * dim).view({kv_heads, dim}));
    values.select(1, length - first - 1).copy_(rotated[row].narrow(0, (heads + kv_heads) * dim, kv_heads * dim).view({kv_heads, dim}));
    const Tensor queries = Float(rotated[row].narrow(0, 0, heads * dim).view({kv_heads, heads / kv_heads, dim}));
    return at::matmul(at::softmax(at::matmul(queries, keys.transpose(1, 2)) * scale, -1), values).reshape({heads * dim});
  }
};

TEST_CASE("Paged attention agrees with plain attention over the same pages", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  at::manual_seed(4);
  struct Shape { int64_t heads, kv_heads, dim; };
  for (const Shape shape : {Shape{12, 2, 128}, Shape{32, 8, 128}, Shape{4, 4, 64}, Shape{14, 2, 64}, Shape{8, 4, 256}, Shape{40, 2, 128}}) {
    for (const int64_t window : {0, 50}) {
      for (const int split : {128, 256}) {
        for (const int warps : {3, 4, 8}) {
          for (const bool normed : {false, true}) {
            Paged c(shape.heads, shape.kv_heads, shape.dim, {0, 15, 16, 100, 127, 128, 511, 700});
            const Tensor query_norm = normed ? Random({shape.dim}, 0.1) + 1 : Tensor(), key_norm = normed ? Random({shape.dim}, 0.1) + 1 : Tensor();
            const Tensor rotated = c.Rotated(query_norm, key_norm);
            const int splits = static_cast<int>((c.table_stride * kPagePositions + split - 1) / split);
            const Tensor partial = at::empty({PagedAttentionScratch(static_cast<int>(c.rows), static_cast<int>(c.heads), static_cast<int>(c.dim), splits)}, Bf16s().dtype(at::kFloat));
            const Tensor arrived = at::zeros({c.rows * c.heads}, Int32s());
            Tensor out = at::full({c.rows, c.heads * c.dim}, std::nan(""), Bf16s());
            PagedAttentionArgs args;
            args.qkv = Data(c.qkv);
            args.out = Data(out);
            args.positions = c.device_positions.const_data_ptr<int32_t>();
            args.tables = c.tables.const_data_ptr<int32_t>();
            args.pages = {Data(c.pages), static_cast<int>(c.kv_heads), static_cast<int>(c.dim)};
            args.rotate.angles = Data(c.angles);
            if (normed) {
              args.rotate.query_norm = Data(query_norm);
              args.rotate.key_norm = Data(key_norm);
            }
            args.rotate.norm_eps = 1e-6f;
            args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.dim)));
            args.window = static_cast<int>(window);
            args.rows = static_cast<int>(c.rows);
            args.heads = static_cast<int>(c.heads);
            args.table_stride = static_cast<int>(c.table_stride);
            args.split_positions = split;
            args.max_splits = splits;
            args.warps = warps;
            args.partial = partial.mutable_data_ptr<float>();
            args.arrived = arrived.mutable_data_ptr<int32_t>();
            REQUIRE(PagedAttention(args, Stream()) == cudaSuccess);
            REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
            INFO("heads " << c.heads << " kv " << c.kv_heads << " dim " << c.dim << " window " << window << " split " << split << " warps " << warps << " normed " << normed);
            double worst = 0;
            for (int64_t row = 0; row < c.rows; ++row) {
              worst = std::max(worst, WorstUnits(out[row], c.Plain(rotated, row, window, args.scale)));
            }
            CHECK(worst < 2.5);
            CHECK(arrived.abs().max().item<int>() == 0);
            // Again: the new keys lie in their pages now, and the result has the same bits.
            const Tensor first = out.clone();
            args.prepared = true;
            args.qkv = Data(rotated);
            REQUIRE(PagedAttention(args, Stream()) == cudaSuccess);
            CHECK(at::equal(out, first));
          }
        }
      }
    }
  }
}

policy::ModelConfig StepConfig(int64_t hidden, int64_t intermediate, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  policy::ModelConfig config;
  config.vocab_size = 5003;
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.num_hidden_layers = 2;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = head_dim;
  config.max_position_embeddings = 4096;
  return config;
}

TEST_CASE("A step of one sequence in one kernel agrees with the kernels for several rows", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  at::NoGradGuard no_grad;
  std::vector<policy::ModelConfig> configs{StepConfig(1536, 8960, 12, 2, 128), StepConfig(4096, 12288, 32, 8, 128), StepConfig(256, 520, 6, 2, 64),
                                           StepConfig(2056, 5504, 16, 16, 128)};
  configs[0].attention_bias = true;
  configs[1].query_key_norm = true;
  configs[1].tie_word_embeddings = false;
  for (const policy::ModelConfig& config : configs) {
    const auto decoder = policy::Decoder::Create(config, {at::Device(at::kCUDA, 0), at::kBFloat16}).value();
    decoder->parameters().Initialize(3);
    for (const policy::NamedTensor& named : decoder->parameters().named()) {
      Tensor tensor = named.tensor;
      if (named.name.ends_with("bias")) tensor.normal_(0, 0.3);
      if (named.name.ends_with("norm.weight")) tensor.normal_(1, 0.2);
    }
    const int64_t stride = 256;
    const auto forward = CudaDecoder::Create(*decoder, stride, false).value();
    const DecodeBuffers buffers = forward->MakeBuffers(2, stride);
    const Tensor tables = (stride - 1 - at::arange(stride, at::kInt)).expand({2, stride}).contiguous().to(at::kCUDA);
    for (const int32_t length : {1, 15, 16, 300, 2300}) {
      INFO("hidden " << config.hidden_size << " length " << length);
      std::vector<int32_t> ids, positions, slots;
      for (int32_t t = 0; t < length; ++t) {
        ids.push_back((7 * t + 11) % 5003);
        positions.push_back(t);
        slots.push_back((static_cast<int32_t>(stride) - 1 - t / kPagePositions) * kPagePositions + t % kPagePositions);
      }
      const auto ints = [](const std::vector<int32_t>& v) { return at::tensor(v, at::kInt).to(at::kCUDA); };
      PrefillInput prompt;
      prompt.ids = ints(ids);
      prompt.positions = ints(positions);
      prompt.slots = ints(slots);
      prompt.query_offsets = prompt.key_offsets = ints({0, length});
      prompt.wanted = ints({length - 1});
      prompt.max_queries = prompt.max_keys = length;
      forward->Prefill(prompt);
      const Tensor source = ints({99, 99}), position = ints({length, length});
      DecodeInput step;
      step.sources = source.const_data_ptr<int32_t>();
      step.positions = position.const_data_ptr<int32_t>();
      step.tables = tables.const_data_ptr<int32_t>();
      step.table_stride = static_cast<int>(stride);
      const auto logits = [&](int rows) {
        step.rows = rows;
        buffers.logits.fill_(std::nan(""));
        return forward->Decode(step, buffers)[0].clone();
      };
      const Tensor one = logits(1), several = logits(2), again = logits(1);
      const double size = several.square().mean().sqrt().item<double>();
      CHECK((one - several).abs().mean().item<double>() < 0.012 * size);
      CHECK((one - several).abs().max().item<double>() < 0.08 * size);
      CHECK(at::equal(one, again));
    }
  }
}

TEST_CASE("Rotation writes to pages what the plain version computes, and pages gather and copy", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  at::manual_seed(5);
  for (const int64_t dim : {64, 128, 256}) {
    Paged c(6, 2, dim, {0, 3, 17, 40});
    const Tensor wanted = c.Rotated();
    Tensor x = c.qkv.clone();
    std::vector<int32_t> slots;
    for (int64_t r = 0; r < c.rows; ++r) {
      slots.push_back(c.tables[r][c.positions[r] / kPagePositions].item<int>() * kPagePositions + c.positions[r] % kPagePositions);
    }
    const Tensor device_slots = at::tensor(slots, at::kInt).to(at::kCUDA);
    RotateToPagesArgs args;
    args.qkv = Data(x);
    args.positions = c.device_positions.const_data_ptr<int32_t>();
    args.slots = device_slots.const_data_ptr<int32_t>();
    args.pages = {Data(c.pages), 2, static_cast<int>(dim)};
    args.rotate.angles = Data(c.angles);
    args.rows = static_cast<int>(c.rows);
    args.heads = 6;
    REQUIRE(RotateToPages(args, Stream()) == cudaSuccess);
    CHECK(WorstUnits(x, wanted) < 1.1);
    Tensor keys = at::empty({c.rows, 2, dim}, Bf16s()), values = at::empty({c.rows, 2, dim}, Bf16s());
    REQUIRE(GatherFromPages({args.pages, args.slots, Data(keys), Data(values), static_cast<int>(c.rows)}, Stream()) == cudaSuccess);
    CHECK(at::equal(keys.view({c.rows, -1}), x.narrow(1, 6 * dim, 2 * dim)));
    CHECK(at::equal(values.view({c.rows, -1}), x.narrow(1, 8 * dim, 2 * dim)));

    Tensor layers = Random({3, 7, 2, 2, kPagePositions, dim});
    const Tensor before = layers.clone();
    const Tensor from_to = at::tensor({2, 5, 0, 6}, at::kInt).view({2, 2}).to(at::kCUDA);
    REQUIRE(CopyPages({layers.data_ptr(), layers.stride(0) * 2, layers.stride(1) * 2, from_to.const_data_ptr<int32_t>(), 3, 2}, Stream()) == cudaSuccess);
    CHECK(at::equal(layers.select(1, 5), before.select(1, 2)));
    CHECK(at::equal(layers.select(1, 6), before.select(1, 0)));
    CHECK(at::equal(layers.narrow(1, 0, 5), before.narrow(1, 0, 5)));
  }
}

TEST_CASE("The device draws the tokens that the host draws from the same logits", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  at::manual_seed(6);
  std::vector<SamplingOptions> kinds(8);
  kinds[1].temperature = 0.7;
  kinds[2].temperature = 0;
  kinds[3].top_k = 20;
  kinds[4].top_p = 0.9;
  kinds[5].min_p = 0.05;
  kinds[6].top_k = 50;
  kinds[6].top_p = 0.8;
  kinds[6].min_p = 0.02;
  kinds[6].temperature = 1.3;
  kinds[7].top_k = 1;
  for (const auto& [vocab, spread] : {std::pair<int64_t, double>{151936, 1.0}, {151936, 4.0}, {1000, 2.0}, {37, 1.0}}) {
    const int64_t count = 256;
    Tensor logits = at::randn({count, vocab}, Bf16s().dtype(at::kFloat)).mul_(spread);
    logits.narrow(0, 0, 64).copy_(logits.narrow(0, 0, 64).to(at::kBFloat16));  // many equals
    const Tensor host_logits = logits.cpu();
    std::vector<SampleRow> rows(count);
    for (int64_t r = 0; r < count; ++r) {
      const SamplingOptions& o = kinds[r % kinds.size()];
      rows[r].seed = 77;
      rows[r].stream = r;
      rows[r].index = 3;
      rows[r].temperature = static_cast<float>(o.temperature);
      rows[r].top_p = static_cast<float>(o.top_p);
      rows[r].min_p = static_cast<float>(o.min_p);
      rows[r].top_k = static_cast<int32_t>(o.top_k);
    }
    const Tensor device_rows = at::from_blob(rows.data(), {count * static_cast<int64_t>(sizeof(SampleRow))}, at::kByte).to(at::kCUDA);
    const Tensor stats = at::empty({count * 256 * 12}, Bf16s().dtype(at::kByte)), draws = at::zeros({count * 8}, Bf16s().dtype(at::kByte));
    SampleArgs args;
    args.logits = logits.const_data_ptr<float>();
    args.rows = static_cast<const SampleRow*>(device_rows.const_data_ptr());
    args.stats = static_cast<ChunkStats*>(stats.data_ptr());
    args.draws = static_cast<Draw*>(draws.data_ptr());
    args.count = static_cast<int>(count);
    args.vocab = static_cast<int>(vocab);
    REQUIRE(Sample(args, Stream()) == cudaSuccess);
    const Tensor back = draws.cpu();
    const Draw* got = static_cast<const Draw*>(back.const_data_ptr());
    std::vector<int> other(kinds.size());
    for (int64_t r = 0; r < count; ++r) {
      const TokenDraw wanted = DrawToken(host_logits.const_data_ptr<float>() + r * vocab, vocab, kinds[r % kinds.size()], UniformAt(77, r, 3));
      INFO("vocab " << vocab << " spread " << spread << " kind " << r % kinds.size() << " row " << r << " got " << got[r].id << " wanted " << wanted.id);
      if (got[r].id != wanted.id) {
        ++other[r % kinds.size()];
        if (r % kinds.size() < 2) CHECK(std::abs(got[r].id - wanted.id) <= 4);  // of a neighbour: intervals are 1e-6 wide
        CHECK(got[r].id >= 0);
      } else {
        CHECK(std::abs(got[r].log_prob - wanted.log_prob) < 2e-4);
      }
    }
    // A draw at the edge of two tokens' intervals may fall either way: the two sum in different orders.
    for (size_t k = 0; k < kinds.size(); ++k) {
      INFO("vocab " << vocab << " spread " << spread << " kind " << k);
      CHECK(other[k] <= (k == 2 || k == 7 ? 0 : k < 2 ? 4 : 1));
    }
  }
}

TEST_CASE("The device draws nothing from logits that are not finite", "[rollout][cuda][gpu]") {
  HONE_NEEDS_GPU();
  Tensor logits = at::zeros({3, 9000}, Bf16s().dtype(at::kFloat));
  logits[0][8000] = std::nan("");
  logits[1].fill_(-std::numeric_limits<double>::infinity());
  logits[2].narrow(0, 0, 8999).fill_(-std::numeric_limits<double>::infinity());
  std::vector<SampleRow> rows(3);
  const Tensor device_rows = at::from_blob(rows.data(), {3 * static_cast<int64_t>(sizeof(SampleRow))}, at::kByte).to(at::kCUDA);
  const Tensor stats = at::empty({3 * 256 * 12}, Bf16s().dtype(at::kByte)), draws = at::zeros({3 * 8}, Bf16s().dtype(at::kByte));
  SampleArgs args;
  args.logits = logits.const_data_ptr<float>();
  args.rows = static_cast<const SampleRow*>(device_rows.const_data_ptr());
  args.stats = static_cast<ChunkStats*>(stats.data_ptr());
  args.draws = static_cast<Draw*>(draws.data_ptr());
  args.count = 3;
  args.vocab = 9000;
  REQUIRE(Sample(args, Stream()) == cudaSuccess);
  const Tensor back = draws.cpu();
  const Draw* got = static_cast<const Draw*>(back.const_data_ptr());
  CHECK(got[0].id == -1);
  CHECK(got[1].id == -1);
  CHECK(got[2].id == 8999);
  CHECK(std::abs(got[2].log_prob) < 1e-6);
}

}  // namespace
}  // namespace hone::rollout::cuda

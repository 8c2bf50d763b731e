#include "policy/model/ops.h"

#include <algorithm>
#include <vector>

#include "cmake/torch_pch.h"
#include "policy/model/cpu_kernels.h"
#include "policy/model/parallel.h"
#include "policy/model/project.h"

namespace hone::policy {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

const float* In(const Tensor& t) { return t.const_data_ptr<float>(); }
float* Out(Tensor& t) { return t.mutable_data_ptr<float>(); }

// Runs `body` over row ranges of about 16 k numbers each.
void ForRows(int64_t rows, int64_t width, const std::function<void(int64_t, int64_t)>& body) {
  ParallelFor(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width)), body);
}

// --- linear

Tensor LinearForward(const Tensor& x, const Tensor& packed, const Tensor& bias, int64_t out) {
  const Tensor xc = x.contiguous();
  const int64_t rows = xc.size(0), in = xc.size(1), panels = (out + cpu::kPanel - 1) / cpu::kPanel;
  Tensor y = at::empty({rows, out}, xc.options());
  const Tensor wide_bias = bias.defined() ? bias.to(at::kFloat) : Tensor();
  const float *xp = In(xc), *bp = bias.defined() ? In(wide_bias) : nullptr;
  float* yp = Out(y);
  const void* weights = packed.const_data_ptr();
  Tensor halves;  // x, where the weights are bf16
  if (packed.scalar_type() == at::kBFloat16) {
    halves = at::empty({rows, in + in % 2}, packed.options());
    uint16_t* to = static_cast<uint16_t*>(halves.mutable_data_ptr());
    ForRows(rows, in, [&](int64_t begin, int64_t end) { cpu::RoundRows(xp, in, begin, end, to); });
  }
  const uint16_t* xh = halves.defined() ? static_cast<const uint16_t*>(halves.const_data_ptr()) : nullptr;
  constexpr int64_t kRows = 64, kPanels = 4;
  const int64_t row_tasks = (rows + kRows - 1) / kRows, panel_tasks = (panels + kPanels - 1) / kPanels;
  const int64_t work = std::min(rows, kRows) * in * kPanels * cpu::kPanel, grain = std::max<int64_t>(1, (1 << 19) / work);  // some 20 us
  ParallelFor(0, row_tasks * panel_tasks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t r = task / panel_tasks * kRows, p = task % panel_tasks * kPanels;
      const int64_t row_end = std::min(rows, r + kRows), panel_end = std::min(panels, p + kPanels);
      if (xh != nullptr) {
        cpu::Linear(xh, static_cast<const uint16_t*>(weights), bp, in, out, r, row_end, p, panel_end, yp);
      } else {
        cpu::Linear(xp, static_cast<const float*>(weights), bp, in, out, r, row_end, p, panel_end, yp);
      }
    }
  });
  return y;
}

// a [m, k] b [k, n] -> [m, n]. Faster here than a BLAS that does not know the machine's vector units, and its bits do
// not depend on the number of threads.
Tensor Product(const Tensor& a, const Tensor& b_in) {
  const Tensor b = b_in.contiguous();
  const int64_t k = b.size(0), n = b.size(1), panels = (n + cpu::kPanel - 1) / cpu::kPanel;
  Tensor packed = at::empty({cpu::PackedWeightSize(n, k)}, b.options().requires_grad(false));
  const float* from = In(b);
  float* to = Out(packed);
  ParallelFor(0, panels, std::max<int64_t>(1, 16384 / (k * cpu::kPanel)), [&](int64_t begin, int64_t end) {
    cpu::PackMatrix(from, n, k, begin, end, to);
  });
  return LinearForward(a, packed, Tensor(), n);
}

struct LinearFunction : public Function<LinearFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Tensor& packed,
                        const std::optional<Tensor>& bias) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["bias"] = bias.has_value();
    return LinearForward(x, packed, bias.value_or(Tensor()), weight.size(0));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor dy = grads[0].contiguous();
    Tensor dx, dweight, dbias;
    if (ctx->needs_input_grad(0)) dx = Product(dy, saved[1]);
    if (ctx->needs_input_grad(1)) dweight = Product(dy.t(), saved[0]);
    if (ctx->saved_data["bias"].toBool()) dbias = dy.sum(0);
    return {dx, dweight, Tensor(), dbias};
  }
};

// --- normalisation

struct RmsNormFunction : public Function<RmsNormFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight, double offset, double eps) {
    const Tensor x = x_in.contiguous();
    const int64_t rows = x.size(0), dim = x.size(1);
    Tensor y = at::empty_like(x);
    Tensor inverse = at::empty({rows}, x.options());
    const float *xp = In(x), *wp = In(weight);
    float *yp = Out(y), *ip = Out(inverse);
    ForRows(rows, dim, [&](int64_t begin, int64_t end) {
      cpu::RmsNorm(xp, wp, static_cast<float>(offset), static_cast<float>(eps), dim, begin, end, yp, ip);
    });
    ctx->save_for_backward({x, weight, inverse});
    ctx->saved_data["offset"] = offset;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &inverse = saved[2];
    const Tensor dy = grads[0].contiguous();
    const int64_t rows = x.size(0), dim = x.size(1);
    const float offset = static_cast<float>(ctx->saved_data["offset"].toDouble());
    Tensor dx = at::empty_like(x);
    // A fixed number of partial sums, so that the gradient does not depend on the number of threads.
    const int64_t parts = std::clamp<int64_t>(rows / 32, 1, 32);
    Tensor partial = at::zeros({parts, dim}, x.options());
    const float *xp = In(x), *wp = In(weight), *ip = In(inverse), *gp = In(dy);
    float *dxp = Out(dx), *pp = Out(partial);
    ParallelFor(0, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        cpu::RmsNormBackward(xp, wp, offset, ip, gp, dim, rows * p / parts, rows * (p + 1) / parts, dxp, pp + p * dim);
      }
    });
    return {dx, parts == 1 ? partial[0] : partial.sum(0), Tensor(), Tensor()};
  }
};

// --- rotation

Tensor RopeForward(const Tensor& x_in, const Tensor& cos, const Tensor& sin, int64_t heads, int64_t head_dim, float sign) {
  const Tensor x = x_in.contiguous();
  Tensor y = at::empty_like(x);
  const int64_t width = x.size(1);
  const float *xp = In(x), *cp = In(cos), *sp = In(sin);
  float* yp = Out(y);
  ForRows(x.size(0), width, [&](int64_t begin, int64_t end) {
    cpu::Rope(xp, cp, sp, sign, width, heads, head_dim, begin, end, yp);
  });
  return y;
}

struct RopeFunction : public Function<RopeFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t heads,
                        int64_t head_dim) {
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["head_dim"] = head_dim;
    return RopeForward(x, cos, sin, heads, head_dim, 1);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    return {RopeForward(grads[0], saved[0], saved[1], ctx->saved_data["heads"].toInt(),
                        ctx->saved_data["head_dim"].toInt(), -1),
            Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// --- gated activation

cpu::Activation CpuActivation(int64_t kind) {
  return static_cast<GateActivation>(kind) == GateActivation::kSilu ? cpu::Activation::kSilu
                                                                     : cpu::Activation::kGeluTanh;
}

struct GatedActivationFunction : public Function<GatedActivationFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up_in, int64_t activation) {
    const Tensor gate_up = gate_up_in.contiguous();
    const int64_t rows = gate_up.size(0), width = gate_up.size(1) / 2;
    Tensor y = at::empty({rows, width}, gate_up.options());
    const float* xp = In(gate_up);
    float* yp = Out(y);
    ForRows(rows, width, [&](int64_t begin, int64_t end) {
      cpu::GatedActivation(xp, CpuActivation(activation), width, begin, end, yp);
    });
    ctx->save_for_backward({gate_up});
    ctx->saved_data["activation"] = activation;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor gate_up = ctx->get_saved_variables()[0];
    const Tensor dy = grads[0].contiguous();
    const int64_t rows = gate_up.size(0), width = gate_up.size(1) / 2;
    const int64_t activation = ctx->saved_data["activation"].toInt();
    Tensor dx = at::empty_like(gate_up);
    const float *xp = In(gate_up), *gp = In(dy);
    float* dxp = Out(dx);
    ForRows(rows, width, [&](int64_t begin, int64_t end) {
      cpu::GatedActivationBackward(xp, gp, CpuActivation(activation), width, begin, end, dxp);
    });
    return {dx, Tensor()};
  }
};

// --- attention

// The keys and values of one packed sequence and key head, in the form the kernels read.
struct SequenceKeys {
  std::vector<float> keys;               // blocks of [head_dim][kKeyBlock]
  std::vector<const float*> key_blocks;
  std::vector<const float*> value_blocks;
  std::vector<float> values_transposed;  // backward only
  std::vector<const float*> value_transposed_blocks;

  void Fill(const float* key_rows, const float* value_rows, int64_t stride, int64_t length, int64_t head_dim,
            bool backward) {
    const int64_t blocks = (length + cpu::kKeyBlock - 1) / cpu::kKeyBlock;
    Transpose(key_rows, stride, length, head_dim, keys, key_blocks);
    value_blocks.resize(blocks);
    for (int64_t b = 0; b < blocks; ++b) value_blocks[b] = value_rows + b * cpu::kKeyBlock * stride;
    if (backward) Transpose(value_rows, stride, length, head_dim, values_transposed, value_transposed_blocks);
  }

  static void Transpose(const float* rows, int64_t stride, int64_t length, int64_t head_dim, std::vector<float>& to,
                        std::vector<const float*>& pointers) {
    const int64_t blocks = (length + cpu::kKeyBlock - 1) / cpu::kKeyBlock, block = head_dim * cpu::kKeyBlock;
    if (static_cast<int64_t>(to.size()) < blocks * block) to.resize(blocks * block);
    cpu::TransposeIntoBlocks(rows, stride, length, head_dim, to.data());
    pointers.resize(blocks);
    for (int64_t b = 0; b < blocks; ++b) pointers[b] = to.data() + b * block;
  }
};

int64_t FirstKey(int64_t position, int64_t window) { return window > 0 ? std::max<int64_t>(0, position + 1 - window) : 0; }

struct AttentionFunction : public Function<AttentionFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv_in, const Tensor& offsets, int64_t heads,
                        int64_t kv_heads, int64_t head_dim, double scale, int64_t window) {
    const Tensor qkv = qkv_in.contiguous();
    const int64_t tokens = qkv.size(0), width = qkv.size(1), sequences = offsets.size(0) - 1, group = heads / kv_heads;
    Tensor out = at::empty({tokens, heads * head_dim}, qkv.options());
    Tensor log_sums = at::empty({tokens, heads}, qkv.options());
    const float* x = In(qkv);
    const int64_t* off = offsets.const_data_ptr<int64_t>();
    float *y = Out(out), *ls = Out(log_sums);
    ParallelFor(0, sequences * kv_heads, 1, [&](int64_t begin, int64_t end) {
      SequenceKeys keys;
      std::vector<float> scratch;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t s = task / kv_heads, kv = task % kv_heads, first = off[s], length = off[s + 1] - off[s];
        const float* rows = x + first * width;
        keys.Fill(rows + (heads + kv) * head_dim, rows + (heads + kv_heads + kv) * head_dim, width, length, head_dim, false);
        scratch.resize(std::max<size_t>(scratch.size(), cpu::AttendScratch(length)));
        const cpu::KeyValueBlocks blocks{keys.key_blocks.data(), keys.value_blocks.data(), width};
        for (int64_t t = 0; t < length; ++t) {
          for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
            ls[(first + t) * heads + h] =
                cpu::Attend(rows + t * width + h * head_dim, blocks, FirstKey(t, window), t + 1, head_dim,
                            static_cast<float>(scale), scratch.data(), y + ((first + t) * heads + h) * head_dim);
          }
        }
      }
    });
    ctx->save_for_backward({qkv, offsets, out, log_sums});
    for (auto [name, value] : {std::pair<const char*, int64_t>{"heads", heads}, {"kv_heads", kv_heads}, {"head_dim", head_dim}, {"window", window}}) {
      ctx->saved_data[name] = value;
    }
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &qkv = saved[0], &offsets = saved[1], &out = saved[2], &log_sums = saved[3];
    const Tensor dout = grads[0].contiguous();
    const int64_t heads = ctx->saved_data["heads"].toInt(), kv_heads = ctx->saved_data["kv_heads"].toInt();
    const int64_t head_dim = ctx->saved_data["head_dim"].toInt(), window = ctx->saved_data["window"].toInt();
    const float scale = static_cast<float>(ctx->saved_data["scale"].toDouble());
    const int64_t width = qkv.size(1), sequences = offsets.size(0) - 1, group = heads / kv_heads;
    Tensor dqkv = at::zeros_like(qkv);
    const float *x = In(qkv), *o = In(out), *ls = In(log_sums), *g = In(dout);
    const int64_t* off = offsets.const_data_ptr<int64_t>();
    float* dx = Out(dqkv);
    ParallelFor(0, sequences * kv_heads, 1, [&](int64_t begin, int64_t end) {
      SequenceKeys keys;
      std::vector<float> scratch;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t s = task / kv_heads, kv = task % kv_heads, first = off[s], length = off[s + 1] - off[s];
        const float* rows = x + first * width;
        float* drows = dx + first * width;
        const int64_t key_at = (heads + kv) * head_dim, value_at = (heads + kv_heads + kv) * head_dim;
        keys.Fill(rows + key_at, rows + value_at, width, length, head_dim, true);
        scratch.resize(std::max<size_t>(scratch.size(), cpu::AttendScratch(length)));
        const cpu::KeyValueBlocks blocks{keys.key_blocks.data(), keys.value_blocks.data(), width};
        for (int64_t t = 0; t < length; ++t) {
          for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
            const int64_t row = (first + t) * heads + h;
            float dot = 0;
            for (int64_t d = 0; d < head_dim; ++d) dot += o[row * head_dim + d] * g[row * head_dim + d];
            cpu::AttendBackward(rows + t * width + h * head_dim, blocks, keys.value_transposed_blocks.data(),
                                rows + key_at, width, FirstKey(t, window), t + 1, head_dim, scale, ls[row],
                                g + row * head_dim, dot, scratch.data(), drows + t * width + h * head_dim,
                                drows + key_at, drows + value_at, width);
          }
        }
      }
    });
    return {dqkv, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// --- log-probabilities

struct LogProbsFunction : public Function<LogProbsFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& hidden_in, const Tensor& weight, const Tensor& packed,
                               const Tensor& targets, double temperature, int64_t chunk_elements) {
    const Tensor hidden = hidden_in.contiguous();
    const int64_t rows = hidden.size(0), vocab = weight.size(0);
    const int64_t chunk = std::max<int64_t>(1, chunk_elements / vocab);
    Tensor log_probs = at::empty({rows}, hidden.options()), entropy = at::empty({rows}, hidden.options());
    Tensor log_sums = at::empty({rows}, hidden.options());
    Tensor kept;  // the logits, when all of them fit into one chunk
    const int64_t* target = targets.const_data_ptr<int64_t>();
    float *lp = Out(log_probs), *en = Out(entropy), *ls = Out(log_sums);
    for (int64_t begin = 0; begin < rows; begin += chunk) {
      const int64_t count = std::min(chunk, rows - begin);
      const Tensor logits = LinearForward(hidden.narrow(0, begin, count), packed, Tensor(), vocab);
      const float* z = In(logits);
      ForRows(count, vocab, [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; ++r) {
          const cpu::RowLogProb row = cpu::LogProbRow(z + r * vocab, vocab, static_cast<float>(temperature));
          lp[begin + r] = z[r * vocab + target[begin + r]] * (1.0f / static_cast<float>(temperature)) - row.log_sum;
          en[begin + r] = row.entropy;
          ls[begin + r] = row.log_sum;
        }
      });
      if (count == rows) kept = logits;
    }
    ctx->save_for_backward({hidden, weight, packed, targets, log_sums, entropy, kept});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["chunk"] = chunk;
    return {log_probs, entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &hidden = saved[0], &weight = saved[1], &packed = saved[2], &targets = saved[3], &kept = saved[6];
    const int64_t rows = hidden.size(0), vocab = weight.size(0), chunk = ctx->saved_data["chunk"].toInt();
    const float temperature = static_cast<float>(ctx->saved_data["temperature"].toDouble());
    const Tensor dlog = grads[0].defined() ? grads[0].contiguous() : at::zeros({rows}, hidden.options());
    const Tensor dent = grads[1].defined() ? grads[1].contiguous() : at::zeros({rows}, hidden.options());
    const int64_t* target = targets.const_data_ptr<int64_t>();
    const float *ls = In(saved[4]), *en = In(saved[5]), *gl = In(dlog), *ge = In(dent);
    Tensor dhidden = at::empty_like(hidden);
    Tensor dweight = at::zeros_like(weight);
    for (int64_t begin = 0; begin < rows; begin += chunk) {
      const int64_t count = std::min(chunk, rows - begin);
      const Tensor part = hidden.narrow(0, begin, count);
      const Tensor logits = kept.defined() ? kept : LinearForward(part, packed, Tensor(), vocab);
      Tensor dlogits = at::empty({count, vocab}, hidden.options());
      const float* z = In(logits);
      float* dz = Out(dlogits);
      ForRows(count, vocab, [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; ++r) {
          const int64_t i = begin + r;
          cpu::LogProbRowBackward(z + r * vocab, vocab, temperature, {ls[i], en[i]}, target[i], gl[i], ge[i], dz + r * vocab);
        }
      });
      dhidden.narrow(0, begin, count).copy_(Product(dlogits, weight));
      if (ctx->needs_input_grad(1)) dweight.add_(Product(dlogits.t(), part));
    }
    return {dhidden, dweight, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

bool UsesCpuKernels(const Tensor& tensor) { return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat; }

const Tensor& PackedWeight::Get(const Tensor& weight) {
  const uint64_t version = weight._version();
  if (panels_.defined() && data_ == weight.const_data_ptr() && version_ == version) return panels_;
  const int64_t out = weight.size(0), in = weight.size(1), panels = (out + cpu::kPanel - 1) / cpu::kPanel;
  at::NoGradGuard no_grad;
  // A new tensor each time: a backward pass may still hold the old panels.
  const bool half = weight.scalar_type() == at::kBFloat16;
  panels_ = at::empty({half ? cpu::PackedHalfSize(out, in) : cpu::PackedWeightSize(out, in)}, weight.options().requires_grad(false));
  const void* from = weight.const_data_ptr();
  void* to = panels_.mutable_data_ptr();
  ParallelFor(0, panels, 4, [&](int64_t begin, int64_t end) {
    if (half) {
      cpu::PackWeight(static_cast<const uint16_t*>(from), out, in, begin, end, static_cast<uint16_t*>(to));
    } else {
      cpu::PackWeight(static_cast<const float*>(from), out, in, begin, end, static_cast<float*>(to));
    }
  });
  data_ = weight.const_data_ptr();
  version_ = version;
  return panels_;
}

Tensor Linear(const Tensor& x, const Tensor& weight, const Tensor& bias, PackedWeight& packed) {
  if (!UsesCpuKernels(x)) return Project(x, {}, weight, bias, nullptr);
  if (!at::GradMode::is_enabled()) return LinearForward(x, packed.Get(weight), bias, weight.size(0));
  TORCH_CHECK(weight.scalar_type() == at::kFloat, "bf16 weights under fp32 activations are for inference only");
  return LinearFunction::apply(x, weight, packed.Get(weight), bias.defined() ? std::optional<Tensor>(bias) : std::nullopt);
}

Tensor RmsNorm(const Tensor& x, const Tensor& weight, double offset, double eps) {
  if (UsesCpuKernels(x)) return RmsNormFunction::apply(x, weight, offset, eps);
  return NormRows(x, weight, offset, eps);
}

Tensor Rope(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t heads, int64_t head_dim) {
  return RopeFunction::apply(x, cos, sin, heads, head_dim);
}

Tensor GatedActivation(const Tensor& gate_up, GateActivation activation) {
  return GatedActivationFunction::apply(gate_up, static_cast<int64_t>(activation));
}

Tensor PackedAttention(const Tensor& qkv, const Tensor& offsets, const AttentionShape& shape) {
  if (UsesCpuKernels(qkv)) {
    return AttentionFunction::apply(qkv, offsets, shape.heads, shape.kv_heads, shape.head_dim, shape.scale, shape.window);
  }
  const int64_t sequences = offsets.size(0) - 1;
  const int64_t* off = offsets.const_data_ptr<int64_t>();
  std::vector<Tensor> outs;
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t length = off[s + 1] - off[s];
    const Tensor rows = qkv.narrow(0, off[s], length).view({length, -1, shape.head_dim}).transpose(0, 1).unsqueeze(0);
    const Tensor q = rows.narrow(1, 0, shape.heads), k = rows.narrow(1, shape.heads, shape.kv_heads);
    const Tensor v = rows.narrow(1, shape.heads + shape.kv_heads, shape.kv_heads);
    std::optional<Tensor> mask;
    if (shape.window > 0 && shape.window < length) {
      const Tensor ones = at::ones({length, length}, qkv.options().dtype(at::kBool).requires_grad(false));
      mask = ones.tril().logical_and(ones.triu(1 - shape.window));
    }
    outs.push_back(at::scaled_dot_product_attention(q, k, v, mask, 0.0, !mask.has_value(), shape.scale, shape.heads != shape.kv_heads)
                       .squeeze(0).transpose(0, 1).reshape({length, shape.heads * shape.head_dim}));
  }
  return at::cat(outs, 0);
}

LogProbs TokenLogProbs(const Tensor& hidden, const Tensor& weight, PackedWeight& packed, const Tensor& targets,
                       double temperature, int64_t chunk_elements) {
  if (chunk_elements == 0) chunk_elements = int64_t{1} << (hidden.is_cpu() ? 24 : 28);
  if (UsesCpuKernels(hidden)) {
    const variable_list out =
        LogProbsFunction::apply(hidden, weight, packed.Get(weight), targets, temperature, chunk_elements);
    return {out[0], out[1]};
  }
  return ChunkedLogProbs(hidden, weight, targets, temperature, chunk_elements);
}

}  // namespace hone::policy

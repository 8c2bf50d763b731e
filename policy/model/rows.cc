#include "policy/model/rows.h"

#include <cmath>

#include "cmake/torch_pch.h"
#include "policy/model/device.h"
#ifdef HONE_WITH_CUDA
#include "policy/model/cuda/row_kernels.h"
#endif

namespace hone::policy::rows {
namespace {

using at::Tensor;

at::ScalarType WideType(const Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
Tensor Wide(const Tensor& t) { return t.to(WideType(t)); }
Tensor WideEmpty(at::IntArrayRef sizes, const Tensor& like) {
  return at::empty(sizes, like.options().dtype(WideType(like)).requires_grad(false));
}

bool IsHalf(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }
bool IsHalf(const Tensor& t) { return IsHalf(t.scalar_type()); }

// True where the CUDA kernels serve.
bool UsesCudaKernels(const Tensor& t) {
#ifdef HONE_WITH_CUDA
  return t.is_cuda() && IsHalf(t);
#else
  return false;
#endif
}

#ifdef HONE_WITH_CUDA
void Succeeded(int error, const char* what) { TORCH_CHECK(error == 0, what, ": ", cuda::ErrorText(error)); }

cuda::HalfType TypeOf(at::ScalarType type) { return type == at::kHalf ? cuda::HalfType::kFp16 : cuda::HalfType::kBf16; }
cuda::HalfType TypeOf(const Tensor& t) { return TypeOf(t.scalar_type()); }

const void* PointerOrNull(const Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }

cuda::RotateShape ShapeOf(const Tensor& qkv, const HeadNorms& norms, const AttentionShape& s) {
  TORCH_CHECK(s.head_dim % 4 == 0 && s.head_dim <= 256, "head_dim ", s.head_dim,
              ": multiples of 4 up to 256 are supported");
  return {
      qkv.size(0), s.heads, s.kv_heads, s.head_dim, static_cast<float>(norms.offset), static_cast<float>(norms.eps)};
}
#endif

// The activation and its slope, wide.
std::pair<Tensor, Tensor> Activate(const Tensor& x, GateActivation activation) {
  if (activation == GateActivation::kSilu) {
    const Tensor sigmoid = at::sigmoid(x);
    return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
  }
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  const Tensor t = at::tanh(scale * (x + cubic * x.pow(3)));
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t.square()) * scale * (1 + 3 * cubic * x.square())};
}

// [tokens, heads, head_dim] of the heads that rotate with one norm.
Tensor Heads(const Tensor& qkv, int64_t from, int64_t count, int64_t head_dim) {
  return qkv.narrow(1, from * head_dim, count * head_dim).view({qkv.size(0), count, head_dim});
}

// Products round in x's dtype, as separate operators do. sign -1 turns back.
Tensor Rotated(const Tensor& heads, const Tensor& cos, const Tensor& sin, double sign) {
  const int64_t half = heads.size(2) / 2;
  const Tensor a = heads.narrow(2, 0, half), b = heads.narrow(2, half, half);
  const Tensor c = cos.to(heads.scalar_type()).unsqueeze(1), s = (sin.to(heads.scalar_type()) * sign).unsqueeze(1);
  return at::cat({a * c - b * s, b * c + a * s}, 2);
}

}  // namespace

Normed RmsNorm(const Tensor& x_in, const Tensor& weight, double offset, double eps) {
  const Tensor x = x_in.contiguous();
#ifdef HONE_WITH_CUDA
  if (UsesCudaKernels(x) && x.size(1) % 8 == 0) {
    Normed out{at::empty_like(x), WideEmpty({x.size(0)}, x)};
    Succeeded(cuda::RmsNorm(TypeOf(x), x.const_data_ptr(), weight.const_data_ptr(), static_cast<float>(offset),
                            static_cast<float>(eps), x.size(0), x.size(1), out.y.mutable_data_ptr(),
                            out.inverse.mutable_data_ptr<float>(), CurrentStream(x.device())),
              "rms norm");
    return out;
  }
#endif
  const Tensor wide = Wide(x), inverse = at::rsqrt(wide.square().mean(-1) + eps), normed = wide * inverse.unsqueeze(1);
  if (offset == 0) return {normed.to(x.scalar_type()) * weight, inverse};
  return {(normed * (Wide(weight) + offset)).to(x.scalar_type()), inverse};
}

NormGradients RmsNormBackward(const Tensor& x, const Tensor& weight, const Tensor& inverse, const Tensor& dy_in,
                              double offset, bool want_dweight) {
  const Tensor dy = dy_in.contiguous();
#ifdef HONE_WITH_CUDA
  if (UsesCudaKernels(x) && x.size(1) % 8 == 0 && x.size(1) <= 16384) {
    Tensor dx = at::empty_like(x), partial;
    if (want_dweight) partial = WideEmpty({cuda::RmsNormPartials(x.size(0)), x.size(1)}, x);
    Succeeded(cuda::RmsNormBackward(
                  TypeOf(x), x.const_data_ptr(), weight.const_data_ptr(), inverse.const_data_ptr<float>(),
                  dy.const_data_ptr(), static_cast<float>(offset), x.size(0), x.size(1), dx.mutable_data_ptr(),
                  want_dweight ? partial.mutable_data_ptr<float>() : nullptr, CurrentStream(x.device())),
              "rms norm backward");
    return {dx, want_dweight ? partial.sum(0) : Tensor()};
  }
#endif
  const Tensor g = Wide(dy), hat = Wide(x) * inverse.unsqueeze(1), scaled = g * (Wide(weight) + offset);
  const Tensor dx = inverse.unsqueeze(1) * (scaled - hat * (scaled * hat).mean(-1, true));
  return {dx.to(x.scalar_type()), want_dweight ? (g * hat).sum(0) : Tensor()};
}

Tensor NormRotate(const Tensor& qkv, const HeadNorms& norms, const Tensor& cos, const Tensor& sin,
                  const AttentionShape& shape) {
#ifdef HONE_WITH_CUDA
  if (UsesCudaKernels(qkv)) {
    Tensor y = at::empty_like(qkv);
    Succeeded(cuda::NormRotate(TypeOf(qkv), qkv.const_data_ptr(), PointerOrNull(norms.query), PointerOrNull(norms.key),
                               cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), ShapeOf(qkv, norms, shape),
                               y.mutable_data_ptr(), CurrentStream(qkv.device())),
              "rotation");
    return y;
  }
#endif
  const int64_t tokens = qkv.size(0), dim = shape.head_dim;
  const auto turned = [&](int64_t from, int64_t count, const Tensor& norm) {
    Tensor heads = Heads(qkv, from, count, dim);
    if (norm.defined())
      heads = RmsNorm(heads.reshape({-1, dim}), norm, norms.offset, norms.eps).y.view({tokens, count, dim});
    return Rotated(heads, cos, sin, 1).view({tokens, count * dim});
  };
  const int64_t turning = shape.heads + shape.kv_heads;
  return at::cat({turned(0, shape.heads, norms.query), turned(shape.heads, shape.kv_heads, norms.key),
                  qkv.narrow(1, turning * dim, shape.kv_heads * dim)},
                 1);
}

HeadGradients NormRotateBackward(const Tensor& qkv, const HeadNorms& norms, const Tensor& cos, const Tensor& sin,
                                 const Tensor& dy_in, const AttentionShape& shape) {
  const Tensor dy = dy_in.contiguous();
  const bool normed = norms.query.defined();
#ifdef HONE_WITH_CUDA
  if (UsesCudaKernels(dy)) {
    Tensor dqkv = at::empty_like(dy), partial;
    if (normed) partial = WideEmpty({cuda::NormRotatePartials(dy.size(0)), 2, shape.head_dim}, dy);
    Succeeded(
        cuda::NormRotateBackward(TypeOf(dy), PointerOrNull(qkv), PointerOrNull(norms.query), PointerOrNull(norms.key),
                                 cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), dy.const_data_ptr(),
                                 ShapeOf(dy, norms, shape), dqkv.mutable_data_ptr(),
                                 normed ? partial.mutable_data_ptr<float>() : nullptr, CurrentStream(dy.device())),
        "rotation backward");
    if (!normed) return {dqkv, Tensor(), Tensor()};
    const Tensor sums = partial.sum(0);
    return {dqkv, sums[0], sums[1]};
  }
#endif
  const int64_t tokens = dy.size(0), dim = shape.head_dim, turning = shape.heads + shape.kv_heads;
  HeadGradients out;
  const auto back = [&](int64_t from, int64_t count, const Tensor& norm, Tensor& dnorm) {
    Tensor g = Rotated(Heads(dy, from, count, dim), cos, sin, -1).reshape({-1, dim});
    if (norm.defined()) {
      const Tensor x = Heads(qkv, from, count, dim).reshape({-1, dim});
      const Tensor inverse = at::rsqrt(Wide(x).square().mean(-1) + norms.eps);
      NormGradients gradients = RmsNormBackward(x, norm, inverse, g, norms.offset, true);
      g = gradients.dx;
      dnorm = gradients.dweight;
    }
    return g.view({tokens, count * dim});
  };
  const Tensor dq = back(0, shape.heads, norms.query, out.dquery_norm),
               dk = back(shape.heads, shape.kv_heads, norms.key, out.dkey_norm);
  out.dqkv = at::cat({dq, dk, dy.narrow(1, turning * dim, shape.kv_heads * dim)}, 1);
  return out;
}

Tensor Gated(const Tensor& gate_up, GateActivation activation) {
#ifdef HONE_WITH_CUDA
  if (UsesCudaKernels(gate_up) && gate_up.size(1) % 16 == 0) {
    Tensor y = at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
    Succeeded(cuda::Gated(TypeOf(gate_up), gate_up.const_data_ptr(), activation == GateActivation::kGeluTanh, y.size(0),
                          y.size(1), y.mutable_data_ptr(), CurrentStream(gate_up.device())),
              "gated activation");
    return y;
  }
#endif
  const std::vector<Tensor> halves = gate_up.chunk(2, -1);
  return (activation == GateActivation::kSilu ? at::silu(halves[0]) : at::gelu(halves[0], "tanh")) * halves[1];
}

GatedGradients GatedBackward(const Tensor& gate_up, const Tensor& dy_in, GateActivation activation) {
  const Tensor dy = dy_in.contiguous();
#ifdef HONE_WITH_CUDA
  if (UsesCudaKernels(gate_up) && gate_up.size(1) % 16 == 0) {
    GatedGradients out{at::empty_like(gate_up), at::empty_like(dy)};
    Succeeded(
        cuda::GatedBackward(TypeOf(gate_up), gate_up.const_data_ptr(), dy.const_data_ptr(),
                            activation == GateActivation::kGeluTanh, dy.size(0), dy.size(1),
                            out.dgate_up.mutable_data_ptr(), out.y.mutable_data_ptr(), CurrentStream(dy.device())),
        "gated activation backward");
    return out;
  }
#endif
  const std::vector<Tensor> halves = gate_up.chunk(2, -1);
  const auto [activated, slope] = Activate(Wide(halves[0]), activation);
  const Tensor g = Wide(dy), up = Wide(halves[1]), rounded = activated.to(gate_up.scalar_type());
  return {at::cat({g * up * slope, g * Wide(rounded)}, 1).to(gate_up.scalar_type()), rounded * halves[1]};
}

Tensor WideProduct(const Tensor& a, const Tensor& b) {
  if (a.is_cuda() && IsHalf(a)) return at::mm(a, b, at::kFloat);
  return at::mm(Wide(a), Wide(b));
}

void AddProduct(Tensor& to, const Tensor& a, const Tensor& b) {
  if (to.scalar_type() == a.scalar_type()) {
    to.addmm_(a, b);
  } else if (a.is_cuda() && IsHalf(a)) {
    at::addmm_outf(to, a, b, to.scalar_type(), 1, 1, to);
  } else {
    to.addmm_(a.to(to.scalar_type()), b.to(to.scalar_type()));
  }
}

TokenScores LogProbs(const Tensor& logits, const Tensor& targets, double temperature) {
#ifdef HONE_WITH_CUDA
  if (logits.is_cuda() && logits.scalar_type() == at::kFloat) {
    const int64_t count = logits.size(0);
    TokenScores out{WideEmpty({count}, logits), WideEmpty({count}, logits), WideEmpty({count}, logits)};
    Succeeded(cuda::LogProbRows(logits.const_data_ptr<float>(), targets.const_data_ptr<int64_t>(),
                                static_cast<float>(1 / temperature), count, logits.size(1),
                                out.log_probs.mutable_data_ptr<float>(), out.entropy.mutable_data_ptr<float>(),
                                out.log_sums.mutable_data_ptr<float>(), CurrentStream(logits.device())),
              "log-probs");
    return out;
  }
#endif
  const Tensor z = logits / temperature, log_sums = z.logsumexp(-1), log_p = z - log_sums.unsqueeze(1);
  return {log_p.gather(1, targets.unsqueeze(1)).squeeze(1), -(log_p.exp() * log_p).sum(-1), log_sums};
}

Tensor LogProbsBackward(const Tensor& logits, const Tensor& targets, const TokenScores& scores,
                        const Tensor& dlog_probs, const Tensor& dentropy, double temperature, at::ScalarType dtype) {
#ifdef HONE_WITH_CUDA
  if (logits.is_cuda() && logits.scalar_type() == at::kFloat && IsHalf(dtype)) {
    Tensor dlogits = at::empty(logits.sizes(), logits.options().dtype(dtype));
    Succeeded(
        cuda::LogProbRowsBackward(TypeOf(dtype), logits.const_data_ptr<float>(), targets.const_data_ptr<int64_t>(),
                                  scores.log_sums.const_data_ptr<float>(), scores.entropy.const_data_ptr<float>(),
                                  dlog_probs.const_data_ptr<float>(), dentropy.const_data_ptr<float>(),
                                  static_cast<float>(1 / temperature), logits.size(0), logits.size(1),
                                  dlogits.mutable_data_ptr(), CurrentStream(logits.device())),
        "log-probs backward");
    return dlogits;
  }
#endif
  const Tensor log_p = logits / temperature - scores.log_sums.unsqueeze(1), p = log_p.exp();
  Tensor d = -p * dlog_probs.unsqueeze(1) - dentropy.unsqueeze(1) * p * (log_p + scores.entropy.unsqueeze(1));
  d.scatter_add_(1, targets.unsqueeze(1), dlog_probs.unsqueeze(1));
  return (d / temperature).to(dtype);
}

}  // namespace hone::policy::rows

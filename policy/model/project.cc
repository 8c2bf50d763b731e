#include "policy/model/project.h"

#include <algorithm>

#include "cmake/torch_pch.h"

namespace hone::policy {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// A weight's fp32 gradient buffer, or nothing: autograd takes the gradient.
bool HasBuffer(const Tensor& weight) {
  return weight.grad().defined() && weight.grad().scalar_type() != weight.scalar_type();
}

// `gradient` into the weight's buffer, or for autograd in the weight's dtype.
Tensor Deliver(const Tensor& weight, const Tensor& gradient) {
  if (!gradient.defined() || !weight.requires_grad()) return {};
  if (!HasBuffer(weight)) return gradient.to(weight.scalar_type());
  weight.grad().add_(gradient);
  return {};
}

// The gradient a^T b of a weight.
Tensor DeliverProduct(const Tensor& weight, const Tensor& a, const Tensor& b) {
  if (!weight.requires_grad()) return {};
  if (!HasBuffer(weight)) return at::mm(a.t(), b);
  Tensor buffer = weight.grad();
  rows::AddProduct(buffer, a.t(), b);
  return {};
}

// A low-rank tensor's gradient; its buffer is made when the optimiser has not.
Tensor LowRankGradient(const Tensor& tensor) {
  if (!tensor.grad().defined()) {
    Tensor handle = tensor;
    const at::ScalarType dtype = tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    handle.mutable_grad() = at::zeros(tensor.sizes(), tensor.options().dtype(dtype).requires_grad(false));
  }
  return tensor.grad();
}

// What travels through a function's context besides tensors.
struct ProjectCall : torch::CustomClassHolder {
  Prologue prologue;
  const LowRank* low_rank = nullptr;
  LowRank kept;  // its tensors, alive as long as the graph
};

// --- projection

struct Prologued {
  Tensor h;        // [rows, in]
  Tensor inverse;  // kRmsNorm
};

Prologued Apply(const Tensor& x, const Prologue& prologue) {
  switch (prologue.kind) {
    case Prologue::Kind::kNone:
      break;
    case Prologue::Kind::kGated:
      return {rows::Gated(x, prologue.activation), {}};
    case Prologue::Kind::kRmsNorm: {
      rows::Normed normed = rows::RmsNorm(x, prologue.norm, prologue.offset, prologue.eps);
      return {normed.y, normed.inverse};
    }
  }
  return {x, {}};
}

// The rows' part of h down^T, times the scale.
Tensor Squeezed(const Tensor& h, const LowRank& low) { return at::linear(h, low.down.detach()) * low.scale; }

void AddLowRank(Tensor& y, const Tensor& squeezed, const LowRank& low) {
  const int64_t rank = low.rank();
  for (size_t p = 0; p < low.parts.size(); ++p) {
    const LowRank::Part& part = low.parts[p];
    y.narrow(1, part.begin, part.rows)
        .addmm_(squeezed.narrow(1, static_cast<int64_t>(p) * rank, rank), part.up.detach().t());
  }
}

Tensor Forward(const Tensor& h, const Tensor& weight, const Tensor& bias, const LowRank* low) {
  Tensor y = at::linear(h, weight, bias.defined() ? std::optional<Tensor>(bias) : std::nullopt);
  if (low != nullptr) AddLowRank(y, Squeezed(h, *low), *low);
  return y;
}

// Adds to dh, and to the gradients of A and B.
void LowRankBackward(const Tensor& h, const Tensor& dy, const LowRank& low, Tensor& dh) {
  const int64_t rank = low.rank();
  const Tensor squeezed = Squeezed(h, low);
  Tensor dsqueezed = at::empty_like(squeezed);
  for (size_t p = 0; p < low.parts.size(); ++p) {
    const LowRank::Part& part = low.parts[p];
    const Tensor g = dy.narrow(1, part.begin, part.rows);
    const int64_t at = static_cast<int64_t>(p) * rank;
    dsqueezed.narrow(1, at, rank).copy_(at::mm(g, part.up.detach()) * low.scale);
    Tensor dup = LowRankGradient(part.up);
    rows::AddProduct(dup, g.t(), squeezed.narrow(1, at, rank));
  }
  Tensor ddown = LowRankGradient(low.down);
  rows::AddProduct(ddown, dsqueezed.t(), h);
  if (dh.defined()) dh.addmm_(dsqueezed, low.down.detach());
}

struct ProjectFunction : public Function<ProjectFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const std::optional<Tensor>& norm,
                        const Tensor& weight, const std::optional<Tensor>& bias,
                        const c10::intrusive_ptr<ProjectCall>& call) {
    const Tensor x = x_in.contiguous();
    const Prologued input = Apply(x, call->prologue);
    ctx->save_for_backward({x, input.inverse, norm.value_or(Tensor()), weight, bias.value_or(Tensor())});
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return Forward(input.h, weight, bias.value_or(Tensor()), call->low_rank);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &inverse = saved[1], &norm = saved[2], &weight = saved[3], &bias = saved[4];
    const auto call = c10::static_intrusive_pointer_cast<ProjectCall>(ctx->saved_data["call"].toCapsule());
    const Prologue& prologue = call->prologue;
    const Tensor dy = grads[0].contiguous();
    const bool needs_x = ctx->needs_input_grad(0), needs_h = weight.requires_grad() || call->low_rank != nullptr;
    Tensor dh = at::mm(dy, weight), h, dx = dh, dnorm;
    if (prologue.kind == Prologue::Kind::kGated && call->low_rank == nullptr) {  // one pass gives both
      rows::GatedGradients gated = rows::GatedBackward(x, dh, prologue.activation);
      h = gated.y;
      dx = gated.dgate_up;
    } else {
      if (needs_h) h = Apply(x, prologue).h;
      if (call->low_rank != nullptr) LowRankBackward(h, dy, *call->low_rank, dh);
      dx = dh;
      if (prologue.kind == Prologue::Kind::kGated) dx = rows::GatedBackward(x, dh, prologue.activation).dgate_up;
    }
    if (prologue.kind == Prologue::Kind::kRmsNorm) {
      rows::NormGradients normed = rows::RmsNormBackward(x, norm, inverse, dh, prologue.offset, norm.requires_grad());
      dx = normed.dx;
      dnorm = Deliver(norm, normed.dweight);
    }
    const Tensor dweight = DeliverProduct(weight, dy, h);
    Tensor dbias;
    if (bias.defined() && bias.requires_grad()) {
      dbias = Deliver(bias, dy.sum(0, false, dy.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
    }
    return {needs_x ? dx : Tensor(), dnorm, dweight, dbias, Tensor()};
  }
};

// --- normalisation, rotation, embedding

struct NormFunction : public Function<NormFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight, double offset, double eps) {
    const Tensor x = x_in.contiguous();
    const rows::Normed out = rows::RmsNorm(x, weight, offset, eps);
    ctx->save_for_backward({x, weight, out.inverse});
    ctx->saved_data["offset"] = offset;
    return out.y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    rows::NormGradients out = rows::RmsNormBackward(saved[0], saved[1], saved[2], grads[0],
                                                    ctx->saved_data["offset"].toDouble(), saved[1].requires_grad());
    return {out.dx, Deliver(saved[1], out.dweight), Tensor(), Tensor()};
  }
};

AttentionShape ShapeIn(AutogradContext* ctx) {
  return {ctx->saved_data["heads"].toInt(), ctx->saved_data["kv_heads"].toInt(), ctx->saved_data["head_dim"].toInt(),
          ctx->saved_data["scale"].toDouble(), ctx->saved_data["window"].toInt()};
}

void KeepShape(AutogradContext* ctx, const AttentionShape& shape) {
  ctx->saved_data["heads"] = shape.heads;
  ctx->saved_data["kv_heads"] = shape.kv_heads;
  ctx->saved_data["head_dim"] = shape.head_dim;
  ctx->saved_data["scale"] = shape.scale;
  ctx->saved_data["window"] = shape.window;
}

struct NormRotateFunction : public Function<NormRotateFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv_in, const std::optional<Tensor>& query,
                        const std::optional<Tensor>& key, const Tensor& cos, const Tensor& sin, double offset,
                        double eps, const AttentionShape& shape) {
    const Tensor qkv = qkv_in.contiguous();
    const rows::HeadNorms norms{query.value_or(Tensor()), key.value_or(Tensor()), offset, eps};
    ctx->save_for_backward({norms.query.defined() ? qkv : Tensor(), norms.query, norms.key, cos, sin});
    ctx->saved_data["offset"] = offset;
    ctx->saved_data["eps"] = eps;
    KeepShape(ctx, shape);
    return rows::NormRotate(qkv, norms, cos, sin, shape);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const rows::HeadNorms norms{saved[1], saved[2], ctx->saved_data["offset"].toDouble(),
                                ctx->saved_data["eps"].toDouble()};
    rows::HeadGradients out = rows::NormRotateBackward(saved[0], norms, saved[3], saved[4], grads[0], ShapeIn(ctx));
    const auto deliver = [](const Tensor& norm, const Tensor& gradient) {
      return norm.defined() ? Deliver(norm, gradient) : Tensor();
    };
    return {out.dqkv,
            deliver(norms.query, out.dquery_norm),
            deliver(norms.key, out.dkey_norm),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

struct EmbedFunction : public Function<EmbedFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& weight, const Tensor& ids) {
    ctx->save_for_backward({weight, ids});
    return at::embedding(weight, ids);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &weight = saved[0], &ids = saved[1];
    if (!HasBuffer(weight)) return {at::embedding_dense_backward(grads[0], ids, weight.size(0), -1, false), Tensor()};
    weight.grad().index_put_({ids}, grads[0].to(weight.grad().scalar_type()), /*accumulate=*/true);
    return {Tensor(), Tensor()};
  }
};

// --- attention

struct FlashFunction : public Function<FlashFunction> {
  struct Parts {
    Tensor q, k, v;  // [tokens, heads, head_dim]
  };
  static Parts Split(const Tensor& qkv, const AttentionShape& s) {
    const Tensor heads = qkv.view({qkv.size(0), -1, s.head_dim});
    return {heads.narrow(1, 0, s.heads), heads.narrow(1, s.heads, s.kv_heads),
            heads.narrow(1, s.heads + s.kv_heads, s.kv_heads)};
  }
  static std::optional<int64_t> Left(const AttentionShape& s) {
    return s.window > 0 ? std::optional<int64_t>(s.window - 1) : std::nullopt;
  }
  static std::optional<int64_t> Right(const AttentionShape& s) {
    return s.window > 0 ? std::optional<int64_t>(0) : std::nullopt;
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& qkv_in, const Tensor& offsets, int64_t max_length,
                        const AttentionShape& shape) {
    const Tensor qkv = qkv_in.contiguous();
    const Parts parts = Split(qkv, shape);
    const auto [out, log_sums, rng, unused, debug] =
        at::_flash_attention_forward(parts.q, parts.k, parts.v, offsets, offsets, max_length, max_length, 0.0,
                                     /*is_causal=*/true, false, shape.scale, Left(shape), Right(shape));
    ctx->save_for_backward({qkv, out, log_sums, offsets, rng, unused});
    ctx->saved_data["max_length"] = max_length;
    KeepShape(ctx, shape);
    return out.view({qkv.size(0), shape.heads * shape.head_dim});
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const AttentionShape shape = ShapeIn(ctx);
    const Parts parts = Split(saved[0], shape);
    const int64_t tokens = saved[0].size(0), max_length = ctx->saved_data["max_length"].toInt();
    const Tensor dout = grads[0].contiguous().view({tokens, shape.heads, shape.head_dim});
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        dout, parts.q, parts.k, parts.v, saved[1], saved[2], saved[3], saved[3], max_length, max_length, 0.0,
        /*is_causal=*/true, saved[4], saved[5], shape.scale, Left(shape), Right(shape));
    return {at::cat({dq, dk, dv}, 1).view({tokens, -1}), Tensor(), Tensor(), Tensor()};
  }
};

struct DenseFunction : public Function<DenseFunction> {
  // [sequences, heads, length, head_dim], strided views
  static std::vector<Tensor> Split(const Tensor& qkv, int64_t length, const AttentionShape& s) {
    const Tensor heads = qkv.view({qkv.size(0) / length, length, -1, s.head_dim}).transpose(1, 2);
    return {heads.narrow(1, 0, s.heads), heads.narrow(1, s.heads, s.kv_heads),
            heads.narrow(1, s.heads + s.kv_heads, s.kv_heads)};
  }
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv_in, int64_t length, const AttentionShape& shape) {
    const Tensor qkv = qkv_in.contiguous();
    const std::vector<Tensor> parts = Split(qkv, length, shape);
    const auto [out, log_sums, offsets_q, offsets_k, max_q, max_k, seed, offset, debug] =
        at::_scaled_dot_product_cudnn_attention(parts[0], parts[1], parts[2], std::nullopt, /*compute_log_sumexp=*/true,
                                                0.0, /*is_causal=*/true, false, shape.scale);
    ctx->save_for_backward({qkv, out, log_sums, seed, offset});
    ctx->saved_data["length"] = length;
    KeepShape(ctx, shape);
    return out.transpose(1, 2).reshape({qkv.size(0), shape.heads * shape.head_dim});
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const AttentionShape shape = ShapeIn(ctx);
    const int64_t length = ctx->saved_data["length"].toInt(), tokens = saved[0].size(0);
    const std::vector<Tensor> parts = Split(saved[0], length, shape);
    const Tensor dout =
        grads[0].contiguous().view({tokens / length, length, shape.heads, shape.head_dim}).transpose(1, 2);
    const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
        dout, parts[0], parts[1], parts[2], saved[1], saved[2], saved[3], saved[4], Tensor(), Tensor(), Tensor(),
        length, length, 0.0,
        /*is_causal=*/true, shape.scale);
    const auto rows = [&](const Tensor& t) { return t.transpose(1, 2).reshape({tokens, -1}); };
    return {at::cat({rows(dq), rows(dk), rows(dv)}, 1), Tensor(), Tensor()};
  }
};

// --- log-probabilities

struct LogProbsFunction : public Function<LogProbsFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& hidden_in, const Tensor& weight,
                               const Tensor& targets, double temperature, int64_t chunk_elements) {
    const Tensor hidden = hidden_in.contiguous();
    const int64_t count = hidden.size(0), chunk = std::max<int64_t>(1, chunk_elements / weight.size(0));
    const at::TensorOptions wide =
        hidden.options().dtype(hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    rows::TokenScores all{at::empty({count}, wide), at::empty({count}, wide), at::empty({count}, wide)};
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t size = std::min(chunk, count - begin);
      const rows::TokenScores part = rows::LogProbs(rows::WideProduct(hidden.narrow(0, begin, size), weight.t()),
                                                    targets.narrow(0, begin, size), temperature);
      all.log_probs.narrow(0, begin, size).copy_(part.log_probs);
      all.entropy.narrow(0, begin, size).copy_(part.entropy);
      all.log_sums.narrow(0, begin, size).copy_(part.log_sums);
    }
    ctx->save_for_backward({hidden, weight, targets, all.entropy.clone(), all.log_sums});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["chunk"] = chunk;
    return {all.log_probs, all.entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &hidden = saved[0], &weight = saved[1], &targets = saved[2], &entropy = saved[3], &log_sums = saved[4];
    const int64_t count = hidden.size(0), chunk = ctx->saved_data["chunk"].toInt();
    const double temperature = ctx->saved_data["temperature"].toDouble();
    const Tensor dlog = grads[0].defined() ? grads[0].contiguous() : at::zeros_like(log_sums);
    const Tensor dent = grads[1].defined() ? grads[1].contiguous() : at::zeros_like(log_sums);
    Tensor dhidden = at::empty_like(hidden), dweight;
    const bool buffered = HasBuffer(weight);
    if (weight.requires_grad()) dweight = buffered ? weight.grad() : at::zeros(weight.sizes(), log_sums.options());
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t size = std::min(chunk, count - begin);
      const auto part = [&](const Tensor& t) { return t.narrow(0, begin, size); };
      const Tensor dlogits = rows::LogProbsBackward(rows::WideProduct(part(hidden), weight.t()), part(targets),
                                                    {Tensor(), part(entropy), part(log_sums)}, part(dlog), part(dent),
                                                    temperature, hidden.scalar_type());
      part(dhidden).copy_(at::mm(dlogits, weight));
      if (dweight.defined()) rows::AddProduct(dweight, dlogits.t(), part(hidden));
    }
    if (buffered || !dweight.defined()) return {dhidden, Tensor(), Tensor(), Tensor(), Tensor()};
    return {dhidden, dweight.to(weight.scalar_type()), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor Project(const Tensor& x, const Prologue& prologue, const Tensor& weight, const Tensor& bias,
               const LowRank* low_rank) {
  if (!at::GradMode::is_enabled()) return Forward(Apply(x, prologue).h, weight, bias, low_rank);
  auto call = c10::make_intrusive<ProjectCall>();
  call->prologue = prologue;
  if (low_rank != nullptr) {
    call->kept = *low_rank;
    call->low_rank = &call->kept;
  }
  const auto maybe = [](const Tensor& t) { return t.defined() ? std::optional<Tensor>(t) : std::nullopt; };
  return ProjectFunction::apply(x, maybe(prologue.norm), weight, maybe(bias), call);
}

Tensor LowRankRows(const Tensor& h, const LowRank& low, int64_t out) {
  const Tensor squeezed = at::linear(h, low.down) * low.scale;
  std::vector<Tensor> pieces;
  int64_t next = 0;
  const auto skip_to = [&](int64_t row) {
    if (row > next) pieces.push_back(at::zeros({h.size(0), row - next}, h.options().requires_grad(false)));
  };
  for (size_t p = 0; p < low.parts.size(); ++p) {
    const LowRank::Part& part = low.parts[p];
    skip_to(part.begin);
    pieces.push_back(at::linear(squeezed.narrow(1, static_cast<int64_t>(p) * low.rank(), low.rank()), part.up));
    next = part.begin + part.rows;
  }
  skip_to(out);
  return at::cat(pieces, 1);
}

Tensor NormRows(const Tensor& x, const Tensor& weight, double offset, double eps) {
  return NormFunction::apply(x, weight, offset, eps);
}

Tensor NormRotate(const Tensor& qkv, const rows::HeadNorms& norms, const Tensor& cos, const Tensor& sin,
                  const AttentionShape& shape) {
  const auto maybe = [](const Tensor& t) { return t.defined() ? std::optional<Tensor>(t) : std::nullopt; };
  return NormRotateFunction::apply(qkv, maybe(norms.query), maybe(norms.key), cos, sin, norms.offset, norms.eps, shape);
}

Tensor Embed(const Tensor& weight, const Tensor& ids) { return EmbedFunction::apply(weight, ids); }

Tensor FlashAttention(const Tensor& qkv, const Tensor& offsets, int64_t max_length, const AttentionShape& shape) {
  return FlashFunction::apply(qkv, offsets, max_length, shape);
}

Tensor DenseAttention(const Tensor& qkv, int64_t length, const AttentionShape& shape) {
  return DenseFunction::apply(qkv, length, shape);
}

LogProbs ChunkedLogProbs(const Tensor& hidden, const Tensor& weight, const Tensor& targets, double temperature,
                         int64_t chunk_elements) {
  const variable_list out = LogProbsFunction::apply(hidden, weight, targets, temperature, chunk_elements);
  return {out[0], out[1]};
}

}  // namespace hone::policy

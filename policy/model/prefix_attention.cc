#include "policy/model/prefix_attention.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/model/attention.h"
#include "policy/model/torch_status.h"

namespace hone::policy {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

bool HasFlash(const Tensor& t) {
  return t.is_cuda() && (t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf);
}

at::ScalarType Wide(const Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// Queries of some rows with the keys and values of others (or the same): segment i of one sees segment i of the other.
struct Part {
  Tensor q, k, v;  // [rows, heads, head_dim], [keys, kv_heads, head_dim] twice
  const Segments& queries;
  const Segments& keys;
  bool causal;
  double scale;
};

struct Attended {
  Tensor out;       // as q
  Tensor log_sums;  // [heads, rows] fp32 (fp64): log sum exp of the scaled scores
};

struct PartGradients {
  Tensor dq, dk, dv;
};

// --- one part in plain products, a segment at a time

struct PlainSegment {
  Tensor q, k, v;  // [heads, length, head_dim], in wide numbers; keys and values repeated for the queries' heads
  Tensor scores;   // [heads, queries, keys], scaled; -inf where not seen
};

Tensor HeadsFirst(const Tensor& rows, const Segments& segments, int64_t i) {
  const int64_t* at = segments.offsets.const_data_ptr<int64_t>() + i;
  return rows.narrow(0, at[0], at[1] - at[0]).transpose(0, 1);
}

PlainSegment Plain(const Part& p, int64_t i) {
  const int64_t group = p.q.size(1) / p.k.size(1);
  const auto wide = [&](const Tensor& rows, const Segments& segments) {
    return HeadsFirst(rows, segments, i).to(Wide(p.q));
  };
  PlainSegment s{wide(p.q, p.queries),
                 wide(p.k, p.keys).repeat_interleave(group, 0),
                 wide(p.v, p.keys).repeat_interleave(group, 0),
                 {}};
  s.scores = at::matmul(s.q, s.k.transpose(1, 2)) * p.scale;
  if (p.causal) {
    const Tensor unseen = at::ones({s.q.size(1), s.k.size(1)}, s.q.options().dtype(at::kBool)).triu(1);
    s.scores.masked_fill_(unseen, -INFINITY);
  }
  return s;
}

Attended PlainForward(const Part& p) {
  Attended result{at::empty(p.q.sizes(), p.q.options()),
                  at::empty({p.q.size(1), p.q.size(0)}, p.q.options().dtype(Wide(p.q)))};
  for (int64_t i = 0; i + 1 < p.queries.offsets.size(0); ++i) {
    const PlainSegment s = Plain(p, i);
    const Tensor log_sums = s.scores.logsumexp(2);  // [heads, queries]
    HeadsFirst(result.out, p.queries, i).copy_(at::matmul((s.scores - log_sums.unsqueeze(2)).exp(), s.v));
    HeadsFirst(result.log_sums.t(), p.queries, i).copy_(log_sums);
  }
  return result;
}

PartGradients PlainBackward(const Part& p, const Attended& merged, const Tensor& dout) {
  PartGradients g{at::empty(p.q.sizes(), p.q.options()), at::empty(p.k.sizes(), p.k.options()),
                  at::empty(p.v.sizes(), p.v.options())};
  const int64_t kv_heads = p.k.size(1);
  for (int64_t i = 0; i + 1 < p.queries.offsets.size(0); ++i) {
    const PlainSegment s = Plain(p, i);
    const auto wide = [&](const Tensor& rows) { return HeadsFirst(rows, p.queries, i).to(Wide(p.q)); };
    const auto over_group = [&](const Tensor& t) { return t.view({kv_heads, -1, t.size(1), t.size(2)}).sum(1); };
    const Tensor probabilities = (s.scores - wide(merged.log_sums.t()).unsqueeze(2)).exp(), dy = wide(dout);
    const Tensor delta = (dy * wide(merged.out)).sum(2, /*keepdim=*/true);
    const Tensor dscores = probabilities * (at::matmul(dy, s.v.transpose(1, 2)) - delta) * p.scale;
    HeadsFirst(g.dq, p.queries, i).copy_(at::matmul(dscores, s.k));
    HeadsFirst(g.dk, p.keys, i).copy_(over_group(at::matmul(dscores.transpose(1, 2), s.q)));
    HeadsFirst(g.dv, p.keys, i).copy_(over_group(at::matmul(probabilities.transpose(1, 2), dy)));
  }
  return g;
}

// --- one part, on the kernels of its device

Attended PartForward(const Part& p) {
  if (!HasFlash(p.q)) return PlainForward(p);
  const auto [out, log_sums, rng, unused, debug] = at::_flash_attention_forward(
      p.q, p.k, p.v, p.queries.device, p.keys.device, p.queries.longest, p.keys.longest, 0.0, p.causal,
      /*return_debug_mask=*/false, p.scale);
  TORCH_CHECK(log_sums.dim() == 2 && log_sums.size(0) == p.q.size(1) && log_sums.size(1) == p.q.size(0),
              "flash attention's log sums have the shape ", log_sums.sizes());
  return {out, log_sums};
}

PartGradients PartBackward(const Part& p, const Attended& merged, const Tensor& dout) {
  if (!HasFlash(p.q)) return PlainBackward(p, merged, dout);
  const Tensor no_dropout = at::empty({2}, p.q.options().dtype(at::kUInt64)),
               unused = at::empty({}, no_dropout.options());
  const auto [dq, dk, dv] = at::_flash_attention_backward(dout, p.q, p.k, p.v, merged.out, merged.log_sums.contiguous(),
                                                          p.queries.device, p.keys.device, p.queries.longest,
                                                          p.keys.longest, 0.0, p.causal, no_dropout, unused, p.scale);
  return {dq, dk, dv};
}

// --- both parts

struct Heads {
  Tensor q, k, v;  // [tokens, heads, head_dim], views
};

Heads Split(const Tensor& qkv, const AttentionShape& s) {
  const Tensor heads = qkv.view({qkv.size(0), -1, s.head_dim});
  return {heads.narrow(1, 0, s.heads), heads.narrow(1, s.heads, s.kv_heads),
          heads.narrow(1, s.heads + s.kv_heads, s.kv_heads)};
}

int64_t Rows(const Segments& segments) { return segments.offsets[-1].item<int64_t>(); }

Part Own(const Heads& h, const PrefixLayout& layout, double scale) {
  return {h.q, h.k, h.v, layout.all, layout.all, true, scale};
}

// Continuations, which begin where the prefixes end, with the prefixes' keys.
Part OnPrefixes(const Heads& h, const PrefixLayout& layout, double scale) {
  const int64_t prefix = Rows(layout.prefixes), rows = Rows(layout.continuing);
  return {h.q.narrow(0, prefix, rows),
          h.k.narrow(0, 0, prefix),
          h.v.narrow(0, 0, prefix),
          layout.continuing,
          layout.prefixes,
          false,
          scale};
}

// `more` merged into the rows of `to` that begin at `begin`.
void Merge(const Attended& to, int64_t begin, const Attended& more) {
  const int64_t rows = more.out.size(0);
  const Tensor out = to.out.narrow(0, begin, rows), log_sums = to.log_sums.narrow(1, begin, rows);
  const Tensor both = at::logaddexp(log_sums, more.log_sums);
  const auto share = [&](const Tensor& part) { return (part - both).exp().t().unsqueeze(2); };  // [rows, heads, 1]
  out.copy_(out * share(log_sums) + more.out * share(more.log_sums));
  log_sums.copy_(both);
}

struct Call : torch::CustomClassHolder {
  PrefixLayout layout;
  AttentionShape shape;
};

struct PrefixFunction : public Function<PrefixFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv_in, const c10::intrusive_ptr<Call>& call) {
    const Tensor qkv = qkv_in.contiguous();
    const Heads heads = Split(qkv, call->shape);
    const Attended merged = PartForward(Own(heads, call->layout, call->shape.scale));
    Merge(merged, Rows(call->layout.prefixes), PartForward(OnPrefixes(heads, call->layout, call->shape.scale)));
    ctx->save_for_backward({qkv, merged.out, merged.log_sums});
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return merged.out.view({qkv.size(0), -1});
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto call = c10::static_intrusive_pointer_cast<Call>(ctx->saved_data["call"].toCapsule());
    const Heads heads = Split(saved[0], call->shape);
    const Attended merged{saved[1].view({saved[0].size(0), call->shape.heads, call->shape.head_dim}), saved[2]};
    const Tensor dout = grads[0].contiguous().view(merged.out.sizes());
    const PartGradients own = PartBackward(Own(heads, call->layout, call->shape.scale), merged, dout);
    const int64_t prefix = Rows(call->layout.prefixes), rows = Rows(call->layout.continuing);
    const PartGradients more = PartBackward(
        OnPrefixes(heads, call->layout, call->shape.scale),
        {merged.out.narrow(0, prefix, rows), merged.log_sums.narrow(1, prefix, rows)}, dout.narrow(0, prefix, rows));
    const Tensor dqkv = at::cat({own.dq, own.dk, own.dv}, 1);
    const Heads sums = Split(dqkv.view({saved[0].size(0), -1}), call->shape);
    sums.q.narrow(0, prefix, rows).add_(more.dq);
    sums.k.narrow(0, 0, prefix).add_(more.dk);
    sums.v.narrow(0, 0, prefix).add_(more.dv);
    return {dqkv.view({saved[0].size(0), -1}), Tensor()};
  }
};

double RelativeError(const Tensor& got, const Tensor& want) {
  const Tensor g = got.to(at::kDouble), w = want.to(at::kDouble);
  return ((g - w).norm() / w.norm()).item<double>();
}

// Largest relative error of output and gradient: two prefixes with three and two continuations, and a sequence alone.
double PrefixError(const AttentionShape& shape, const at::TensorOptions& options) {
  const std::vector<int64_t> prefixes{150, 70}, lengths[] = {{90, 1, 200}, {33, 64}};
  const int64_t alone = 40, width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  std::vector<int64_t> offsets{0}, group_offsets, whole{0}, rows, order;
  const auto cut = [&](int64_t length) { offsets.push_back(offsets.back() + length); };
  for (const int64_t prefix : prefixes) cut(prefix);
  group_offsets.push_back(offsets.back());
  for (size_t g = 0; g < prefixes.size(); ++g) {
    for (const int64_t length : lengths[g]) {
      for (int64_t t = 0; t < prefixes[g]; ++t) rows.push_back(offsets[g] + t);
      for (int64_t t = 0; t < length; ++t) rows.push_back(offsets.back() + t);
      cut(length);
      whole.push_back(static_cast<int64_t>(rows.size()));
    }
    group_offsets.push_back(offsets.back());
  }
  for (int64_t t = 0; t < alone; ++t) rows.push_back(offsets.back() + t);
  cut(alone);
  whole.push_back(static_cast<int64_t>(rows.size()));

  const auto tensor = [](const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); };
  const Tensor index = tensor(rows).to(options.device()), count = at::bincount(index);
  const Tensor angles = at::arange(offsets.back() * width, at::kDouble);
  const auto numbers = [&](double step) {
    return (angles * step).sin().view({offsets.back(), width}).to(options).detach().requires_grad_();
  };
  const Tensor shared = numbers(1.7), apart = numbers(1.7);
  const Tensor weights = numbers(0.37).detach().narrow(1, 0, shape.heads * shape.head_dim) / count.unsqueeze(1);
  PackedSequences once(tensor(offsets), tensor(group_offsets)), each(tensor(whole));
  const Tensor got = once.Attend(0, shared, shape), want = each.Attend(0, apart.index_select(0, index), shape);
  // The outputs of a prefix's copies are one and the same; each carries its share of the gradient.
  got.backward((weights * count.unsqueeze(1)).to(options));
  want.backward(weights.to(options).index_select(0, index));
  return std::max(RelativeError(got.detach().index_select(0, index), want.detach()),
                  RelativeError(shared.grad(), apart.grad()));
}

}  // namespace

Segments Segments::Of(const Tensor& offsets, const at::Device& device) {
  return {offsets, offsets.to(at::kInt).to(device), offsets.size(0) > 1 ? offsets.diff().max().item<int64_t>() : 0};
}

PrefixLayout PrefixLayout::Of(const Tensor& offsets, const Tensor& group_offsets, const at::Device& device) {
  return {Segments::Of(offsets, device), Segments::Of(offsets.narrow(0, 0, group_offsets.size(0)), device),
          Segments::Of(group_offsets - group_offsets[0], device)};
}

Tensor PrefixAttention(const Tensor& qkv, const PrefixLayout& layout, const AttentionShape& shape) {
  TORCH_CHECK(shape.window == 0, "attention with a window shares no prefixes");
  auto call = c10::make_intrusive<Call>();
  call->layout = layout;
  call->shape = shape;
  return PrefixFunction::apply(qkv, call);
}

absl::Status TestPrefixAttention(const AttentionShape& shape, const at::Device& device, at::ScalarType dtype) {
  if (shape.window != 0) return absl::FailedPreconditionError("the model's attention has a window");
  HONE_ASSIGN_OR_RETURN(const double error, CatchTorch("shared prefixes", [&] {
                          at::AutoGradMode with_gradients(true);
                          return PrefixError(shape, at::TensorOptions(device).dtype(dtype));
                        }));
  const double limit = dtype == at::kBFloat16 ? 5e-2 : dtype == at::kHalf ? 8e-3 : 1e-5;
  if (error <= limit) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "attention with shared prefixes is off by %.2g from attention without, at most %.2g", error, limit));
}

}  // namespace hone::policy

#pragma once

// Attention of sequences that begin with the same tokens, those computed once. A sequence's rows after the common
// prefix see the prefix whole and themselves causally; both parts are attended to separately and merged by their log
// sums:
//   log_sum = log(exp(l1) + exp(l2)),  out = exp(l1 - log_sum) out1 + exp(l2 - log_sum) out2
// A part's gradients follow from the merged out and log_sum, as softmax's probabilities do (ring attention,
// arXiv:2310.01889), so that each part's backward pass is the ordinary one; gradients of a prefix's keys and values are
// sums over the sequences that continue it. Exact up to rounding.

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "policy/model/ops.h"

namespace hone::policy {

/// Rows cut into segments, one after another without gaps.
struct Segments {
  at::Tensor offsets;  // [segments + 1] int64 on the CPU, from 0
  at::Tensor device;   // the same as int32 where the rows lie
  int64_t longest = 0;

  static Segments Of(const at::Tensor& offsets, const at::Device& device);
};

/// A pack: first the prefixes, then for each prefix in turn what continues it, then sequences without a prefix.
struct PrefixLayout {
  Segments all;         // each prefix, each continuation, each other sequence
  Segments prefixes;    // the first of `all`
  Segments continuing;  // for each prefix the rows of all its continuations together, from 0

  /// offsets: of `all`; group_offsets [prefixes + 1] int64 CPU: prefix i's continuations are rows
  /// [group_offsets[i], group_offsets[i + 1]), and group_offsets[0] is where the prefixes end.
  static PrefixLayout Of(const at::Tensor& offsets, const at::Tensor& group_offsets, const at::Device& device);
};

/// qkv [tokens, (heads + 2 * kv_heads) * head_dim], rotated by positions that go on after the prefix -> [tokens, heads
/// * head_dim]. shape.window must be 0. Half precision on a GPU runs ATen's flash attention, everything else plain
/// products.
at::Tensor PrefixAttention(const at::Tensor& qkv, const PrefixLayout& layout, const AttentionShape& shape);

/// Compares output and gradient on random rows with attention that shares nothing, as kernels of this device and dtype
/// give them. kFailedPrecondition: they differ by more than rounding, or the kernels refuse; the caller then shares
/// nothing.
absl::Status TestPrefixAttention(const AttentionShape& shape, const at::Device& device, at::ScalarType dtype);

}  // namespace hone::policy

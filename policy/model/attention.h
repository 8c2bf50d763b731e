#pragma once

// Where a forward pass finds earlier keys and values: the only thing that differs between the learner (packed
// sequences, whole) and the rollout engine (new tokens, the rest in cache pages).

#include <cstdint>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "policy/model/config.h"
#include "policy/model/cpu_kernels.h"
#include "policy/model/ops.h"
#include "policy/model/prefix_attention.h"

namespace hone::policy {

class Attention {
 public:
  virtual ~Attention() = default;
  /// qkv [tokens, (heads + 2 * kv_heads) * head_dim], rotated -> [tokens, heads * head_dim]
  virtual at::Tensor Attend(int64_t layer, const at::Tensor& qkv, const AttentionShape& shape) = 0;
  /// A copy that outlives this object, for layers that are computed again in the backward pass; null: not possible.
  virtual std::shared_ptr<Attention> Keep() const { return nullptr; }
};

/// Whole sequences one after another, each seeing only itself. Differentiable.
class PackedSequences : public Attention {
 public:
  /// offsets [sequences + 1] int64, CPU: sequence i is tokens [offsets[i], offsets[i + 1]).
  explicit PackedSequences(at::Tensor offsets) : offsets_(std::move(offsets)) {}
  /// Sequences that begin with the same tokens share these; group_offsets as in PrefixLayout, or undefined: nothing is
  /// shared. Not for models with windows.
  PackedSequences(at::Tensor offsets, at::Tensor group_offsets) : offsets_(std::move(offsets)), group_offsets_(std::move(group_offsets)) {}
  at::Tensor Attend(int64_t layer, const at::Tensor& qkv, const AttentionShape& shape) override;
  std::shared_ptr<Attention> Keep() const override { return std::make_shared<PackedSequences>(*this); }

 private:
  at::Tensor offsets_, group_offsets_;
  std::shared_ptr<const PrefixLayout> layout_;  // with group_offsets_; made on first use
  at::Tensor device_offsets_;  // [sequences + 1] int32 where qkv lies; made on first use on a GPU
  int64_t max_length_ = 0;
  bool one_length_ = false;
};

/// Keys and values of all layers in pages of kPageSize positions (fp32, CPU). Pages are numbers handed out by the
/// owner's allocator; this class only holds the memory.
class KeyValuePages {
 public:
  static constexpr int64_t kPageSize = cpu::kKeyBlock;

  KeyValuePages(const ModelConfig& config, int64_t pages);
  int64_t pages() const { return pages_; }
  static int64_t BytesPerPage(const ModelConfig& config);

  float* Keys(int64_t layer, int64_t page, int64_t kv_head);    // [head_dim][kPageSize]
  float* Values(int64_t layer, int64_t page, int64_t kv_head);  // [kPageSize][head_dim]
  /// Every layer of a page.
  void Copy(int64_t from_page, int64_t to_page);

 private:
  int64_t pages_, layers_, kv_heads_, head_dim_;
  at::Tensor keys_;    // [layers, pages, kv_heads, head_dim, kPageSize]
  at::Tensor values_;  // [layers, pages, kv_heads, kPageSize, head_dim]
};

/// New tokens of several sequences whose earlier tokens are in pages. Writes their keys and values, then attends.
class PagedTokens : public Attention {
 public:
  /// One new token. table[b] is the page of its sequence's positions [b * kPageSize, (b + 1) * kPageSize).
  struct Row {
    const int32_t* table;
    int64_t position;
  };
  /// Rows of one sequence come in order of position. All is borrowed for the life of this object. A page that is
  /// written (it holds a row's position) must belong to that sequence only.
  PagedTokens(KeyValuePages& pages, const std::vector<Row>& rows) : pages_(pages), rows_(rows) {}
  at::Tensor Attend(int64_t layer, const at::Tensor& qkv, const AttentionShape& shape) override;

 private:
  void Write(int64_t layer, const float* qkv, int64_t width, const AttentionShape& shape);

  KeyValuePages& pages_;
  const std::vector<Row>& rows_;
};

}  // namespace hone::policy

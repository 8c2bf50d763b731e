#include "policy/model/attention.h"

#include <algorithm>
#include <cstring>

#include "cmake/torch_pch.h"
#include "policy/model/parallel.h"
#include "policy/model/project.h"

namespace hone::policy {

at::Tensor PackedSequences::Attend(int64_t layer, const at::Tensor& qkv, const AttentionShape& shape) {
  if (group_offsets_.defined()) {
    if (layout_ == nullptr) layout_ = std::make_shared<PrefixLayout>(PrefixLayout::Of(offsets_, group_offsets_, qkv.device()));
    return PrefixAttention(qkv, *layout_, shape);
  }
  const bool half = qkv.scalar_type() == at::kBFloat16 || qkv.scalar_type() == at::kHalf;
  if (!qkv.is_cuda() || !half) return PackedAttention(qkv, offsets_, shape);
  if (!device_offsets_.defined()) {
    const at::Tensor lengths = offsets_.diff();
    max_length_ = lengths.numel() > 0 ? lengths.max().item<int64_t>() : 0;
    one_length_ = lengths.numel() > 0 && lengths.min().item<int64_t>() == max_length_;
    device_offsets_ = offsets_.to(at::kInt).to(qkv.device());
  }
  // cuDNN prepares each length anew: only lengths that pay for it, and that packs cut to one length bring back.
  constexpr int64_t kDenseLength = 1024;
  if (one_length_ && max_length_ >= kDenseLength && max_length_ % 128 == 0 && shape.window == 0) return DenseAttention(qkv, max_length_, shape);
  return FlashAttention(qkv, device_offsets_, max_length_, shape);
}

KeyValuePages::KeyValuePages(const ModelConfig& config, int64_t pages)
    : pages_(pages),
      layers_(config.num_hidden_layers),
      kv_heads_(config.num_key_value_heads),
      head_dim_(config.head_dim),
      keys_(at::empty({layers_, pages, kv_heads_, head_dim_, kPageSize}, at::kFloat)),
      values_(at::empty({layers_, pages, kv_heads_, kPageSize, head_dim_}, at::kFloat)) {}

int64_t KeyValuePages::BytesPerPage(const ModelConfig& config) {
  return 2 * 4 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * kPageSize;
}

float* KeyValuePages::Keys(int64_t layer, int64_t page, int64_t kv_head) {
  return keys_.mutable_data_ptr<float>() + ((layer * pages_ + page) * kv_heads_ + kv_head) * head_dim_ * kPageSize;
}

float* KeyValuePages::Values(int64_t layer, int64_t page, int64_t kv_head) {
  return values_.mutable_data_ptr<float>() + ((layer * pages_ + page) * kv_heads_ + kv_head) * head_dim_ * kPageSize;
}

void KeyValuePages::Copy(int64_t from_page, int64_t to_page) {
  const size_t bytes = sizeof(float) * kv_heads_ * head_dim_ * kPageSize;
  for (int64_t layer = 0; layer < layers_; ++layer) {
    std::memcpy(Keys(layer, to_page, 0), Keys(layer, from_page, 0), bytes);
    std::memcpy(Values(layer, to_page, 0), Values(layer, from_page, 0), bytes);
  }
}

void PagedTokens::Write(int64_t layer, const float* qkv, int64_t width, const AttentionShape& shape) {
  const int64_t key_at = shape.heads * shape.head_dim, value_at = key_at + shape.kv_heads * shape.head_dim;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const int64_t block = rows_[r].position / KeyValuePages::kPageSize, slot = rows_[r].position % KeyValuePages::kPageSize;
    const int64_t page = rows_[r].table[block];
    for (int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      const float* key = qkv + r * width + key_at + kv * shape.head_dim;
      const float* value = qkv + r * width + value_at + kv * shape.head_dim;
      float* keys = pages_.Keys(layer, page, kv);
      for (int64_t d = 0; d < shape.head_dim; ++d) keys[d * KeyValuePages::kPageSize + slot] = key[d];
      std::memcpy(pages_.Values(layer, page, kv) + slot * shape.head_dim, value, sizeof(float) * shape.head_dim);
    }
  }
}

at::Tensor PagedTokens::Attend(int64_t layer, const at::Tensor& qkv_in, const AttentionShape& shape) {
  const at::Tensor qkv = qkv_in.contiguous();
  const int64_t tokens = qkv.size(0), width = qkv.size(1), group = shape.heads / shape.kv_heads;
  at::Tensor out = at::empty({tokens, shape.heads * shape.head_dim}, qkv.options());
  const float* x = qkv.const_data_ptr<float>();
  float* y = out.mutable_data_ptr<float>();
  Write(layer, x, width, shape);
  ParallelFor(0, tokens, 4, [&](int64_t begin, int64_t end) {
    std::vector<const float*> keys, values;
    std::vector<float> scratch;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t length = rows_[r].position + 1;
      const int64_t first = shape.window > 0 ? std::max<int64_t>(0, length - shape.window) : 0;
      const int64_t blocks = (length + KeyValuePages::kPageSize - 1) / KeyValuePages::kPageSize;
      const int32_t* table = rows_[r].table;
      keys.resize(blocks);
      values.resize(blocks);
      scratch.resize(std::max<size_t>(scratch.size(), cpu::AttendScratch(length)));
      for (int64_t kv = 0; kv < shape.kv_heads; ++kv) {
        for (int64_t b = 0; b < blocks; ++b) {
          keys[b] = pages_.Keys(layer, table[b], kv);
          values[b] = pages_.Values(layer, table[b], kv);
        }
        const cpu::KeyValueBlocks where{keys.data(), values.data(), shape.head_dim};
        for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
          cpu::Attend(x + r * width + h * shape.head_dim, where, first, length, shape.head_dim,
                      static_cast<float>(shape.scale), scratch.data(), y + (r * shape.heads + h) * shape.head_dim);
        }
      }
    }
  });
  return out;
}

}  // namespace hone::policy

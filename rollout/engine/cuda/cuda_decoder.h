#pragma once

// The decoder's forward pass on a GPU in bf16 or fp16, for generation: the weights of a policy::Decoder, the kernels of this
// folder where they pay (a few rows, everything between two matrix products), cuBLAS and ATen's flash attention else.
// Rounds where the plain policy::Decoder rounds; cuda_engine_test compares the two.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "policy/model/decoder.h"
#include "policy/model/device.h"
#include "rollout/engine/cuda/half_kernels.h"
#include "rollout/engine/cuda/paged_attention.h"
#include "rollout/engine/cuda/releasable_memory.h"
#include "rollout/engine/cuda/rows.h"
#include "rollout/engine/cuda/token_step.h"

namespace hone::rollout::cuda {

/// Tokens of several sequences to read. All int32 on the device.
struct PrefillInput {
  at::Tensor ids, positions, slots;   // [tokens]; slot: page * kPagePositions + position within the page
  at::Tensor query_offsets;           // [sequences + 1] into the tokens
  at::Tensor key_offsets;             // [sequences + 1] into all tokens of the sequences up to now
  at::Tensor key_slots;               // [keys] of all tokens up to now; undefined: the sequences start here
  at::Tensor tables;                  // deterministic mode: [tokens, table_stride] pages of each token's sequence
  at::Tensor wanted;                  // [rows] of the tokens whose hidden states are asked for
  int64_t max_queries = 0, max_keys = 0;  // of one sequence
};

/// One new token of each of `rows` sequences. Device pointers, fixed for the life of a graph.
struct DecodeInput {
  const int32_t* sources = nullptr;    // see EmbedArgs
  const Draw* draws = nullptr;
  const int32_t* positions = nullptr;  // -1: padding
  const int32_t* tables = nullptr;     // [rows, table_stride]
  int rows = 0;
  int table_stride = 0;
};

/// What decode steps write besides cache pages, for the largest step; smaller ones use a part.
struct DecodeBuffers {
  at::Tensor x, normed, qkv, attended, mixed, gate_up, gated;  // [rows, ...] bf16
  at::Tensor logits;   // [rows, vocab_size] fp32
  at::Tensor partial;  // fp32: see PagedAttentionArgs
  at::Tensor arrived;  // int32, zero between kernels
  at::Tensor squeezed; // [rows * widest] bf16: rows within an adapter's rank
};

/// Not thread-safe. Works on torch's current stream. Functions throw c10::Error.
class CudaDecoder {
 public:
  /// `decoder` is borrowed: bf16 or fp16 on CUDA. The adapter that it wears now is applied for good, and follows what training
  /// does to its numbers. kInvalidArgument: it is not, or has a head_dim other than 64, 128, 256 or a size that is not a
  /// multiple of 8; an adapter in deterministic mode. kResourceExhausted: no memory for the pages.
  static absl::StatusOr<std::unique_ptr<CudaDecoder>> Create(policy::Decoder& decoder, int64_t pages, bool deterministic);

  static int64_t BytesPerPage(const policy::ModelConfig& config);
  int64_t pages() const { return pages_.size(1); }

  /// Writes keys and values and returns the wanted hidden states before the final norm, [rows, hidden_size].
  at::Tensor Prefill(const PrefillInput& input);
  /// hidden [rows, hidden_size] -> [rows, vocab_size] fp32, through the final norm.
  at::Tensor Logits(const at::Tensor& hidden);
  /// Steps of up to `rows` rows over tables of up to `table_stride` pages, a power of two.
  DecodeBuffers MakeBuffers(int64_t rows, int64_t table_stride) const;
  /// -> buffers.logits [rows, vocab_size]. Allocates nothing of its own: fit for a CUDA graph.
  at::Tensor Decode(const DecodeInput& input, const DecodeBuffers& buffers);

  void CopyPages(const at::Tensor& from_to);  // [count, 2] int32 on the device

  /// The pages' memory, at addresses that stay: graphs of Decode remain valid. What was queued must have ended.
  ReleasableMemory& page_memory() { return *page_memory_; }

 private:
  struct Layer {
    at::Tensor input_norm, qkv, qkv_bias, query_norm, key_norm, output, attention_norm, mlp_norm, gate_up, down, mlp_after;
    policy::LowRank qkv_low, output_low, gate_up_low, down_low;  // without parts: no adapter
    policy::AttentionShape shape;
    bool local = false;
  };

  CudaDecoder(policy::Decoder& decoder, bool deterministic) : config_(decoder.config()), deterministic_(deterministic) {}
  void Bind(policy::Decoder& decoder, int64_t pages);
  LayerPages PagesOf(int64_t layer) const;
  RotateArgs RotateOf(const Layer& layer) const;
  bool Thin(int64_t rows) const;  // the rows go through Gemv
  cudaStream_t stream() const { return static_cast<cudaStream_t>(policy::CurrentStream(embedding_.device())); }
  void Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& y) const;
  /// y += scale * (x down^T) up^T. `squeezed`: room for rows * down's rows, undefined: taken from torch.
  void AddLowRank(const at::Tensor& x, const policy::LowRank& low, const at::Tensor& squeezed, at::Tensor& y) const;
  void AddNorm(at::Tensor& x, const at::Tensor& delta, const at::Tensor& delta_norm, const at::Tensor& norm, at::Tensor& out) const;
  at::Tensor PrefillAttention(int64_t index, const at::Tensor& qkv, const PrefillInput& input);
  void DecodeAttention(int64_t index, const at::Tensor& qkv, at::Tensor& out, const DecodeInput& input, const at::Tensor& partial,
                       const at::Tensor& arrived);
  void BindWholeStep(int device);
  void DecodeWhole(const DecodeInput& input, DecodeBuffers& part);
  void DecodeThin(const DecodeInput& input, DecodeBuffers& part);
  void DecodeWide(const DecodeInput& input, DecodeBuffers& part);
  int SplitPositions(int64_t rows, int64_t table_stride) const;
  void Embedded(const int32_t* sources, const Draw* draws, at::Tensor& x) const;

  policy::ModelConfig config_;
  bool deterministic_;
  int processors_ = 132;
  bool adapted_ = false;
  int64_t widest_squeezed_ = 0;
  at::Tensor embedding_, head_, final_norm_;
  // For the last product of a large model's layer and up to 128 rows cublasLt, which ATen asks where a bias is added, has the
  // faster kernels (28.5 us against 32.4 on an H200 in Qwen3-8B's shape and 64 rows).
  bool long_sums_ = false;
  at::Tensor no_bias_;  // [hidden_size] zeros
  std::vector<Layer> layers_;
  const HalfKernels* kernels_ = nullptr;  // of the weights' dtype
  at::Tensor angles_, local_angles_;  // [positions, head_dim / 2, 2] bf16: cos, sin
  std::unique_ptr<ReleasableMemory> page_memory_;
  at::Tensor pages_;                  // [layers, pages, 2, kv_heads, kPagePositions, head_dim]
  TokenStepArgs whole_step_;          // processors 0: one row goes through several kernels, as more do
  at::Tensor whole_layers_, whole_words_, whole_steps_;
};

}  // namespace hone::rollout::cuda

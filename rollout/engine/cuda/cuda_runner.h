#pragma once

// The forward passes on a GPU: decode steps as CUDA graphs, one for each size of batch and context, sampling on the
// device, and one step launched ahead of the one whose draws the scheduler looks at.

#include <memory>

#include "policy/model/decoder.h"
#include "rollout/engine/runner.h"

namespace hone::rollout {

struct CudaRunnerOptions {
  int64_t max_rows = 256;
  int64_t prefill_tokens = 8192;
  int64_t cache_bytes = int64_t{8} << 30;
  bool deterministic = false;  // a row's numbers do not depend on the batch, nor on prefill or decode
};

/// `decoder` is borrowed: bf16 on CUDA, see cuda_decoder.h for what else it must be. kResourceExhausted: the device has
/// no memory for the cache (says how much it asked for).
class CudaRunner : public Runner {
 public:
  static absl::StatusOr<std::unique_ptr<CudaRunner>> Create(const CudaRunnerOptions& options, policy::Decoder& decoder);
  ~CudaRunner() override;

  int64_t pages() const override;
  int64_t max_rows() const override;
  int64_t max_prefill_tokens() const override;
  int64_t lookahead() const override { return 1; }
  absl::StatusOr<std::vector<TokenDraw>> Prefill(absl::Span<const PrefillPiece> pieces) override;
  absl::Status LaunchDecode(absl::Span<const DecodeRow> rows) override;
  absl::StatusOr<std::vector<TokenDraw>> CollectDecode() override;
  absl::Status CopyPages(absl::Span<const std::pair<int32_t, int32_t>> pages) override;
  absl::Status ReleaseCache() override;
  absl::Status RestoreCache() override;
  absl::Status Synchronize() override;
  absl::StatusOr<std::string> FirstNonFinite(absl::Span<const int32_t> ids) override;

 private:
  struct State;
  explicit CudaRunner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::rollout

#pragma once

// The forward passes on the CPU, by the decoder that the learner trains: a row's numbers have the same bits in every
// batch, and the learner's log-probs are the same.

#include <memory>
#include <optional>

#include "policy/model/attention.h"
#include "policy/model/decoder.h"
#include "rollout/engine/runner.h"

namespace hone::rollout {

class CpuRunner : public Runner {
 public:
  struct Options {
    int64_t max_rows = 64;
    int64_t prefill_tokens = 2048;
    int64_t cache_bytes = int64_t{256} << 20;
  };
  /// `decoder` is borrowed, fp32 on the CPU, or bf16 with fp32_activations. kInvalidArgument: it is not, or the cache is below one page.
  static absl::StatusOr<std::unique_ptr<CpuRunner>> Create(const Options& options, policy::Decoder& decoder);

  int64_t pages() const override { return page_count_; }
  int64_t max_rows() const override { return options_.max_rows; }
  int64_t max_prefill_tokens() const override { return options_.prefill_tokens; }
  int64_t lookahead() const override { return 0; }
  absl::StatusOr<std::vector<TokenDraw>> Prefill(absl::Span<const PrefillPiece> pieces) override;
  absl::Status LaunchDecode(absl::Span<const DecodeRow> rows) override;
  absl::StatusOr<std::vector<TokenDraw>> CollectDecode() override;
  absl::Status CopyPages(absl::Span<const std::pair<int32_t, int32_t>> pages) override;
  absl::Status ReleaseCache() override;
  absl::Status RestoreCache() override;
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::StatusOr<std::string> FirstNonFinite(absl::Span<const int32_t> ids) override;

 private:
  CpuRunner(const Options& options, policy::Decoder& decoder, int64_t pages)
      : options_(options), decoder_(decoder), page_count_(pages) {}
  absl::StatusOr<at::Tensor> Forward(const std::vector<policy::PagedTokens::Row>& rows, const std::vector<int64_t>& ids);

  Options options_;
  policy::Decoder& decoder_;
  const int64_t page_count_;
  std::optional<policy::KeyValuePages> pages_;  // none while their memory is given back
  std::vector<TokenDraw> draws_;  // of the step launched
};

}  // namespace hone::rollout

#include "rollout/engine/cpu_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/model/parallel.h"
#include "policy/model/torch_status.h"
#include "rollout/engine/philox.h"

namespace hone::rollout {
namespace {

using policy::PagedTokens;

static_assert(policy::KeyValuePages::kPageSize == Runner::kPagePositions);

TokenDraw Draw(const float* logits, int64_t vocab, const DrawSpec& spec) {
  return DrawToken(logits, vocab, *spec.sampling, UniformAt(spec.seed, spec.stream, spec.index));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuRunner>> CpuRunner::Create(const Options& options, policy::Decoder& decoder) {
  const int64_t page_bytes = policy::KeyValuePages::BytesPerPage(decoder.config());
  if (options.cache_bytes < page_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("engine: cache_bytes = ", options.cache_bytes, ", allowed >= ", page_bytes));
  }
  if (!policy::UsesCpuKernels(decoder.parameters().flat()) && !decoder.options().fp32_activations) {
    return absl::InvalidArgumentError("engine: on the CPU the decoder must be fp32, or bf16 with fp32_activations");
  }
  std::unique_ptr<CpuRunner> runner(new CpuRunner(options, decoder, options.cache_bytes / page_bytes));
  if (const absl::Status status = runner->RestoreCache(); !status.ok()) {
    return absl::ResourceExhaustedError(absl::StrCat("engine: no room for a cache of ", options.cache_bytes >> 20, " MiB: ", status.message()));
  }
  return runner;
}

absl::Status CpuRunner::ReleaseCache() {
  pages_.reset();
  return absl::OkStatus();
}

absl::Status CpuRunner::RestoreCache() {
  if (pages_) return absl::OkStatus();
  return policy::CatchTorch("cache", [&] {
           pages_.emplace(decoder_.config(), page_count_);
           return true;
         })
      .status();
}

absl::StatusOr<at::Tensor> CpuRunner::Forward(const std::vector<PagedTokens::Row>& rows, const std::vector<int64_t>& ids) {
  if (!pages_) return absl::FailedPreconditionError("engine: its cache was given back");
  at::NoGradGuard no_grad;
  std::vector<int64_t> positions(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) positions[r] = rows[r].position;
  PagedTokens attention(*pages_, rows);
  return decoder_.Hidden(at::tensor(ids, at::kLong), at::tensor(positions, at::kLong), attention);
}

absl::StatusOr<std::vector<TokenDraw>> CpuRunner::Prefill(absl::Span<const PrefillPiece> pieces) {
  at::NoGradGuard no_grad;
  std::vector<PagedTokens::Row> rows;
  std::vector<int64_t> ids, last_rows;
  for (const PrefillPiece& piece : pieces) {
    for (size_t t = 0; t < piece.ids.size(); ++t) {
      rows.push_back({piece.table.data(), piece.first_position + static_cast<int64_t>(t)});
      ids.push_back(piece.ids[t]);
    }
    if (!piece.draws.empty()) last_rows.push_back(static_cast<int64_t>(rows.size()) - 1);
  }
  HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, Forward(rows, ids));
  std::vector<TokenDraw> draws;
  if (last_rows.empty()) return draws;
  HONE_ASSIGN_OR_RETURN(const at::Tensor logits, decoder_.Logits(hidden.index_select(0, at::tensor(last_rows, at::kLong))));
  const int64_t vocab = logits.size(1);
  const float* z = logits.const_data_ptr<float>();
  for (const PrefillPiece& piece : pieces) {
    if (piece.draws.empty()) continue;
    for (const DrawSpec& spec : piece.draws) draws.push_back(Draw(z, vocab, spec));
    z += vocab;
  }
  return draws;
}

absl::Status CpuRunner::LaunchDecode(absl::Span<const DecodeRow> steps) {
  at::NoGradGuard no_grad;
  std::vector<PagedTokens::Row> rows;
  std::vector<int64_t> ids;
  for (const DecodeRow& step : steps) {
    rows.push_back({step.table.data(), step.position});
    ids.push_back(step.id);
  }
  HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, Forward(rows, ids));
  HONE_ASSIGN_OR_RETURN(const at::Tensor logits, decoder_.Logits(hidden));
  const int64_t vocab = logits.size(1);
  const float* z = logits.const_data_ptr<float>();
  draws_.resize(steps.size());
  policy::ParallelFor(0, static_cast<int64_t>(steps.size()), std::max<int64_t>(1, 4096 / vocab), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) draws_[i] = Draw(z + i * vocab, vocab, steps[i].draw);
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenDraw>> CpuRunner::CollectDecode() { return std::move(draws_); }

absl::Status CpuRunner::CopyPages(absl::Span<const std::pair<int32_t, int32_t>> pages) {
  if (!pages_) return absl::FailedPreconditionError("engine: its cache was given back");
  for (const auto& [from, to] : pages) pages_->Copy(from, to);
  return absl::OkStatus();
}

absl::StatusOr<std::string> CpuRunner::FirstNonFinite(absl::Span<const int32_t> ids) { return decoder_.FirstNonFinite(ids); }

}  // namespace hone::rollout

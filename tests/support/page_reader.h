#pragma once

// A runner without a model: it keeps the ids themselves in its pages and reads every sequence back through its table, so
// that a page which is shared, copied or freed wrongly changes what comes next.

#include <algorithm>
#include <array>
#include <deque>
#include <stdexcept>
#include <vector>

#include "rollout/engine/philox.h"
#include "rollout/engine/runner.h"

namespace hone::testing {

using rollout::DecodeRow;
using rollout::DrawSpec;
using rollout::GenerationRequest;
using rollout::PrefillPiece;
using rollout::Runner;
using rollout::TokenDraw;

// What a "model" says next after a sequence: any function of all its ids and of what decides the draw.
inline TokenDraw NextToken(const std::vector<int32_t>& ids, const DrawSpec& spec, int32_t vocab) {
  uint64_t hash = 1469598103934665603u;
  for (int32_t id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 1099511628211u;
  const double u = rollout::UniformAt(spec.seed ^ hash, spec.stream, spec.index);
  return {static_cast<int32_t>(u * vocab), static_cast<float>(-u)};
}

class PageReader : public Runner {
 public:
  PageReader(int64_t pages, int64_t rows, int64_t prefill, int64_t lookahead, int32_t vocab = 1000)
      : pages_(pages), rows_(rows), prefill_(prefill), lookahead_(lookahead), vocab_(vocab) {}

  int64_t pages() const override { return static_cast<int64_t>(pages_.size()); }
  int64_t max_rows() const override { return rows_; }
  int64_t max_prefill_tokens() const override { return prefill_; }
  int64_t lookahead() const override { return lookahead_; }

  absl::StatusOr<std::vector<TokenDraw>> Prefill(absl::Span<const PrefillPiece> pieces) override {
    std::vector<TokenDraw> draws;
    int64_t tokens = 0;
    for (const PrefillPiece& piece : pieces) {
      tokens += static_cast<int64_t>(piece.ids.size());
      for (size_t t = 0; t < piece.ids.size(); ++t) Write(piece.table, piece.first_position + static_cast<int64_t>(t), piece.ids[t]);
      const std::vector<int32_t> ids = ReadBack(piece.table, piece.first_position + static_cast<int64_t>(piece.ids.size()));
      for (const DrawSpec& spec : piece.draws) draws.push_back(NextToken(ids, spec, vocab_));
    }
    Require(tokens <= prefill_);
    prefilled += tokens;
    return draws;
  }
  absl::Status LaunchDecode(absl::Span<const DecodeRow> rows) override {
    Require(static_cast<int64_t>(rows.size()) <= rows_);
    std::vector<TokenDraw> draws;
    for (const DecodeRow& row : rows) {
      const int32_t id = row.id >= 0 ? row.id : last_.at(row.after_row).id;
      Write(row.table, row.position, id);
      draws.push_back(NextToken(ReadBack(row.table, row.position + 1), row.draw, vocab_));
    }
    last_ = draws;
    launched_.push_back(std::move(draws));
    Require(static_cast<int64_t>(launched_.size()) <= lookahead_ + 1);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<TokenDraw>> CollectDecode() override {
    std::vector<TokenDraw> draws = std::move(launched_.front());
    launched_.pop_front();
    return draws;
  }
  absl::Status CopyPages(absl::Span<const std::pair<int32_t, int32_t>> pages) override {
    for (const auto& [from, to] : pages) pages_[to] = pages_[from];
    return absl::OkStatus();
  }
  absl::Status ReleaseCache() override { return absl::OkStatus(); }
  absl::Status RestoreCache() override { return absl::OkStatus(); }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::StatusOr<std::string> FirstNonFinite(absl::Span<const int32_t>) override { return std::string("model.layers.5"); }

  int64_t prefilled = 0;  // tokens

 private:
  static void Require(bool promise) {
    if (!promise) throw std::logic_error("the scheduler broke a limit of its runner");
  }
  void Write(absl::Span<const int32_t> table, int64_t position, int32_t id) {
    pages_.at(table.at(position / kPagePositions))[position % kPagePositions] = id;
  }
  std::vector<int32_t> ReadBack(absl::Span<const int32_t> table, int64_t length) const {
    std::vector<int32_t> ids;
    for (int64_t p = 0; p < length; ++p) ids.push_back(pages_.at(table.at(p / kPagePositions))[p % kPagePositions]);
    return ids;
  }

  std::vector<std::array<int32_t, kPagePositions>> pages_;
  int64_t rows_, prefill_, lookahead_;
  int32_t vocab_;
  std::vector<TokenDraw> last_;
  std::deque<std::vector<TokenDraw>> launched_;
};

// One sample written down token by token.
inline std::vector<TokenDraw> ExpectedTokens(const GenerationRequest& request, size_t sample, int32_t vocab = 1000) {
  std::vector<int32_t> ids = request.prompt_ids;
  std::vector<TokenDraw> out;
  while (static_cast<int64_t>(out.size()) < request.sampling.max_tokens) {
    const TokenDraw draw = NextToken(ids, {&request.sampling, request.seed, sample, out.size()}, vocab);
    ids.push_back(draw.id);
    out.push_back(draw);
    const auto& stops = request.sampling.stop_ids;
    if (std::find(stops.begin(), stops.end(), draw.id) != stops.end()) break;
  }
  return out;
}

}  // namespace hone::testing

#pragma once

// The forward passes that the scheduler asks for. What runs where, and on which weights, is the runner's business; which
// sequence gets which cache pages is the scheduler's.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/token_sampler.h"

namespace hone::rollout {

/// What decides one draw.
struct DrawSpec {
  const SamplingOptions* sampling = nullptr;
  uint64_t seed = 0;
  uint64_t stream = 0;  // the sample
  uint64_t index = 0;   // of the token in it
};

/// Tokens of one sequence to read, all of a prompt or a part.
struct PrefillPiece {
  absl::Span<const int32_t> ids;
  int64_t first_position = 0;        // of ids[0]; earlier positions are in the table's pages
  absl::Span<const int32_t> table;   // page of each kPagePositions positions
  std::vector<DrawSpec> draws;       // each draws a token that follows the last id; empty while more pieces follow
};

/// One new token of one sequence.
struct DecodeRow {
  int32_t id = -1;         // -1: what row `after_row` of the step launched before drew
  int32_t after_row = -1;
  int64_t position = 0;
  absl::Span<const int32_t> table;
  DrawSpec draw;
};

/// Not thread-safe.
class Runner {
 public:
  /// Positions of a cache page, for every runner.
  static constexpr int64_t kPagePositions = 16;

  virtual ~Runner() = default;
  virtual int64_t pages() const = 0;
  virtual int64_t max_rows() const = 0;            // of a decode step
  virtual int64_t max_prefill_tokens() const = 0;  // of one Prefill
  /// Decode steps that may be launched before the oldest one's draws are collected, less one.
  virtual int64_t lookahead() const = 0;

  /// Reads the pieces and makes their draws, in order.
  virtual absl::StatusOr<std::vector<TokenDraw>> Prefill(absl::Span<const PrefillPiece> pieces) = 0;
  /// Starts one step. Rows are used only during the call.
  virtual absl::Status LaunchDecode(absl::Span<const DecodeRow> rows) = 0;
  /// Draws of the oldest step not collected, in its rows' order. Waits for it.
  virtual absl::StatusOr<std::vector<TokenDraw>> CollectDecode() = 0;
  /// Copies whole pages, from -> to, after everything launched so far.
  virtual absl::Status CopyPages(absl::Span<const std::pair<int32_t, int32_t>> pages) = 0;

  /// Gives the cache's memory back to the device, and takes it again; both wait for what was launched. In between nothing
  /// can be read or decoded, and what the pages held is lost. No effect when it is so already. kResourceExhausted: others
  /// have taken the memory.
  virtual absl::Status ReleaseCache() = 0;
  virtual absl::Status RestoreCache() = 0;

  /// Waits until everything launched has run.
  virtual absl::Status Synchronize() = 0;

  /// Reads `ids` afresh and names the first part of the model whose output is not finite: "model.layers.3". Empty when
  /// all is finite.
  virtual absl::StatusOr<std::string> FirstNonFinite(absl::Span<const int32_t> ids) = 0;
};

}  // namespace hone::rollout

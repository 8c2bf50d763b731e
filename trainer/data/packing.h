#pragma once

// Sequences into micro-batches without a single padding token.

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "trainer/data/sequence.h"

namespace hone::trainer {

/// Which sequences go through the model together: indices into `lengths`, each exactly once. A micro-batch holds at
/// most `token_budget` tokens; a sequence longer than that gets one of its own. Longest first into the fullest
/// micro-batch that still has room (best fit decreasing), ties by index: deterministic, and the last batches are not
/// crumbs.
std::vector<std::vector<size_t>> PlanMicroBatches(const std::vector<int64_t>& lengths, int64_t token_budget);

/// Sequences that go through the model side by side. The first `prefix` tokens, the same in all of them, are computed
/// once; 0: each sequence is computed by itself.
struct Bundle {
  int64_t prefix = 0;
  std::vector<size_t> sequences;
};
using MicroBatch = std::vector<Bundle>;

/// As above for the sequences `which`. With `share_prefixes` those of one prompt (the ids before the first trained
/// token) are bundled, with them those whose prompts go on after it, as later turns' do. The prompt's last token stays
/// with each sequence, since what it predicts differs. A bundle over the budget is cut, its prefix computed in each
/// piece.
std::vector<MicroBatch> PlanMicroBatches(const std::vector<TrainSequence>& sequences, const std::vector<size_t>& which,
                                         int64_t token_budget, bool share_prefixes);

/// The tensors of one forward pass. Each sequence's last token is left out: nothing is predicted from it.
struct PackedBatch {
  at::Tensor ids;        // [tokens] int64
  at::Tensor positions;  // [tokens] int64, from 0 in each sequence; what follows a shared prefix goes on after it
  at::Tensor offsets;    // [sequences + 1] int64, CPU; with shared prefixes of the segments in policy::PrefixLayout
  at::Tensor
      group_offsets;     // [shared prefixes + 1] int64, CPU, as policy::PrefixLayout says; undefined: nothing is shared
  at::Tensor loss_rows;  // [loss tokens] int64: tokens whose successor is trained on
  at::Tensor targets;    // [loss tokens] int64: those successors
  std::vector<int64_t>
      loss_offsets;               // [sequences + 1] sequence i owns loss tokens [loss_offsets[i], loss_offsets[i+1])
  std::vector<size_t> sequences;  // what was packed, in the order of its loss tokens
  int64_t tokens() const { return ids.size(0); }
  int64_t loss_tokens() const { return loss_rows.size(0); }
};

/// Sequences must have passed Validate.
PackedBatch Pack(const std::vector<TrainSequence>& sequences, const std::vector<size_t>& which);
/// Bundles with a prefix come first.
PackedBatch Pack(const std::vector<TrainSequence>& sequences, const MicroBatch& bundles);

/// What micro-batches compute, for FLOP counts: runs of tokens and the length of the sequence that each is the end of.
struct TokenRun {
  int64_t tokens, length;
};
std::vector<TokenRun> TokenRuns(const std::vector<TrainSequence>& sequences, const std::vector<MicroBatch>& batches);

/// The rows of hidden [tokens, dim] that predict trained tokens, [loss tokens, dim], on hidden's device.
at::Tensor LossRows(const at::Tensor& hidden, const PackedBatch& batch);

}  // namespace hone::trainer

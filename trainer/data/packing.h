#pragma once

// Sequences into micro-batches without a single padding token.

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "trainer/data/sequence.h"

namespace hone::trainer {

/// Which sequences go through the model together: indices into `lengths`, each exactly once. A micro-batch holds at most
/// `token_budget` tokens; a sequence longer than that gets one of its own. Longest first into the fullest micro-batch
/// that still has room (best fit decreasing), ties by index: deterministic, and the last batches are not crumbs.
std::vector<std::vector<size_t>> PlanMicroBatches(const std::vector<int64_t>& lengths, int64_t token_budget);

/// The tensors of one forward pass. Each sequence's last token is left out: nothing is predicted from it.
struct PackedBatch {
  at::Tensor ids;         // [tokens] int64
  at::Tensor positions;   // [tokens] int64, from 0 in each sequence
  at::Tensor offsets;     // [sequences + 1] int64, CPU
  at::Tensor loss_rows;   // [loss tokens] int64: tokens whose successor is trained on
  at::Tensor targets;     // [loss tokens] int64: those successors
  std::vector<int64_t> loss_offsets;  // [sequences + 1] sequence i owns loss tokens [loss_offsets[i], loss_offsets[i+1])
  std::vector<size_t> sequences;      // what was packed, as given
  int64_t tokens() const { return ids.size(0); }
  int64_t loss_tokens() const { return loss_rows.size(0); }
};

/// Sequences must have passed Validate.
PackedBatch Pack(const std::vector<TrainSequence>& sequences, const std::vector<size_t>& which);

/// The rows of hidden [tokens, dim] that predict trained tokens, [loss tokens, dim], on hidden's device.
at::Tensor LossRows(const at::Tensor& hidden, const PackedBatch& batch);

}  // namespace hone::trainer

#include "trainer/data/packing.h"

#include <algorithm>
#include <numeric>

#include "cmake/torch_pch.h"

namespace hone::trainer {

std::vector<std::vector<size_t>> PlanMicroBatches(const std::vector<int64_t>& lengths, int64_t token_budget) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<size_t>> batches;
  std::vector<int64_t> used;
  for (size_t index : order) {
    size_t best = batches.size();
    for (size_t b = 0; b < batches.size(); ++b) {
      const bool fits = used[b] + lengths[index] <= token_budget;
      if (fits && (best == batches.size() || used[b] > used[best])) best = b;
    }
    if (best == batches.size()) {
      batches.emplace_back();
      used.push_back(0);
    }
    batches[best].push_back(index);
    used[best] += lengths[index];
  }
  for (std::vector<size_t>& batch : batches) std::sort(batch.begin(), batch.end());
  return batches;
}

PackedBatch Pack(const std::vector<TrainSequence>& sequences, const std::vector<size_t>& which) {
  std::vector<int64_t> ids, positions, offsets{0}, rows, targets;
  PackedBatch batch;
  batch.sequences = which;
  batch.loss_offsets.push_back(0);
  for (size_t index : which) {
    const TrainSequence& s = sequences[index];
    for (int64_t t = 0; t + 1 < s.length(); ++t) {
      if (s.loss_mask[t + 1] != 0) {
        rows.push_back(static_cast<int64_t>(ids.size()));
        targets.push_back(s.ids[t + 1]);
      }
      ids.push_back(s.ids[t]);
      positions.push_back(t);
    }
    offsets.push_back(static_cast<int64_t>(ids.size()));
    batch.loss_offsets.push_back(static_cast<int64_t>(rows.size()));
  }
  batch.ids = at::tensor(ids, at::kLong);
  batch.positions = at::tensor(positions, at::kLong);
  batch.offsets = at::tensor(offsets, at::kLong);
  batch.loss_rows = at::tensor(rows, at::kLong);
  batch.targets = at::tensor(targets, at::kLong);
  return batch;
}

at::Tensor LossRows(const at::Tensor& hidden, const PackedBatch& batch) {
  if (batch.loss_tokens() == hidden.size(0)) return hidden;  // rows are ascending: all of them
  return hidden.index_select(0, batch.loss_rows.to(hidden.device()));
}

}  // namespace hone::trainer

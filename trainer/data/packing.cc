#include "trainer/data/packing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/types/span.h"
#include "cmake/torch_pch.h"

namespace hone::trainer {
namespace {

// Shorter prefixes cost more in further kernels than they save.
constexpr int64_t kShortestPrefix = 16;

// The ids before the first trained token.
absl::Span<const int32_t> Prompt(const TrainSequence& s) {
  const auto first = std::find_if(s.loss_mask.begin(), s.loss_mask.end(), [](uint8_t mask) { return mask != 0; });
  return absl::MakeConstSpan(s.ids).first(first - s.loss_mask.begin());
}

bool BeginsWith(absl::Span<const int32_t> ids, absl::Span<const int32_t> head) {
  return ids.size() >= head.size() && std::equal(head.begin(), head.end(), ids.begin());
}

int64_t Cost(const std::vector<TrainSequence>& sequences, const Bundle& bundle) {
  int64_t cost = bundle.prefix;
  for (const size_t index : bundle.sequences) cost += sequences[index].length() - bundle.prefix;
  return cost;
}

// `bundle` in pieces within the budget; what is left alone has no prefix.
void Cut(const std::vector<TrainSequence>& sequences, const Bundle& bundle, int64_t token_budget,
         std::vector<Bundle>& pieces) {
  Bundle piece{bundle.prefix, {}};
  const auto close = [&] {
    if (piece.sequences.size() == 1) piece.prefix = 0;
    if (!piece.sequences.empty()) pieces.push_back(std::move(piece));
    piece = {bundle.prefix, {}};
  };
  for (const size_t index : bundle.sequences) {
    if (Cost(sequences, piece) + sequences[index].length() - bundle.prefix > token_budget) close();
    piece.sequences.push_back(index);
  }
  close();
}

std::vector<Bundle> Bundles(const std::vector<TrainSequence>& sequences, std::vector<size_t> which,
                            int64_t token_budget) {
  // In the order of their prompts, one that goes on after another comes behind it.
  std::stable_sort(which.begin(), which.end(), [&](size_t a, size_t b) {
    const absl::Span<const int32_t> left = Prompt(sequences[a]), right = Prompt(sequences[b]);
    return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
  });
  std::vector<Bundle> bundles;
  const auto prompt_of = [&](const Bundle& bundle) { return Prompt(sequences[bundle.sequences[0]]); };
  for (const size_t index : which) {
    const absl::Span<const int32_t> prompt = Prompt(sequences[index]);
    const int64_t prefix = std::max<int64_t>(0, static_cast<int64_t>(prompt.size()) - 1);
    if (bundles.empty() || bundles.back().prefix == 0 || !BeginsWith(prompt, prompt_of(bundles.back()))) {
      bundles.push_back({prefix < kShortestPrefix ? 0 : prefix, {}});
    }
    bundles.back().sequences.push_back(index);
  }
  std::vector<Bundle> pieces;
  for (const Bundle& bundle : bundles) Cut(sequences, bundle, token_budget, pieces);
  // Back in the order given.
  for (Bundle& piece : pieces) std::sort(piece.sequences.begin(), piece.sequences.end());
  std::sort(pieces.begin(), pieces.end(),
            [](const Bundle& a, const Bundle& b) { return a.sequences[0] < b.sequences[0]; });
  return pieces;
}

// Writes a PackedBatch from front to back.
class Packer {
 public:
  // Tokens [begin, end) of `s`.
  void AddSegment(const TrainSequence& s, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      ids_.push_back(s.ids[t]);
      positions_.push_back(t);
    }
    offsets_.push_back(static_cast<int64_t>(ids_.size()));
  }
  // `s` from `begin` on, with its loss tokens.
  void AddSequence(const TrainSequence& s, size_t index, int64_t begin) {
    const int64_t first = static_cast<int64_t>(ids_.size());
    for (int64_t t = begin; t + 1 < s.length(); ++t) {
      if (s.loss_mask[t + 1] == 0) continue;
      rows_.push_back(first + t - begin);
      targets_.push_back(s.ids[t + 1]);
    }
    AddSegment(s, begin, s.length() - 1);
    batch_.sequences.push_back(index);
    batch_.loss_offsets.push_back(static_cast<int64_t>(rows_.size()));
  }
  // A group's continuations end here; the first time, the prefixes do.
  void EndGroup() { group_offsets_.push_back(static_cast<int64_t>(ids_.size())); }

  PackedBatch Finish() {
    const auto tensor = [](const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); };
    batch_.ids = tensor(ids_);
    batch_.positions = tensor(positions_);
    batch_.offsets = tensor(offsets_);
    if (!group_offsets_.empty()) batch_.group_offsets = tensor(group_offsets_);
    batch_.loss_rows = tensor(rows_);
    batch_.targets = tensor(targets_);
    return std::move(batch_);
  }

 private:
  std::vector<int64_t> ids_, positions_, offsets_{0}, group_offsets_, rows_, targets_;
  PackedBatch batch_{.loss_offsets = {0}};
};

}  // namespace

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

std::vector<MicroBatch> PlanMicroBatches(const std::vector<TrainSequence>& sequences, const std::vector<size_t>& which,
                                         int64_t token_budget, bool share_prefixes) {
  std::vector<Bundle> bundles;
  if (share_prefixes) {
    bundles = Bundles(sequences, which, token_budget);
  } else {
    for (const size_t index : which) bundles.push_back({0, {index}});
  }
  std::vector<int64_t> costs;
  for (const Bundle& bundle : bundles) costs.push_back(Cost(sequences, bundle));
  std::vector<MicroBatch> batches;
  for (const std::vector<size_t>& chosen : PlanMicroBatches(costs, token_budget)) {
    batches.emplace_back();
    for (const size_t i : chosen) batches.back().push_back(std::move(bundles[i]));
  }
  return batches;
}

PackedBatch Pack(const std::vector<TrainSequence>& sequences, const std::vector<size_t>& which) {
  MicroBatch bundles;
  for (const size_t index : which) bundles.push_back({0, {index}});
  return Pack(sequences, bundles);
}

PackedBatch Pack(const std::vector<TrainSequence>& sequences, const MicroBatch& bundles) {
  Packer packer;
  bool shared = false;
  for (const Bundle& bundle : bundles) {
    if (bundle.prefix == 0) continue;
    packer.AddSegment(sequences[bundle.sequences[0]], 0, bundle.prefix);
    shared = true;
  }
  if (shared) packer.EndGroup();
  for (const Bundle& bundle : bundles) {
    if (bundle.prefix == 0) continue;
    for (const size_t index : bundle.sequences) packer.AddSequence(sequences[index], index, bundle.prefix);
    packer.EndGroup();
  }
  for (const Bundle& bundle : bundles) {
    if (bundle.prefix > 0) continue;
    for (const size_t index : bundle.sequences) packer.AddSequence(sequences[index], index, 0);
  }
  return packer.Finish();
}

std::vector<TokenRun> TokenRuns(const std::vector<TrainSequence>& sequences, const std::vector<MicroBatch>& batches) {
  std::vector<TokenRun> runs;
  for (const MicroBatch& batch : batches) {
    for (const Bundle& bundle : batch) {
      if (bundle.prefix > 0) runs.push_back({bundle.prefix, bundle.prefix});
      for (const size_t index : bundle.sequences) {
        runs.push_back({sequences[index].length() - bundle.prefix, sequences[index].length()});
      }
    }
  }
  return runs;
}

at::Tensor LossRows(const at::Tensor& hidden, const PackedBatch& batch) {
  if (batch.loss_tokens() == hidden.size(0)) return hidden;  // rows are ascending: all of them
  return hidden.index_select(0, batch.loss_rows.to(hidden.device()));
}

}  // namespace hone::trainer

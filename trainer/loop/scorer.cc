#include "trainer/loop/scorer.h"

#include <numeric>

#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "trainer/data/packing.h"
#include "trainer/loop/learner.h"

namespace hone::trainer {

absl::StatusOr<std::vector<std::vector<float>>> ScoreSequences(policy::Decoder& decoder,
                                                               const std::vector<TrainSequence>& sequences,
                                                               double temperature, int64_t token_budget, Communicator* ranks,
                                                               bool share_prefixes) {
  at::NoGradGuard no_grad;
  std::vector<std::vector<float>> scores;
  for (const TrainSequence& s : sequences) scores.emplace_back(s.ids.size(), 0.0f);
  std::vector<size_t> all(sequences.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const std::vector<MicroBatch> plan = PlanMicroBatches(sequences, all, token_budget, share_prefixes);
  HONE_ASSIGN_OR_RETURN(const size_t most, MostOfRanks(ranks, plan.size()));
  for (const MicroBatch& bundles : plan) {
    const PackedBatch batch = Pack(sequences, bundles);
    policy::PackedSequences attention(batch.offsets, batch.group_offsets);
    HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, decoder.Hidden(batch.ids, batch.positions, attention));
    HONE_ASSIGN_OR_RETURN(const policy::LogProbs log_probs,
                          decoder.TargetLogProbs(LossRows(hidden, batch), batch.targets, temperature));
    const at::Tensor values = log_probs.log_probs.cpu();
    const float* next = values.const_data_ptr<float>();
    for (size_t index : batch.sequences) {
      for (int64_t t = 1; t < sequences[index].length(); ++t) {
        if (sequences[index].loss_mask[t] != 0) scores[index][t] = *next++;
      }
    }
  }
  for (size_t i = plan.size(); i < most; ++i) HONE_RETURN_IF_ERROR(IdlePass(decoder).status());
  return scores;
}

}  // namespace hone::trainer

#include "trainer/loop/scorer.h"

#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "trainer/data/packing.h"
#include "trainer/loop/learner.h"

namespace hone::trainer {

absl::StatusOr<std::vector<std::vector<float>>> ScoreSequences(policy::Decoder& decoder,
                                                               const std::vector<TrainSequence>& sequences,
                                                               double temperature, int64_t token_budget, Communicator* ranks) {
  at::NoGradGuard no_grad;
  std::vector<int64_t> lengths;
  std::vector<std::vector<float>> scores;
  for (const TrainSequence& s : sequences) {
    lengths.push_back(s.length());
    scores.emplace_back(s.ids.size(), 0.0f);
  }
  const std::vector<std::vector<size_t>> plan = PlanMicroBatches(lengths, token_budget);
  HONE_ASSIGN_OR_RETURN(const size_t most, MostOfRanks(ranks, plan.size()));
  for (const std::vector<size_t>& which : plan) {
    const PackedBatch batch = Pack(sequences, which);
    policy::PackedSequences attention(batch.offsets);
    HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, decoder.Hidden(batch.ids, batch.positions, attention));
    HONE_ASSIGN_OR_RETURN(const policy::LogProbs log_probs,
                          decoder.TargetLogProbs(LossRows(hidden, batch), batch.targets, temperature));
    const at::Tensor values = log_probs.log_probs.cpu();
    const float* next = values.const_data_ptr<float>();
    for (size_t index : which) {
      for (int64_t t = 1; t < sequences[index].length(); ++t) {
        if (sequences[index].loss_mask[t] != 0) scores[index][t] = *next++;
      }
    }
  }
  for (size_t i = plan.size(); i < most; ++i) HONE_RETURN_IF_ERROR(IdlePass(decoder).status());
  return scores;
}

}  // namespace hone::trainer

#include "tests/support/catch_torch.h"

#include "trainer/data/packing.h"

namespace hone::trainer {
namespace {

std::vector<int64_t> Numbers(const at::Tensor& t) {
  return {t.const_data_ptr<int64_t>(), t.const_data_ptr<int64_t>() + t.numel()};
}

TEST_CASE("Micro-batches hold every sequence once, within the budget", "[trainer][data]") {
  const std::vector<int64_t> lengths{30, 70, 40, 10, 60, 100, 5, 250};
  const auto plan = PlanMicroBatches(lengths, 100);
  std::vector<int> seen(lengths.size());
  for (const std::vector<size_t>& batch : plan) {
    int64_t tokens = 0;
    for (size_t index : batch) {
      ++seen[index];
      tokens += lengths[index];
    }
    CHECK((tokens <= 100 || batch.size() == 1));
  }
  CHECK(seen == std::vector<int>(lengths.size(), 1));
  // 250 and 100 alone, 70 + 30, 60 + 40, 10 + 5.
  CHECK(plan.size() == 5);
}

TEST_CASE("Packing keeps exact tokens, positions and masks, and feeds no last token", "[trainer][data]") {
  std::vector<TrainSequence> sequences{PromptAndResponse({5, 6}, {7, 8, 9}), PromptAndResponse({1}, {2})};
  sequences[0].loss_mask[3] = 0;  // the 8 was not written by the policy
  const PackedBatch batch = Pack(sequences, {0, 1});
  CHECK(Numbers(batch.ids) == std::vector<int64_t>{5, 6, 7, 8, 1});
  CHECK(Numbers(batch.positions) == std::vector<int64_t>{0, 1, 2, 3, 0});
  CHECK(Numbers(batch.offsets) == std::vector<int64_t>{0, 4, 5});
  CHECK(Numbers(batch.loss_rows) == std::vector<int64_t>{1, 3, 4});
  CHECK(Numbers(batch.targets) == std::vector<int64_t>{7, 9, 2});
  CHECK(batch.loss_offsets == std::vector<int64_t>{0, 2, 3});
}

TEST_CASE("A sampled turn becomes one sequence with everything in its place", "[trainer][data]") {
  Turn turn;
  turn.prompt_ids = {4, 5};
  turn.response_ids = {6, 7, 8};
  turn.log_probs = {-1, -2, -3};
  turn.versions = {{0, 1, 9}, {1, 3, 10}};
  const TrainSequence s = SampledTurn(turn, 0.5);
  CHECK(s.ids == std::vector<int32_t>{4, 5, 6, 7, 8});
  CHECK(s.loss_mask == std::vector<uint8_t>{0, 0, 1, 1, 1});
  CHECK(s.rollout_log_probs == std::vector<float>{0, 0, -1, -2, -3});
  CHECK((s.versions == std::vector<VersionSpan>{{2, 3, 9}, {3, 5, 10}}));
  CHECK(s.advantage == 0.5);
}

TEST_CASE("Malformed sequences are refused by index", "[trainer][data]") {
  TrainSequence s = PromptAndResponse({1, 2}, {3});
  CHECK(Validate(s, 4, true).message() == "training sequence 4: rollout_log_probs has 0 entries for 3 ids");
  s.loss_mask[0] = 1;
  CHECK(Validate(s, 4, false).message() == "training sequence 4: the first token cannot be trained on");
  CHECK(Validate(PromptAndResponse({1}, {}), 0, false).message() == "training sequence 0: 1 ids, at least 2 are needed");
}

}  // namespace
}  // namespace hone::trainer

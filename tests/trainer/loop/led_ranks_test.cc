#include "tests/support/catch_torch.h"

#include "trainer/loop/led_ranks.h"

namespace hone::trainer {
namespace {

TrainSequence Sequence(int32_t first, int length) {
  TrainSequence sequence;
  for (int i = 0; i < length; ++i) {
    sequence.ids.push_back(first + i);
    sequence.loss_mask.push_back(i > 0);
    sequence.rollout_log_probs.push_back(-0.25f * static_cast<float>(i));
  }
  sequence.advantage = 0.1 * first;
  sequence.versions = {{1, length, 7}};
  return sequence;
}

TEST_CASE("Sequences come to another rank as they were", "[trainer][loop]") {
  std::vector<TrainSequence> sent = {Sequence(3, 5), Sequence(40, 2)};
  sent[1].reference_log_probs = {0, -1.5f};
  const auto got = FromBytes(ToBytes(sent));
  REQUIRE(got.ok());
  REQUIRE(got->size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK((*got)[i].ids == sent[i].ids);
    CHECK((*got)[i].loss_mask == sent[i].loss_mask);
    CHECK((*got)[i].rollout_log_probs == sent[i].rollout_log_probs);
    CHECK((*got)[i].reference_log_probs == sent[i].reference_log_probs);
    CHECK((*got)[i].advantage == sent[i].advantage);
    CHECK(((*got)[i].versions == sent[i].versions));
  }
  CHECK(FromBytes(ToBytes({}))->empty());
}

TEST_CASE("Bytes that are cut, or too many, are no sequences", "[trainer][loop]") {
  const at::Tensor bytes = ToBytes({Sequence(3, 5)});
  for (int64_t size = 0; size < bytes.numel(); ++size) {
    INFO(size);
    CHECK(absl::IsDataLoss(FromBytes(bytes.narrow(0, 0, size).clone()).status()));
  }
  CHECK(absl::IsDataLoss(FromBytes(at::cat({bytes, bytes.narrow(0, 0, 1)})).status()));
}

}  // namespace
}  // namespace hone::trainer

#include "tests/support/catch_torch.h"

#include <algorithm>
#include <random>

#include "policy/model/lora.h"
#include "policy/model/prefix_attention.h"
#include "tests/support/tiny_model.h"
#include "trainer/data/packing.h"
#include "trainer/loop/rl_trainer.h"
#include "trainer/loop/scorer.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::WithinAbs;
using testing::MakeDecoder;
using testing::TinyConfig;

class Batch {
 public:
  std::vector<int32_t> Ids(size_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(random_() % 37);
    return ids;
  }
  void Add(const std::vector<int32_t>& prompt, size_t answer) {
    sequences.push_back(PromptAndResponse(prompt, Ids(answer)));
    sequences.back().rollout_log_probs.assign(sequences.back().ids.size(), -3.6f);
    sequences.back().advantage = static_cast<double>(sequences.size() % 4) - 1.3;
  }
  std::vector<TrainSequence> sequences;

 private:
  std::mt19937 random_{5};
};

// Groups of unequal answers, dealt out in turn as a sampler may deliver them; one of a single sample; one whose prompt
// is too short to pay; and a second turn, whose prompt goes on after a first one.
std::vector<TrainSequence> Groups() {
  Batch batch;
  const std::vector<int32_t> a = batch.Ids(40), b = batch.Ids(25), alone = batch.Ids(60), brief = batch.Ids(3);
  for (const size_t answer : {7, 1, 19, 12}) {
    batch.Add(a, answer);
    batch.Add(b, 22 - answer);
  }
  batch.Add(alone, 9);
  batch.Add(brief, 5);
  batch.Add(brief, 8);
  std::vector<int32_t> second = batch.sequences[4].ids;
  const std::vector<int32_t> feedback = batch.Ids(6);
  second.insert(second.end(), feedback.begin(), feedback.end());
  batch.Add(second, 11);
  return batch.sequences;
}

std::vector<size_t> All(const std::vector<TrainSequence>& sequences) {
  std::vector<size_t> all;
  for (size_t i = 0; i < sequences.size(); ++i) all.push_back(i);
  return all;
}

TEST_CASE("Samples of one prompt are bundled, later turns with them, each once and within the budget",
          "[trainer][data]") {
  const std::vector<TrainSequence> sequences = Groups();
  const auto whole = PlanMicroBatches(sequences, All(sequences), 100'000, true);
  REQUIRE(whole.size() == 1);
  REQUIRE(whole[0].size() == 5);
  CHECK(whole[0][0].prefix == 39);
  CHECK(whole[0][0].sequences == std::vector<size_t>{0, 2, 4, 6, 11});
  CHECK(whole[0][1].prefix == 24);
  CHECK(whole[0][1].sequences == std::vector<size_t>{1, 3, 5, 7});
  for (size_t i : {2, 3, 4}) {  // no prefix: by themselves
    CHECK(whole[0][i].prefix == 0);
    CHECK(whole[0][i].sequences == std::vector<size_t>{i + 6});
  }
  for (const int64_t budget : {70, 95, 150}) {
    std::vector<size_t> seen;
    for (const MicroBatch& batch : PlanMicroBatches(sequences, All(sequences), budget, true)) {
      int64_t tokens = 0;
      for (const Bundle& bundle : batch) {
        tokens += bundle.prefix;
        for (const size_t index : bundle.sequences) {
          tokens += sequences[index].length() - bundle.prefix;
          seen.push_back(index);
        }
      }
      CHECK((tokens <= budget || (batch.size() == 1 && batch[0].sequences.size() == 1)));
    }
    std::sort(seen.begin(), seen.end());
    CHECK(seen == All(sequences));
  }
}

TEST_CASE("A shared prompt is packed once, its last token with each sample", "[trainer][data]") {
  const std::vector<TrainSequence> sequences{PromptAndResponse({5, 6, 7}, {8, 9}), PromptAndResponse({1}, {2}),
                                             PromptAndResponse({5, 6, 7}, {3})};
  const PackedBatch batch = Pack(sequences, MicroBatch{{0, {1}}, {2, {0, 2}}});
  const auto equal = [](const at::Tensor& got, std::vector<int64_t> want) {
    return got.equal(at::tensor(want, at::kLong));
  };
  CHECK(equal(batch.ids, {5, 6, 7, 8, 7, 1}));
  CHECK(equal(batch.positions, {0, 1, 2, 3, 2, 0}));
  CHECK(equal(batch.offsets, {0, 2, 4, 5, 6}));
  CHECK(equal(batch.group_offsets, {2, 5}));
  CHECK(equal(batch.loss_rows, {2, 3, 4, 5}));
  CHECK(equal(batch.targets, {8, 9, 3, 2}));
  CHECK(batch.sequences == std::vector<size_t>{0, 2, 1});
  CHECK(batch.loss_offsets == std::vector<int64_t>{0, 2, 3, 4});
}

TEST_CASE("Attention with shared prefixes gives the output and gradient of attention without", "[policy][model]") {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const int64_t kv_heads : {1, 2, 6}) {
      const absl::Status status = policy::TestPrefixAttention({6, kv_heads, 16, 0.3, 0}, at::kCPU, dtype);
      CHECK(status.ToString() == "OK");
    }
  }
  CHECK(policy::TestPrefixAttention({6, 2, 16, 0.3, 8}, at::kCPU, at::kFloat).code() ==
        absl::StatusCode::kFailedPrecondition);
}

struct Learned {
  double loss = 0;
  at::Tensor gradients;
};

// A decoder, with an adapter that everything frozen leaves to train.
struct Model {
  Model(at::ScalarType dtype, bool with_lora, bool checkpoint) {
    decoder = policy::Decoder::Create(TinyConfig(), {.dtype = dtype, .checkpoint_activations = checkpoint}).value();
    decoder->parameters().Initialize(7);
    if (!with_lora) return;
    for (const policy::Leaf& leaf : decoder->parameters().leaves()) {
      at::Tensor value = leaf.value;
      value.set_requires_grad(false);
    }
    lora = policy::Lora::Create(TinyConfig(), {}, decoder->parameters().flat().options(), 5).value();
    at::NoGradGuard no_grad;
    for (const policy::NamedTensor& named : lora->named()) {  // B is 0 at first, and A then has no gradient
      at::Tensor tensor = named.tensor;
      if (named.name.find("lora_B") != std::string::npos)
        tensor.copy_(at::linspace(-0.2, 0.2, tensor.numel()).view(tensor.sizes()));
    }
    decoder->UseLora(lora.get());
  }
  std::unique_ptr<policy::Decoder> decoder;
  std::unique_ptr<policy::Lora> lora;
};

// By RlTrainer, which is for fp32 and half precisions.
Learned Learn(Model model, const std::vector<TrainSequence>& sequences, bool share, int64_t budget) {
  RlOptions options;
  options.learner.schedule.peak = 0;
  options.learner.micro_batch_tokens = budget;
  options.learner.share_prefixes = share;
  options.loss.entropy_coefficient = 0.01;
  const auto trainer = RlTrainer::Create(options, *model.decoder).value();
  CHECK(trainer->prefix_sharing().ok() == share);
  const double loss = trainer->Step(sequences).value().at("loss");
  return {loss, trainer->learner().optimizer().gradients().clone()};
}

// A loss of log-probs and entropies, in any dtype.
Learned Differentiate(Model model, const std::vector<TrainSequence>& sequences, bool share, int64_t budget) {
  Learned result;
  for (const MicroBatch& bundles : PlanMicroBatches(sequences, All(sequences), budget, share)) {
    const PackedBatch batch = Pack(sequences, bundles);
    policy::PackedSequences attention(batch.offsets, batch.group_offsets);
    const at::Tensor hidden = model.decoder->Hidden(batch.ids, batch.positions, attention).value();
    const policy::LogProbs rows = model.decoder->TargetLogProbs(LossRows(hidden, batch), batch.targets, 0.9).value();
    at::Tensor loss = 0.01 * rows.entropy.sum();
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const int64_t begin = batch.loss_offsets[i], count = batch.loss_offsets[i + 1] - begin;
      loss = loss + sequences[batch.sequences[i]].advantage * rows.log_probs.narrow(0, begin, count).mean();
    }
    loss.backward();
    result.loss += loss.item<double>();
  }
  std::vector<at::Tensor> flat;
  for (const policy::Leaf& leaf : model.decoder->TrainedLeaves()) flat.push_back(leaf.value.grad().flatten());
  result.gradients = at::cat(flat);
  return result;
}

void CheckSame(const Learned& got, const Learned& want, double limit) {
  const double size = want.gradients.abs().max().item<double>();
  REQUIRE(size > 1e-3);
  CHECK_THAT(got.loss, WithinAbs(want.loss, limit));
  CHECK((got.gradients - want.gradients).abs().max().item<double>() < limit * size);
}

TEST_CASE("Learning with shared prefixes gives the loss and every gradient of learning without", "[trainer][loop]") {
  const std::vector<TrainSequence> sequences = Groups();
  for (const bool with_lora : {false, true}) {
    const Learned want = Learn({at::kFloat, with_lora, false}, sequences, false, 100'000);
    const Learned exact = Differentiate({at::kDouble, with_lora, false}, sequences, false, 100'000);
    for (const int64_t budget : {100'000, 95, 70}) {  // whole groups, then borders inside them
      for (const bool checkpoint : {false, true}) {
        CAPTURE(with_lora, budget, checkpoint);
        CheckSame(Learn({at::kFloat, with_lora, checkpoint}, sequences, true, budget), want, 1e-5);
        CheckSame(Differentiate({at::kDouble, with_lora, checkpoint}, sequences, true, budget), exact, 1e-12);
      }
    }
  }
}

TEST_CASE("Scores with shared prefixes are those without, each at its own sequence", "[trainer][loop]") {
  const std::vector<TrainSequence> sequences = Groups();
  const auto decoder = MakeDecoder(TinyConfig());
  const auto want = ScoreSequences(*decoder, sequences, 0.8, 100'000).value();
  for (const int64_t budget : {100'000, 95}) {
    const auto got = ScoreSequences(*decoder, sequences, 0.8, budget, nullptr, /*share_prefixes=*/true).value();
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      REQUIRE(got[i].size() == want[i].size());
      for (size_t t = 0; t < want[i].size(); ++t) CHECK_THAT(got[i][t], WithinAbs(want[i][t], 2e-5));
    }
  }
}

TEST_CASE("A model with windows learns without sharing, and says why", "[trainer][loop]") {
  policy::ModelConfig config = TinyConfig();
  config.layer_is_local = {true, false};
  config.sliding_window = 8;
  const auto decoder = MakeDecoder(config);
  RlOptions options;
  options.learner.share_prefixes = true;
  const auto trainer = RlTrainer::Create(options, *decoder).value();
  CHECK(trainer->prefix_sharing().message() == "layers of the model have a window");
  CHECK(trainer->Step(Groups()).value().at("updated") == 1);
}

}  // namespace
}  // namespace hone::trainer

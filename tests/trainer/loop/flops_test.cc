#include "tests/support/catch_torch.h"

#include "tests/support/tiny_model.h"
#include "trainer/loop/flops.h"

namespace hone::trainer {
namespace {

TEST_CASE("A pass costs 2 N + 4 L d s a token, N without a table that is only looked up; worked by hand", "[trainer][loop]") {
  policy::ModelConfig config = testing::TinyConfig();
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.head_dim = 8;
  config.tie_word_embeddings = true;
  const auto tied = testing::MakeDecoder(config);
  config.tie_word_embeddings = false;
  const auto untied = testing::MakeDecoder(config);
  const double n = static_cast<double>(tied->parameters().count());
  // 3 and 5 tokens: 8 tokens' 2 N, and 4 * 2 * 32 for each pair of a token and its sequence's length, 9 + 25 of them.
  CHECK(PassFlops(*tied, {3, 5}, 1) == 16 * n + 256 * 34);
  CHECK(PassFlops(*tied, {3, 5}, 3) == 3 * (16 * n + 256 * 34));
  CHECK(PassFlops(*untied, {3, 5}, 1) == PassFlops(*tied, {3, 5}, 1));
  CHECK(untied->parameters().count() > tied->parameters().count());
  CHECK(TrainPasses(*tied) == 3);
}

}  // namespace
}  // namespace hone::trainer

#include "trainer/loop/flops.h"

namespace hone::trainer {

int64_t TrainPasses(const policy::Decoder& decoder) { return decoder.lora() == nullptr ? 3 : 2; }

double PassFlops(const policy::Decoder& decoder, const std::vector<int64_t>& lengths, int64_t passes) {
  std::vector<TokenRun> runs;
  for (const int64_t length : lengths) runs.push_back({length, length});
  return RunFlops(decoder, runs, passes);
}

double RunFlops(const policy::Decoder& decoder, const std::vector<TokenRun>& runs, int64_t passes) {
  const policy::ModelConfig& c = decoder.config();
  const int64_t looked_up = c.tie_word_embeddings ? 0 : c.vocab_size * c.hidden_size;
  const double weights = 2.0 * static_cast<double>(decoder.parameters().count() - looked_up);
  const double attention = 4.0 * static_cast<double>(c.num_hidden_layers * c.num_attention_heads * c.head_dim);
  double flops = 0;
  for (const TokenRun& run : runs)
    flops += static_cast<double>(run.tokens) * (weights + attention * static_cast<double>(run.length));
  return flops * static_cast<double>(passes);
}

}  // namespace hone::trainer

#pragma once

// A chat model that writes kernels, and tasks for it: what runs of `hone train` in tests learn from.

#include "tests/support/catch_torch.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "policy/model/hf_folder.h"
#include "policy/tokenizer/train_bpe.h"
#include "rollout/prompt/layouts.h"
#include "rollout/prompt/worked_examples.h"
#include "tests/support/tiny_model.h"

namespace hone::cli {

inline std::string Kernel(const std::string& value) {
  return "```cuda\n#include <cuda_runtime.h>\n__global__ void k(const float* x, float* out, int n) {\n"
         "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) out[i] = " + value + ";\n}\n"
         "extern \"C\" void launch(const float* x, float* out, int n, cudaStream_t stream) {\n"
         "  k<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);\n}\n```\n";
}

/// A Qwen2 model with random weights, some of whose tokens are whole answers: it writes right, wrong and broken kernels.
inline void WriteKernelModel(const std::string& folder) {
  const std::vector<std::string> answers = {Kernel("-x[i]"), Kernel("0.0f - x[i]"), Kernel("2.0f * x[i]"),
                                            Kernel("x[i] + x[i]"), Kernel("x[i]"), Kernel("y[i]")};
  policy::TrainBpeOptions options;
  options.special_tokens = {"<|im_start|>", "<|im_end|>"};
  // Words of the prompts are tokens: prompts are short.
  const rollout::WorkedExample example = rollout::ExampleOf(rollout::LaunchShape::kElements);
  const std::string text = rollout::TaskPrompt(example.task, example.skeleton, {}) + example.source;
  const auto plain = policy::TrainBpe({text, text, "user assistant"}, 900, options).value();
  nlohmann::json tokenizer = nlohmann::json::parse(plain->json());
  const int32_t first = plain->vocab_size(), vocabulary = first + static_cast<int32_t>(answers.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    tokenizer["added_tokens"].push_back({{"id", first + static_cast<int32_t>(i)}, {"content", answers[i]}, {"single_word", false},
                                         {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", false}});
  }
  policy::ModelConfig config = testing::TinyConfig();
  config.attention_bias = true;
  config.tie_word_embeddings = false;
  config.vocab_size = vocabulary;
  config.max_position_embeddings = 8192;
  const auto decoder = testing::MakeDecoder(config);
  {
    at::NoGradGuard no_grad;
    at::Tensor head = decoder->parameters().leaf("lm_head.weight").detach();
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
    head.zero_();
    head.narrow(0, first, vocabulary - first).copy_(at::randn({vocabulary - first, config.hidden_size}, generator) * 0.75);
    head[*plain->IdOf("<|im_end|>")].copy_(at::randn({config.hidden_size}, generator) * 0.75);
  }
  REQUIRE(MakeFolders(folder).ok());
  REQUIRE(policy::SaveHfWeights(*decoder, folder).ok());
  const nlohmann::json description = {{"model_type", "qwen2"},
                            {"vocab_size", config.vocab_size},
                            {"hidden_size", config.hidden_size},
                            {"intermediate_size", config.intermediate_size},
                            {"num_hidden_layers", config.num_hidden_layers},
                            {"num_attention_heads", config.num_attention_heads},
                            {"num_key_value_heads", config.num_key_value_heads},
                            {"head_dim", config.head_dim},
                            {"max_position_embeddings", config.max_position_embeddings},
                            {"rms_norm_eps", config.rms_norm_eps},
                            {"tie_word_embeddings", false}};
  REQUIRE(WriteFileAtomically(folder + "/config.json", description.dump()).ok());
  REQUIRE(WriteFileAtomically(folder + "/tokenizer.json", tokenizer.dump()).ok());
  REQUIRE(WriteFileAtomically(folder + "/tokenizer_config.json", R"({"eos_token": "<|im_end|>"})").ok());
}

inline void WriteTask(const std::string& folder, const std::string& id, const std::string& expression, const std::string& split) {
  REQUIRE(WriteFileAtomically(folder + "/" + id + ".py",
                              "# ---\n# id: " + id + "\n# family: elementwise\n# split: " + split +
                                  "\n# ---\nimport torch\nimport torch.nn as nn\n\nn = 300\n\n\nclass Model(nn.Module):\n"
                                  "    def forward(self, x):\n        return " + expression +
                                  "\n\n\ndef get_inputs():\n    return [torch.randn(n)]\n\n\ndef get_init_inputs():\n"
                                  "    return []\n")
              .ok());
}

}  // namespace hone::cli

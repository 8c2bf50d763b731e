"""Writes the reference that hf_parity_test reads: for each family a tiny random model in HF's format, token ids, and the
logits that transformers computes in fp32. Run with any Python that has torch and transformers:

    python3 tests/policy/model/make_reference.py tests/policy/model/reference
"""

import os
import sys

import torch
import transformers
from safetensors.torch import save_file


def tiny(cls, **more):
    return cls(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
               num_key_value_heads=2, head_dim=8, max_position_embeddings=128, initializer_range=0.3, eos_token_id=2,
               bos_token_id=1, pad_token_id=0, **more)


CONFIGS = {
    "llama3": (transformers.LlamaForCausalLM, tiny(
        transformers.LlamaConfig, tie_word_embeddings=False, rope_theta=10000.0,
        rope_scaling={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 32})),
    "qwen2": (transformers.Qwen2ForCausalLM, tiny(transformers.Qwen2Config, tie_word_embeddings=True, rope_theta=1e6)),
    "qwen3": (transformers.Qwen3ForCausalLM, tiny(transformers.Qwen3Config, tie_word_embeddings=False, rope_theta=1e6)),
    "gemma3": (transformers.Gemma3ForCausalLM, tiny(
        transformers.Gemma3TextConfig, query_pre_attn_scalar=16, sliding_window=7,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
}


def main(out):
    for name, (model_class, config) in CONFIGS.items():
        torch.manual_seed(11)
        config._attn_implementation = "eager"
        model = model_class(config).eval()
        with torch.no_grad():
            for key, value in model.named_parameters():
                if value.dim() == 1:  # norms and biases away from their neutral start
                    value.add_(torch.randn_like(value) * 0.2)
            ids = torch.randint(0, 61, (1, 40))
            logits = model(ids).logits[0]
        folder = os.path.join(out, name)
        model.save_pretrained(folder)
        for extra in os.listdir(folder):
            if extra not in ("config.json", "model.safetensors"):
                os.remove(os.path.join(folder, extra))
        save_file({"ids": ids[0].clone(), "logits": logits.contiguous()}, os.path.join(folder, "expected.safetensors"))
        print(name, os.path.getsize(os.path.join(folder, "model.safetensors")), "bytes, transformers", transformers.__version__)


if __name__ == "__main__":
    main(sys.argv[1])

"""What HF transformers generates a second with random weights of the shapes that engine_bench uses; one line of JSON a case.

    python3 bench/device/engine_hf.py SHAPE BATCH TOKENS [DEVICE [PROMPT]]     # SHAPE: qwen1_5b or qwen8b
"""

import json
import sys
import time

import torch
import transformers


def config(shape):
    common = dict(vocab_size=151936, max_position_embeddings=32768, rope_theta=1e6, eos_token_id=None, bos_token_id=None)
    if shape == "qwen8b":
        return transformers.Qwen3Config(hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32,
                                        num_key_value_heads=8, head_dim=128, tie_word_embeddings=False, **common)
    return transformers.Qwen2Config(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
                                    num_key_value_heads=2, tie_word_embeddings=True, **common)


def main(shape, batch, tokens, device="cuda", prompt=512):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config(shape), attn_implementation="sdpa").eval()
    ids = torch.randint(0, 151936, (batch, prompt), device=device)
    seconds = None
    for length in (8, tokens):  # the first is to warm up
        wait()
        start = time.time()
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, max_new_tokens=length, min_new_tokens=length, pad_token_id=0)
        wait()
        seconds = time.time() - start
    print(json.dumps({"engine": "transformers " + transformers.__version__, "shape": shape, "batch": batch, "prompt": prompt,
                      "tokens": tokens, "tok_s": round(batch * tokens / seconds, 1)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:5], *map(int, sys.argv[5:6]))

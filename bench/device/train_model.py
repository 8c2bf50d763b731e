"""Makes a chat model of Qwen2.5-1.5B's shape with random weights, and tasks that it can solve, for bench/device/train.sh.

A random model writes noise. This one has a few hundred further tokens that are whole answers, right, slow, wrong and broken
ones, and an output layer that gives all other tokens one common logit: it answers in kernels from the start, verdicts differ
within a group, and there is something to learn. Nothing about speed or memory depends on what the tokens say.

    train_model.py FOLDER [LAYERS]      writes FOLDER/model and FOLDER/tasks
"""

import json
import os
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 1536, 8960, 12, 2, 128, 151936
VARIANTS = 24
EXPRESSIONS = {"negate": "-x", "double": "2 * x", "square": "x * x", "clip": "torch.clamp(x, min=0.25)", "half": "0.5 * x", "next": "x + 1"}
BODIES = ["-x[i]", "2.0f * x[i]", "x[i] * x[i]", "fmaxf(x[i], 0.25f)", "0.5f * x[i]", "x[i] + 1.0f", "x[i]", "y[i]"]


def answer(body, variant):
    threads = [32, 64, 128, 256, 512, 1024][variant % 6]
    return f"""```cuda
#include <cuda_runtime.h>
// variant {variant}
__global__ void k(const float* x, float* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = {body};
}}
extern "C" void launch(const float* x, float* out, int n, cudaStream_t stream) {{
    k<<<(n + {threads - 1}) / {threads}, {threads}, 0, stream>>>(x, out, n);
}}
```
"""


def write_tokenizer(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=4000, special_tokens=["<|im_start|>", "<|im_end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    words = [answer(b, v) for b in BODIES for v in range(VARIANTS)] + list(EXPRESSIONS.values())
    tokenizer.train_from_iterator(words, trainer)
    answers = [answer(b, v) for b in BODIES for v in range(VARIANTS)]
    tokenizer.add_tokens(answers)
    tokenizer.save(f"{folder}/tokenizer.json")
    json.dump({"eos_token": "<|im_end|>"}, open(f"{folder}/tokenizer_config.json", "w"))
    fillers = [tokenizer.token_to_id(t) for t in ["a", "b", "c", "d", "e", "f", "g", "h"]]
    return [tokenizer.token_to_id(a) for a in answers], fillers, tokenizer.token_to_id("<|im_end|>")


def main():
    folder = sys.argv[1]
    layers = int(sys.argv[2]) if len(sys.argv) > 2 else 28
    os.makedirs(f"{folder}/model", exist_ok=True)
    os.makedirs(f"{folder}/tasks", exist_ok=True)
    answers, fillers, end = write_tokenizer(f"{folder}/model")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    weights = {}

    def matrix(name, rows, cols, std=0.02):
        weights[name] = (torch.randn(rows, cols, device=device) * std).to(torch.bfloat16).cpu()

    def vector(name, size, value):
        weights[name] = torch.full((size,), value, dtype=torch.bfloat16)

    matrix("model.embed_tokens.weight", VOCABULARY, HIDDEN, 1.0)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for name, rows, cols in [("self_attn.q_proj", HEADS * HEAD_DIM, HIDDEN), ("self_attn.k_proj", KV_HEADS * HEAD_DIM, HIDDEN),
                                 ("self_attn.v_proj", KV_HEADS * HEAD_DIM, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * HEAD_DIM),
                                 ("mlp.gate_proj", INTERMEDIATE, HIDDEN), ("mlp.up_proj", INTERMEDIATE, HIDDEN),
                                 ("mlp.down_proj", HIDDEN, INTERMEDIATE)]:
            matrix(prefix + name + ".weight", rows, cols)
            if name.startswith("self_attn.") and not name.endswith("o_proj"):
                vector(prefix + name + ".bias", rows, 0.0)
        vector(prefix + "input_layernorm.weight", HIDDEN, 1.0)
        vector(prefix + "post_attention_layernorm.weight", HIDDEN, 1.0)
    vector("model.norm.weight", HIDDEN, 1.0)
    head = torch.zeros(VOCABULARY, HIDDEN, device=device)
    spoken = fillers + answers + [end]
    head[spoken] = torch.randn(len(spoken), HIDDEN, device=device) * (4.5 / HIDDEN**0.5)
    weights["lm_head.weight"] = head.to(torch.bfloat16).cpu()
    save_file(weights, f"{folder}/model/model.safetensors")
    json.dump({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": VOCABULARY, "hidden_size": HIDDEN,
               "intermediate_size": INTERMEDIATE, "num_hidden_layers": layers, "num_attention_heads": HEADS,
               "num_key_value_heads": KV_HEADS, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
               "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu", "eos_token_id": end},
              open(f"{folder}/model/config.json", "w"))
    for i, (name, expression) in enumerate(EXPRESSIONS.items()):
        split = "held_out" if i == 5 else "train"
        with open(f"{folder}/tasks/{name}.py", "w") as out:
            out.write(f"""# ---
# id: {name}
# family: elementwise
# split: {split}
# variants:
#   - n=1
#   - n=1000
# timing_gpu: n=16777216
# ---
import torch
import torch.nn as nn

n = 70000


class Model(nn.Module):
    def forward(self, x):
        return {expression}


def get_inputs():
    return [torch.randn(n)]


def get_init_inputs():
    return []
""")


main()

"""HF transformers at the shapes of learner_bench: full fine-tune of 1.5B, scoring with 8B. One JSON object a line."""

import json
import time

import torch
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen3Config

PEAK = 989e12


def measure(step, warm=2, runs=5):
    seconds = []
    for i in range(warm + runs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if i >= warm:
            seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2]


def report(name, tokens, seconds, flops):
    print(json.dumps({"bench": name, "tokens": tokens, "seconds": round(seconds, 4), "tok_s": round(tokens / seconds),
                      "mfu": round(tokens / seconds * flops / PEAK, 4),
                      "peak_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2)}), flush=True)
    torch.cuda.reset_peak_memory_stats()


def make(config):
    with torch.device("cuda"):
        return AutoModelForCausalLM.from_config(config, torch_dtype=torch.bfloat16, attn_implementation="sdpa")


def full():
    config = Qwen2Config(vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                         num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True)
    model = make(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    ids = torch.randint(0, 151936, (4, 4096), device="cuda")

    def step():
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    n = sum(p.numel() for p in model.parameters())
    report("transformers qwen1_5b full", 4 * 4096, measure(step), 6 * n + 12 * 28 * 1536 * 4096)


def score():
    config = Qwen3Config(vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36,
                         num_attention_heads=32, num_key_value_heads=8, head_dim=128, tie_word_embeddings=False)
    model = make(config)
    ids = torch.randint(0, 151936, (4, 4096), device="cuda")

    @torch.no_grad()
    def step():
        for row in ids:  # the logits of all four at once would be 10 GB in fp32
            logits = model(input_ids=row[None]).logits[0, :-1].float()
            torch.log_softmax(logits, -1).gather(1, row[1:, None])

    n = sum(p.numel() for p in model.parameters()) - 151936 * 4096
    report("transformers qwen8b score", 4 * 4096, measure(step), 2 * n + 4 * 36 * 4096 * 4096)


for part in (full, score):
    try:
        part()
    except Exception as error:  # one part's failure leaves the other's figure
        print(json.dumps({"failed": part.__name__, "why": repr(error)[:300]}), flush=True)
    torch.cuda.empty_cache()

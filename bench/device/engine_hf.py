"""What HF transformers generates a second with random weights of the shapes that engine_bench uses; one line of JSON a case.
On a GPU also how far its own log-probs of one sequence are apart when that is computed alone and in a padded batch: what
bf16 leaves undetermined.

    python3 bench/device/engine_hf.py SHAPE BATCH[,BATCH ...] TOKENS [--device cpu] [--prompt 64]    # qwen1_5b or qwen8b
        [--record results.json --machine "NVIDIA H200" --commit HASH]
"""

import argparse
import datetime
import json
import os
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


def measure(model, batch, arguments):
    """Tokens a second, prompts included, as engine_bench counts them."""
    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    ids = torch.randint(0, 151936, (batch, arguments.prompt), device=arguments.device)
    seconds = None
    for tokens in (8, arguments.tokens):  # the first is to warm up
        wait()
        start = time.time()
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0)
        wait()
        seconds = time.time() - start
    return batch * arguments.tokens / seconds


def log_probs(model, ids, mask, positions):
    """[batch, length - 1] of the tokens, fp32 from the bf16 logits."""
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
    out = []
    for row in range(ids.shape[0]):
        out.append(torch.log_softmax(logits[row, :-1].float(), -1).gather(1, ids[row, 1:, None])[:, 0])
    return torch.stack(out)


def own_gap(model, length=300, batch=8, padding=64):
    """Mean |difference| of a sequence's log-probs, computed alone and as the shortest of a batch padded on the left. The
    tokens are drawn from the model, as they are in a rollout."""
    device = model.device
    prompt = torch.randint(0, 151936, (batch, 16), device=device)
    ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True, max_new_tokens=length - 16,
                         min_new_tokens=length - 16, pad_token_id=0)
    positions = torch.arange(length, device=device)[None]
    sums, worst = 0.0, 0.0
    others = torch.randint(0, 151936, (batch - 1, length + padding), device=device)
    for row in range(batch):
        alone = log_probs(model, ids[row:row + 1], torch.ones_like(ids[row:row + 1]), positions)[0]
        padded = torch.cat([torch.cat([torch.zeros_like(others[0, :padding]), ids[row]])[None], others])
        mask = torch.ones_like(padded)
        mask[0, :padding] = 0
        among = log_probs(model, padded, mask, (mask.cumsum(1) - 1).clamp(min=0))[0, padding:]
        gap = (alone[15:] - among[15:]).abs()
        sums += gap.mean().item()
        worst = max(worst, gap.max().item())
    return sums / batch, worst


def record(arguments, name, value, unit):
    """Puts the figure into results.json as the bench programs do."""
    results = []
    if os.path.exists(arguments.record):
        with open(arguments.record) as file:
            results = json.load(file)
    row = {"id": f"engine.{arguments.shape}.{name}", "value": value, "unit": unit,
           "command": f"bench/device/engine_hf.py {arguments.shape} {','.join(map(str, arguments.batches))} {arguments.tokens}",
           "machine": arguments.machine, "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "commit": arguments.commit}
    kept = [r for r in results if (r["id"], r["machine"]) != (row["id"], row["machine"])]
    with open(arguments.record, "w") as file:
        json.dump(sorted(kept + [row], key=lambda r: (r["id"], r["machine"])), file, indent=2)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=["qwen1_5b", "qwen8b"])
    parser.add_argument("batches", type=lambda text: [int(batch) for batch in text.split(",")])
    parser.add_argument("tokens", type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--record")
    parser.add_argument("--machine", default="NVIDIA H200")
    parser.add_argument("--commit", default="unknown")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(arguments.device):
        model = transformers.AutoModelForCausalLM.from_config(config(arguments.shape), attn_implementation="sdpa").eval()
    for batch in arguments.batches:
        tok_s = measure(model, batch, arguments)
        print(json.dumps({"engine": "transformers " + transformers.__version__, "shape": arguments.shape, "batch": batch,
                          "prompt": arguments.prompt, "tokens": arguments.tokens, "tok_s": round(tok_s, 2)}), flush=True)
        if arguments.record:
            record(arguments, f"hf_b{batch}_tok_s", tok_s, "tok/s")
    if arguments.device == "cuda":
        mean, worst = own_gap(model)
        print(json.dumps({"engine": "transformers " + transformers.__version__, "shape": arguments.shape, "own_gap_mean": mean, "own_gap_worst": worst}),
              flush=True)
        if arguments.record:
            record(arguments, "hf_own_log_prob_gap", mean, "nats")


if __name__ == "__main__":
    main()

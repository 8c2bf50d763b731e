"""What HF transformers generates a second with random weights of the shapes that engine_bench uses; one line of JSON a case.

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


def record(arguments, batch, tok_s):
    """Puts the figure into results.json as the bench programs do."""
    results = []
    if os.path.exists(arguments.record):
        with open(arguments.record) as file:
            results = json.load(file)
    row = {"id": f"engine.{arguments.shape}.hf_b{batch}_tok_s", "value": tok_s, "unit": "tok/s",
           "command": f"bench/device/engine_hf.py {arguments.shape} {batch} {arguments.tokens}", "machine": arguments.machine,
           "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "commit": arguments.commit}
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
            record(arguments, batch, tok_s)


if __name__ == "__main__":
    main()

"""Writes greedy.json, which engine_test reads: what transformers generates greedily in fp32 with the tiny models of
tests/policy/model/reference. Run with any Python that has torch and transformers:

    python3 tests/rollout/engine/make_greedy.py tests/policy/model/reference tests/rollout/engine/greedy.json
"""

import json
import os
import sys

import torch
import transformers


def main(reference, out):
    cases = []
    for name in sorted(os.listdir(reference)):
        model = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(reference, name), dtype=torch.float32, attn_implementation="eager").eval()
        for seed, length in ((1, 1), (2, 9), (3, 40)):
            prompt = torch.randint(3, 61, (1, length), generator=torch.Generator().manual_seed(seed))
            ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=60, pad_token_id=0)
            cases.append({"model": name, "prompt": prompt[0].tolist(), "tokens": ids[0, length:].tolist()})
    with open(out, "w") as file:
        json.dump({"transformers": transformers.__version__, "cases": cases}, file)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

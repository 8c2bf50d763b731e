"""What transformers generates greedily in fp32 from a model folder, as a JSON list of ids:

    python3 transformers_greedy.py FOLDER TOKENS ID [ID ...]
"""

import json
import sys

import torch
import transformers


def main(folder, tokens, prompt):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens, pad_token_id=0)
    print(json.dumps(out[0, len(prompt):].tolist()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [int(word) for word in sys.argv[3:]])

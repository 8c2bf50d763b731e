#!/usr/bin/env python3
"""A Qwen2 model of a few hundred thousand random weights behind a real tokenizer: tries the recipe's scripts on a CPU.

    tiny_model.py FOLDER TOKENIZER_FOLDER      TOKENIZER_FOLDER: of the real model, as hone convert leaves it
"""

import json
import pathlib
import shutil
import struct
import sys

import torch

HIDDEN, HEADS, KV_HEADS, INTERMEDIATE, LAYERS = 32, 4, 2, 64, 2


def main():
    folder, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True)
    config = json.loads((source / "config.json").read_text())
    config.update(hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, intermediate_size=INTERMEDIATE,
                  num_hidden_layers=LAYERS, head_dim=HIDDEN // HEADS, tie_word_embeddings=True, torch_dtype="bfloat16")
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        if (source / name).exists():
            shutil.copy(source / name, folder / name)
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], HIDDEN), "model.norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        shapes |= {at + "input_layernorm.weight": (HIDDEN,), at + "post_attention_layernorm.weight": (HIDDEN,)}
        for name, rows in (("q", HIDDEN), ("k", kv), ("v", kv)):
            shapes |= {f"{at}self_attn.{name}_proj.weight": (rows, HIDDEN), f"{at}self_attn.{name}_proj.bias": (rows,)}
        shapes[at + "self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
        shapes |= {at + "mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN), at + "mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
                   at + "mlp.down_proj.weight": (HIDDEN, INTERMEDIATE)}
    torch.manual_seed(1)
    header, data = {}, b""
    for name, shape in shapes.items():
        value = torch.ones(shape) if name.endswith("norm.weight") else 0.05 * torch.randn(shape)
        raw = value.to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)
    print(folder, len(data), "bytes")


if __name__ == "__main__":
    main()

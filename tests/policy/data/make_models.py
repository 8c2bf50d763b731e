#!/usr/bin/env python3
"""Writes tiny models of each architecture twice: NAME.gguf as llama.cpp's converter lays them out, NAME.safetensors as HF does.

Needs: pip install gguf safetensors numpy.   Usage: make_models.py FOLDER
"""

import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

LAYERS, HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM = 2, 32, 64, 4, 2, 16
ARCHITECTURES = {"qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3, "llama": gguf.MODEL_ARCH.LLAMA,
                 "gemma3": gguf.MODEL_ARCH.GEMMA3}


def vocabulary(name):
    alphabet = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]]
    if name != "gemma3":
        return alphabet + ["ab", "<|im_start|>", "<|im_end|>", "[PAD]"], [1] * 257 + [3, 3, 5], ["a b"]
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{i:02X}>" for i in range(256)] + ["a", "b", "\u2581", "ab", "  "]
    return tokens, [3, 3, 3, 2] + [6] * 256 + [1, 1, 1, 1, 4], None


def hf_tensors(name, rows, random):
    def weight(*shape):
        return random.standard_normal(shape).astype(np.float16)

    tensors = {"model.embed_tokens.weight": weight(rows, HIDDEN), "model.norm.weight": weight(HIDDEN)}
    if name == "qwen3":
        tensors["lm_head.weight"] = weight(rows, HIDDEN)
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        sizes = {"q": HEADS * HEAD_DIM, "k": KV_HEADS * HEAD_DIM, "v": KV_HEADS * HEAD_DIM}
        for part, size in sizes.items():
            tensors[f"{p}self_attn.{part}_proj.weight"] = weight(size, HIDDEN)
            if name == "qwen2":
                tensors[f"{p}self_attn.{part}_proj.bias"] = weight(size)
        tensors[p + "self_attn.o_proj.weight"] = weight(HIDDEN, HEADS * HEAD_DIM)
        tensors[p + "mlp.gate_proj.weight"] = weight(INTERMEDIATE, HIDDEN)
        tensors[p + "mlp.up_proj.weight"] = weight(INTERMEDIATE, HIDDEN)
        tensors[p + "mlp.down_proj.weight"] = weight(HIDDEN, INTERMEDIATE)
        norms = ["input_layernorm", "post_attention_layernorm"]
        if name == "gemma3":
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        for norm in norms:
            tensors[f"{p}{norm}.weight"] = weight(HIDDEN)
        if name in ("qwen3", "gemma3"):
            tensors[p + "self_attn.q_norm.weight"] = weight(HEAD_DIM)
            tensors[p + "self_attn.k_norm.weight"] = weight(HEAD_DIM)
    return tensors


def to_gguf(name, hf_name, value):
    if name == "llama" and "q_proj" in hf_name or name == "llama" and "k_proj" in hf_name:
        heads = HEADS if "q_proj" in hf_name else KV_HEADS
        return value.reshape(heads, 2, HEAD_DIM // 2, HIDDEN).swapaxes(1, 2).reshape(value.shape)
    if name == "gemma3" and hf_name.endswith("norm.weight"):
        return value.astype(np.float32) + 1
    return value if value.ndim > 1 else value.astype(np.float32)


def main(folder):
    random = np.random.default_rng(6)
    for name, arch in ARCHITECTURES.items():
        tokens, types, merges = vocabulary(name)
        tensors = hf_tensors(name, len(tokens), random)
        w = gguf.GGUFWriter(f"{folder}/{name}.gguf", name)
        w.add_block_count(LAYERS), w.add_context_length(512), w.add_embedding_length(HIDDEN)
        w.add_feed_forward_length(INTERMEDIATE), w.add_head_count(HEADS), w.add_head_count_kv(KV_HEADS)
        w.add_key_length(HEAD_DIM), w.add_value_length(HEAD_DIM), w.add_layer_norm_rms_eps(1e-6), w.add_rope_freq_base(1e6)
        w.add_tokenizer_model("llama" if name == "gemma3" else "gpt2")
        w.add_tokenizer_pre({"llama": "llama-bpe", "gemma3": "default"}.get(name, "qwen2"))
        w.add_token_list(tokens), w.add_token_types(types)
        if merges:
            w.add_token_merges(merges)
        else:
            w.add_token_scores([-float(i) for i in range(len(tokens))]), w.add_add_space_prefix(False), w.add_unk_token_id(3)
        bos, eos = (2, 1) if name == "gemma3" else (tokens.index("<|im_start|>"), tokens.index("<|im_end|>"))
        w.add_bos_token_id(bos), w.add_eos_token_id(eos), w.add_add_bos_token(name in ("gemma3", "llama"))
        w.add_chat_template("{{ messages[0].content }}")
        names = gguf.get_tensor_name_map(arch, LAYERS)
        for hf_name, value in tensors.items():
            w.add_tensor(names.get_name(hf_name, try_suffixes=(".weight", ".bias")), to_gguf(name, hf_name, value))
        w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
        save_file(tensors, f"{folder}/{name}.safetensors")


if __name__ == "__main__":
    main(sys.argv[1])

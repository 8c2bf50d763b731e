#!/usr/bin/env python3
"""Writes small tokenizers of each family and what HF tokenizers makes of the sample texts with them.

  NAME.json       a tokenizer.json of the family's form, trained here on the sample texts
  NAME.ids        4 bytes a text: the first bytes of SHA-256 over its ids as little-endian int32
  NAME.decoded    4 bytes a sequence of pseudo-random ids: the same over its decoded text
  trained.json    what HF's BpeTrainer learns from the first 500 sample texts

Needs: pip install tokenizers numpy.
Usage: make_tokenizers.py FOLDER PRINT_SAMPLE_TEXTS [NAME=TOKENIZER.JSON ...]
The optional tokenizers are those of real models, too large to keep here; only their .ids and .decoded are written.
"""

import hashlib
import json
import struct
import subprocess
import sys

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = 20000
SEQUENCES = 2000
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
TRAINED = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"


def sample_texts(program, count):
    out = subprocess.run([program, str(count)], check=True, capture_output=True).stdout
    at = 0
    while at < len(out):
        size, = struct.unpack_from("<I", out, at)
        yield out[at + 4:at + 4 + size].decode("utf-8", "replace")
        at += 4 + size


def short_hash(data):
    return int.from_bytes(hashlib.sha256(data).digest()[:4], "big")


def random_ids(sequence, vocab_size):
    state = sequence
    for _ in range(1 + sequence % 24):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 33) % vocab_size


def expect(folder, name, tokenizer, texts):
    ids = [short_hash(np.array(tokenizer.encode(t, add_special_tokens=False).ids, "<i4").tobytes()) for t in texts]
    np.array(ids, "<u4").tofile(f"{folder}/{name}.ids")
    size = tokenizer.get_vocab_size()
    decoded = [tokenizer.decode(list(random_ids(i, size)), skip_special_tokens=i % 2 == 1) for i in range(SEQUENCES)]
    np.array([short_hash(t.encode()) for t in decoded], "<u4").tofile(f"{folder}/{name}.decoded")


def byte_level_split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(pre_tokenizer, texts, vocab_size, normalizer=None, special=()):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, show_progress=False, special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def qwen(texts):
    tokenizer = byte_level(byte_level_split(QWEN), texts, 1200, normalizers.NFC())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("<think>", normalized=True)])
    return tokenizer


def llama(texts):
    tokenizer = byte_level(byte_level_split(LLAMA), texts, 1200)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>"])
    content = json.loads(tokenizer.to_str())
    content["model"]["ignore_merges"] = True
    content["model"]["merges"] = [m for i, m in enumerate(content["model"]["merges"]) if i % 7 != 6 or i < 600]
    reached = {"".join(m) for m in content["model"]["merges"]}
    kept = [m for m in content["model"]["merges"] if all(len(part) == 1 or part in reached for part in m)]
    content["model"]["merges"] = kept
    tokenizer = Tokenizer.from_str(json.dumps(content))
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                                             special_tokens=[("<|begin_of_text|>", bos)])
    return tokenizer


def gpt2(texts):
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True), texts, 1000,
                           special=["<|endoftext|>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<unk>", rstrip=True)])
    return tokenizer


def gemma(texts):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n+|\u2581+|[^\n\u2581]+"), "merged_with_next")
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{i:02X}>" for i in range(256)]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=2000, min_frequency=3, limit_alphabet=600,
                                                             special_tokens=special, show_progress=False))
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [t for t in content["added_tokens"] if not t["content"].startswith("<0x")]
    content["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.add_special_tokens(["<start_of_turn>", "<end_of_turn>"])
    tokenizer.add_tokens([AddedToken("\u2581\u2581", normalized=False), AddedToken("\n\n", normalized=False)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A",
                                                             special_tokens=[("<bos>", tokenizer.token_to_id("<bos>"))])
    return tokenizer


def main(folder, program, *real):
    texts = list(sample_texts(program, TEXTS))
    for make in (qwen, llama, gpt2, gemma):
        tokenizer = make(texts[:3000])
        tokenizer.save(f"{folder}/{make.__name__}.json", pretty=False)
        expect(folder, make.__name__, tokenizer, texts)
    byte_level(byte_level_split(TRAINED), texts[:500], 600, special=["<end>"]).save(f"{folder}/trained.json", pretty=False)
    for pair in real:
        name, path = pair.split("=", 1)
        expect(folder, name, Tokenizer.from_file(path), texts)


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""Writes blocks.gguf (random blocks of every element type) and blocks.safetensors (what the gguf package unpacks them to).

Needs: pip install gguf safetensors numpy.   Usage: make_blocks.py FOLDER
"""

import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from safetensors.numpy import save_file

TYPES = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K]
HALVES = {T.F16: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}  # where a block holds a float16
ROWS, COLUMNS = 3, 512


def random_rows(kind, random):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (ROWS * COLUMNS // block, size), dtype=np.uint8)
    if kind in (T.F32, T.BF16):
        values = random.standard_normal(len(blocks)).astype(np.float32)
        blocks = values.view(np.uint8).reshape(-1, 4)[:, 4 - size:].copy()
    for at in HALVES.get(kind, []):
        scale = random.standard_normal((len(blocks), 1)).astype(np.float16)
        scale[0] = np.float16(3e-6)  # a subnormal
        blocks[:, at:at + 2] = scale.view(np.uint8)
    return blocks.reshape(ROWS, -1)


def main(folder):
    random = np.random.default_rng(6)
    writer = gguf.GGUFWriter(f"{folder}/blocks.gguf", "test")
    writer.add_uint32("test.number", 7)
    writer.add_array("test.words", ["a", "", "\u00e9"])
    expected = {}
    for kind in TYPES:
        rows = random_rows(kind, random)
        writer.add_tensor(kind.name, rows, raw_shape=rows.shape, raw_dtype=kind)
        expected[kind.name] = gguf.quants.dequantize(rows, kind).reshape(ROWS, COLUMNS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, f"{folder}/blocks.safetensors")


if __name__ == "__main__":
    main(sys.argv[1])

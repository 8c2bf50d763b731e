#!/usr/bin/env python3
"""A GGUF file without the coarser of two quantisations of one tied embedding, and files in pieces and back.

    slim_gguf.py slim IN.gguf OUT.gguf          output.weight takes token_embd.weight's place; a reader ties them
    slim_gguf.py split FILE FOLDER MEBIBYTES    FOLDER/piece-00 ... and sums.txt; each piece is compressed by itself
    slim_gguf.py join FOLDER FILE               checks every sum; several processes unpack

Qwen2.5-Coder's GGUF holds its tied embedding twice, as Q4_K (token_embd) and as Q6_K (output): the finer one serves both and
the file is 131 MB smaller. Python's standard library alone: it runs where a package manager does not reach.
"""

import concurrent.futures
import hashlib
import os
import struct
import sys
import zlib

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        size = self.take("Q")
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def skip(self, kind):
        """The value's own, for alignment."""
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("I"), self.take("Q")
            for _ in range(count):
                self.skip(inner)
            return None
        return self.take(SCALARS[kind])


def slim(source, target):
    import mmap

    with open(source, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        reader = Reader(data)
        if reader.take("I") != 0x46554747:
            sys.exit(f"{source} is no GGUF file")
        version, tensors, keys = reader.take("I"), reader.take("Q"), reader.take("Q")
        alignment = 32
        first_key = reader.at
        for _ in range(keys):
            name = reader.text()
            value = reader.skip(reader.take("I"))
            alignment = value if name == b"general.alignment" else alignment
        metadata = data[first_key : reader.at]
        entries = []
        for _ in range(tensors):
            name = reader.text()
            shape = [reader.take("Q") for _ in range(reader.take("I"))]
            entries.append([name, shape, reader.take("I"), reader.take("Q")])
        base = -(-reader.at // alignment) * alignment
        ends = sorted(entry[3] for entry in entries) + [len(data) - base]
        length = {entry[3]: ends[ends.index(entry[3]) + 1] - entry[3] for entry in entries}
        names = {entry[0] for entry in entries}
        if not {b"token_embd.weight", b"output.weight"} <= names:
            sys.exit(f"{source}: no second embedding")
        kept = [entry for entry in entries if entry[0] != b"token_embd.weight"]
        head, offset, places = b"", 0, []
        for name, shape, kind, place in kept:
            name = b"token_embd.weight" if name == b"output.weight" else name
            head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
            head += b"".join(struct.pack("<Q", extent) for extent in shape) + struct.pack("<IQ", kind, offset)
            places.append((place, length[place]))
            offset += -(-length[place] // alignment) * alignment
        start = struct.pack("<IIQQ", 0x46554747, version, len(kept), keys) + metadata + head
        with open(target + ".partial", "wb") as out:
            out.write(start + b"\0" * (-len(start) % alignment))
            for place, size in places:
                out.write(data[base + place : base + place + size])
                out.write(b"\0" * (-size % alignment))
        os.rename(target + ".partial", target)
    print(target, os.path.getsize(target))


def split(path, folder, mebibytes):
    """Pieces of at most so many MiB after compression: the raw length is what fits on average, found by halving the rest."""
    os.makedirs(folder, exist_ok=True)
    limit, size = int(float(mebibytes) * 2**20), os.path.getsize(path)
    sums, offset, count = [], 0, 0
    with open(path, "rb") as file:
        while offset < size:
            raw = min(int(limit * 1.02), size - offset)
            while True:
                file.seek(offset)
                packed = zlib.compress(file.read(raw), 1)  # quantised weights: higher levels gain nothing
                if len(packed) <= limit:
                    break
                raw = int(raw * limit / len(packed) * 0.999)
            name = f"piece-{count:02d}"
            with open(os.path.join(folder, name), "wb") as out:
                out.write(packed)
            sums.append(f"{hashlib.sha256(packed).hexdigest()}  {name}  {offset}  {raw}")
            print(name, raw, len(packed), flush=True)
            offset, count = offset + raw, count + 1
    with open(os.path.join(folder, "sums.txt"), "w") as out:
        out.write("\n".join(sums) + "\n")


def place(job):
    folder, target, line = job
    wanted, name, offset, raw = line.split()
    with open(os.path.join(folder, name), "rb") as file:
        packed = file.read()
    if hashlib.sha256(packed).hexdigest() != wanted:
        raise SystemExit(f"{name}: its sum is not the one in sums.txt")
    data = zlib.decompress(packed)
    if len(data) != int(raw):
        raise SystemExit(f"{name}: {len(data)} bytes, not {raw}")
    with open(target, "r+b") as out:
        out.seek(int(offset))
        out.write(data)


def join(folder, target):
    lines = open(os.path.join(folder, "sums.txt")).read().splitlines()
    missing = [line.split()[1] for line in lines if not os.path.exists(os.path.join(folder, line.split()[1]))]
    if missing:
        sys.exit(f"{folder}: {', '.join(missing)} missing")
    partial = target + ".partial"
    open(partial, "wb").close()
    with concurrent.futures.ProcessPoolExecutor() as pool:
        list(pool.map(place, [(folder, partial, line) for line in lines]))
    os.rename(partial, target)
    print(target, os.path.getsize(target))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    {"slim": slim, "split": split, "join": join}[sys.argv[1]](*sys.argv[2:])

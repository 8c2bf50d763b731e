#!/usr/bin/env python3
"""KernelBench tasks as task files of hone with sizes added: a timed shape that fits a time budget and a small checked shape.

    kernelbench_sizes.py kernelbench.jsonl OUT_FOLDER [--level 1] [--timed-bytes N] [--small-bytes N]

The module's text stays KernelBench's, which is what the policy reads. Only whole numbers that the module assigns at its top
level are replaced when it is run, largest first, halved until a call's tensors fit; what cannot be made smaller stays as it
is. The small shape lets a GPU's verifier screen candidates on the CPU first. The tasks' text is KernelBench's and stays out
of this repository. Needs torch; traces on its meta device, so no size takes memory.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load_worker():
    path = ROOT / "verifier" / "lane" / "reference_worker.py"
    spec = importlib.util.spec_from_file_location("reference_worker", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference_worker"] = module
    spec.loader.exec_module(module)
    return module


def bytes_of(worker, source, sizes, dtype="float32"):
    """Of a call's tensors; raises where the module does not run at these sizes."""
    traced = worker.Trace(worker.Reference(source, sizes, dtype), meta=True)
    plain = set(re.findall(r"^([A-Za-z_]\w*)\s*=\s*\d", source, re.MULTILINE))  # of "depth, height = 16, 32" neither can be set
    traced.constants = {name: value for name, value in traced.constants.items() if name in plain}
    return sum(t.numel() * t.element_size() for _, _, t in traced.tensors), traced


def shrink(worker, source, sizes, limit, keep_above, layout, dtype="float32", names=None):
    """`sizes` with constants (those of `names`, or all) halved, the largest first, until a call takes at most `limit` bytes."""
    sizes = dict(sizes)
    now, traced = bytes_of(worker, source, sizes, dtype)
    stuck = set()
    while now > limit:
        values = {n: v for n, v in traced.constants.items()
                  if n not in stuck and v > keep_above and (names is None or n in names)}
        if not values:
            break
        name = max(values, key=values.get)
        trial = {**sizes, name: values[name] // 2}
        try:
            smaller, changed = bytes_of(worker, source, trial, dtype)
        except Exception:
            stuck.add(name)
            continue
        if changed.layout != layout or smaller >= now:
            stuck.add(name)
            continue
        sizes, now, traced = trial, smaller, changed
    return sizes, now


def odd(worker, source, sizes, layout):
    """The same with one less of each size where that runs: no block size divides it."""
    for name, value in list(sizes.items()):
        if value < 10:
            continue
        trial = {**sizes, name: value - 1}
        try:
            _, changed = bytes_of(worker, source, trial)
        except Exception:
            continue
        if changed.layout == layout:
            sizes = trial
    return sizes


def text_of(sizes):
    return " ".join(f"{name}={value}" for name, value in sizes.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collection")
    parser.add_argument("out")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--timed-bytes", type=int, default=128 << 20)
    parser.add_argument("--small-bytes", type=int, default=512 << 10)
    args = parser.parse_args()
    worker = load_worker()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    left_out, written = [], 0
    for line in pathlib.Path(args.collection).read_text().splitlines():
        task = json.loads(line)
        if task["level"] != args.level:
            continue
        identity, source = f"kernelbench_{task['level']}_{task['problem_id']}", task["code"]
        try:
            _, base = bytes_of(worker, source, {})
            timed, timed_bytes = shrink(worker, source, {}, args.timed_bytes, 8, base.layout)
            small, small_bytes = shrink(worker, source, timed, args.small_bytes, 4, base.layout)
            small = odd(worker, source, small, base.layout)
        except Exception as error:  # whatever the module raises
            left_out.append((identity, f"{type(error).__name__}: {error}".splitlines()[0][:160]))
            continue
        words = " ".join(word for word in task["name"].split("_") if word)
        header = [f"id: {identity}", f"level: {task['level']}", f"family: kernelbench_level{task['level']}", "split: held_out"]
        header.append(f"description: {words}")
        if small and small != timed:
            header += ["variants:", f"  - {text_of(small)}"]
        if timed:
            header.append(f"timing_gpu: {text_of(timed)}")
        comment = "\n".join(["# ---", *(f"# {line}" for line in header), "# ---", ""])
        (out / f"{identity}.py").write_text(comment + source.rstrip("\n") + "\n")
        written += 1
        print(f"{identity:12} timed {timed_bytes / 2**20:8.1f} MiB  small {small_bytes / 2**10:8.1f} KiB  {text_of(small)}")
    for identity, reason in left_out:
        print(f"{identity:12} left out: {reason}")
    print(f"{written} tasks in {out}, {len(left_out)} left out")


if __name__ == "__main__":
    main()

"""KernelBench's way of judging one candidate, written anew from its description, for comparison: one fresh process that
imports torch, lets the candidate build its extension by torch's own loader, checks it in 5 trials and times it.

usage: kernelbench_protocol.py CANDIDATE.json [--build]     with {"reference", "candidate"}; --build ends once that is built
Standard output: one JSON line {"compiled", "correct", "speedup", "candidate_ms", "reference_ms",
"seconds": {"import", "build", "check", "time"}}. Times are means.

Trials as there: weights of both modules after one seed, inputs after seeds that everybody knows, reference first, allclose
with atol = rtol = 1e-4. Timing: 3 warm-ups, then 100 trials between CUDA events, each after writing 256 MB to clear the
second-level cache, the first one dropped; the reference the same way with 5 warm-ups.
"""

import importlib.util
import json
import os
import sys
import tempfile
import time

START = time.perf_counter()
import torch  # noqa: E402

SEED, TRIALS, TIMED = 42, 5, 100


def on_device(values):
    return [value.cuda() if isinstance(value, torch.Tensor) else value for value in values]


def define(text, names):
    """Runs a module's text. Triton reads its kernels' source from the file that they stand in, and so must have one."""
    if "@triton" not in text:
        exec(text, names)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location("candidate", file.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    os.unlink(file.name)
    names.update(vars(module))


def timed(model, inputs, warm_ups):
    for _ in range(warm_ups):
        model(*inputs)
    torch.cuda.synchronize()
    milliseconds = []
    for _ in range(TIMED):
        torch.cuda.synchronize()
        flush = torch.empty(32 * 1024 * 1024, dtype=torch.int64, device="cuda")
        flush.fill_(42)
        del flush
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        model(*inputs)
        end.record()
        torch.cuda.synchronize()
        milliseconds.append(begin.elapsed_time(end))
    return sum(milliseconds[1:]) / (TIMED - 1)


def main():
    with open(sys.argv[1]) as file:
        pair = json.load(file)
    clock, seconds = time.perf_counter(), {}

    def phase(name):
        nonlocal clock
        torch.cuda.synchronize()
        now = time.perf_counter()
        seconds[name], clock = now - clock, now

    torch.zeros(1, device="cuda")
    seconds["import"] = time.perf_counter() - START
    clock = time.perf_counter()
    names = {}
    result = {"compiled": False, "correct": False, "speedup": 0, "seconds": seconds}
    try:
        define(pair["reference"], names)
        define(pair["candidate"], names)
        torch.manual_seed(SEED)
        arguments = names["get_init_inputs"]()
        with torch.no_grad():
            torch.manual_seed(SEED)
            reference = names["Model"](*arguments).cuda()
            torch.manual_seed(SEED)
            candidate = names["ModelNew"](*arguments).cuda()
            result["compiled"] = True
            phase("build")
            if "--build" in sys.argv[2:]:
                return print(json.dumps(result))
            generator = torch.Generator().manual_seed(SEED)
            right = 0
            for _ in range(TRIALS):
                torch.manual_seed(int(torch.randint(0, 2**31, (1,), generator=generator)))
                inputs = on_device(names["get_inputs"]())
                expected, got = reference(*inputs), candidate(*inputs)
                right += expected.shape == got.shape and torch.allclose(expected, got, atol=1e-4, rtol=1e-4)
            result["correct"] = right == TRIALS
            phase("check")
            if result["correct"]:
                torch.manual_seed(SEED)
                inputs = on_device(names["get_inputs"]())
                result["candidate_ms"] = timed(candidate, inputs, 3)
                result["reference_ms"] = timed(reference, inputs, 5)
                result["speedup"] = result["reference_ms"] / result["candidate_ms"]
                phase("time")
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"[:300]
    print(json.dumps(result))


if __name__ == "__main__":
    main()

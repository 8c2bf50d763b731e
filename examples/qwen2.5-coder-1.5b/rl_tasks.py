#!/usr/bin/env python3
"""Tasks for reinforcement out of those that may be trained on: timed at sizes that are checked quickly, and worth answering.

    rl_tasks.py TASKS.jsonl OUT.jsonl [--timed-bytes N] [--records JOURNAL.jsonl.zst ...]

A right answer is compared at the timed size, so a step's time goes into tasks with large tensors. The timed shape's largest size
is halved until a call's tensors fit. --records: journals of reinforcement with the same start; tasks that every first answer
of a group, or none of two groups, solved there are left out: they would teach nothing. Needs torch; traces on its meta
device, so no size takes memory.
"""

import argparse
import collections
import json
import pathlib
import subprocess

from kernelbench_sizes import load_worker, shrink


def timed_at(worker, task, limit):
    """The task's timed shape within `limit` bytes a call, and how many it takes then."""
    sizes, source = task["timing_gpu"], task["reference"]
    try:
        traced = worker.Trace(worker.Reference(source, sizes, task["dtype"]), meta=True)
    except worker.TaskError:  # an operator without a meta kernel: as the author wrote it
        return sizes, 0
    fitting, size = shrink(worker, source, sizes, limit, 8, traced.layout, dtype=task["dtype"], names=set(sizes))
    return fitting, size


def first_answers(journal):
    """Groups of whether each first answer was right, by task; repair tasks aside."""
    groups = collections.defaultdict(list)
    lines = subprocess.run(["zstdcat", journal], stdout=subprocess.PIPE, check=False).stdout.decode().splitlines()
    for line in lines[1:]:
        try:
            group = json.loads(line)
        except ValueError:
            break  # the last one of a run that was killed
        if group["episodes"][0]["retry"]:
            continue
        turns = [episode["turns"][0] for episode in group["episodes"] if episode["turns"]]
        groups[group["task_id"]].append([turn["verdict"]["status"] == "OK" for turn in turns])
    return groups


def teaches(groups):
    """False: the last group was all right, or two groups were all wrong."""
    wrong = sum(not any(group) for group in groups)
    return not groups or (not all(groups[-1]) and (wrong < 2 or any(any(group) for group in groups)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tasks")
    parser.add_argument("out")
    parser.add_argument("--timed-bytes", type=int, default=64 << 20)
    parser.add_argument("--records", action="append", default=[])
    args = parser.parse_args()
    worker = load_worker()
    answered = collections.defaultdict(list)
    for journal in args.records:
        for task, groups in first_answers(journal).items():
            answered[task] += groups
    kept, smaller, left_out = [], 0, []
    for line in pathlib.Path(args.tasks).read_text().splitlines():
        task = json.loads(line)
        if not teaches(answered[task["id"]]):
            right = sum(sum(group) for group in answered[task["id"]])
            left_out.append(f"{task['id']}: {right} right of {sum(len(group) for group in answered[task['id']])}")
            continue
        if task["timing_gpu"]:
            sizes, size = timed_at(worker, task, args.timed_bytes)
            if sizes != task["timing_gpu"]:
                text = " ".join(f"{name}={value}" for name, value in sizes.items())
                print(f"{task['id']:24} timed at {text} ({size / 2**20:.0f} MiB)")
                task["timing_gpu"], smaller = sizes, smaller + 1
        kept.append(json.dumps(task, separators=(",", ":"), sort_keys=True))
    pathlib.Path(args.out).write_text("\n".join(kept) + "\n")
    for task in left_out:
        print("left out", task)
    print(f"{len(kept)} tasks in {args.out}, {smaller} timed at smaller sizes, {len(left_out)} left out")


if __name__ == "__main__":
    main()

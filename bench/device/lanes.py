"""What happens to the lanes of a host when one of them keeps failing. See lanes.sh.

Starts a verifier, sends it candidates of three tasks in one stream (`hone eval kernelbench`), some of which poison their
context, and kills the first lane's process whenever it is at work until the verifier quarantines it. Prints what it sees with
the seconds since the start, writes lanes.json, and ends with 3 where a promise was not kept. On one lane the candidates that the
kills strike have nobody else to go to: after three tries their verdict is INFRA, as promised.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

PORT = 19473
REFERENCE = """
import torch
rows = {rows}
cols = 1024
class Model(torch.nn.Module):
    def forward(self, x):
        return x * {factor} + 1
def get_inputs():
    return [torch.rand(rows, cols)]
def get_init_inputs():
    return []
"""
KERNEL = """
__global__ void affine(const float* x, float* out, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {body}
}}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {{
  affine<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, out, rows * cols);
}}
// {number}
"""
RIGHT, WRONG, POISON = "if (i < n) out[i] = x[i] * {factor}.0f + 1.0f;", "if (i < n) out[i] = x[i];", "*(volatile float*)nullptr = x[i];"
TASKS = [(512, 2), (768, 3), (1024, 5)]  # rows, factor


def candidates(count):
    """Every tenth poisons its context, every fifth of the others is wrong."""
    lines, expected = [], {}
    for number in range(count):
        rows, factor = TASKS[number % len(TASKS)]
        body, status = (POISON, "RUNTIME") if number % 10 == 9 else (WRONG, "INCORRECT") if number % 5 == 3 else (RIGHT, "OK")
        level = number % len(TASKS) + 1
        lines.append(json.dumps({"level": level, "problem_id": number + 1, "reference": REFERENCE.format(rows=rows, factor=factor),
                                 "candidate": KERNEL.format(body=body.format(factor=factor), number=number), "format": "native"}))
        expected[f"kernelbench_{level}_{number + 1}"] = status
    return lines, expected


class Host:
    """The verifier and what can be seen of it."""

    def __init__(self, programs, out, device, lane_count):
        self.out, self.device, self.start = out, device, time.time()
        self.socket = os.path.join(out, "socket")
        self.log_path = os.path.join(out, "log")
        lanes = ["--set", f"lanes={lane_count}"] if device == "cpu" else []
        tries = ["--set", "max_tries=20"] if lane_count > 1 else []
        self.verifier = subprocess.Popen(
            [os.path.join(programs, "hone-verifier"), "--listen", f"unix:{self.socket}", "--set", f"devices=[{device}]", "--set",
             "screen=off", "--set", f"folder={out}/state", "--set", f"metrics=127.0.0.1:{PORT}", *tries, *lanes],
            stderr=open(self.log_path, "w"))
        while not os.path.exists(self.socket):
            if self.verifier.poll() is not None:
                sys.exit(f"the verifier ended: {open(self.log_path).read()[-500:]}")
            time.sleep(0.05)

    def say(self, text):
        print(f"{time.time() - self.start:6.1f} s  {text}", flush=True)

    def states(self):
        """{lane: state}"""
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=5) as page:
            text = page.read().decode()
        found = re.findall(r'hone_lane_state\{lane="([^"]+)",state="([a-z]+)"\} 1\b', text)
        return dict(found)

    def process_of(self, lane):
        """The lane's process, a child of the verifier that was started here."""
        with open(f"/proc/{self.verifier.pid}/task/{self.verifier.pid}/children") as file:
            children = file.read().split()
        for task in os.listdir(f"/proc/{self.verifier.pid}/task"):
            try:
                with open(f"/proc/{self.verifier.pid}/task/{task}/children") as file:
                    children += file.read().split()
            except OSError:
                continue
        for child in set(children):
            try:
                with open(f"/proc/{child}/cmdline") as file:
                    arguments = file.read().split("\0")
            except OSError:
                continue
            if "lane" in arguments and f"--device={lane}" in arguments:
                return int(child)
        return None

    def verdicts(self):
        """{lane: [status]}, from the log."""
        found = {}
        for line in open(self.log_path):
            match = re.search(r"engine: verdict .*status=(\S+) .*lane=(\S+)", line)
            if match:
                found.setdefault(match[2].split("/")[-1], []).append(match[1])
        return found

    def counts(self):
        return {lane: len(statuses) for lane, statuses in sorted(self.verdicts().items())}

    def stop(self):
        self.verifier.send_signal(signal.SIGTERM)
        try:
            self.verifier.wait(40)
        except subprocess.TimeoutExpired:
            self.verifier.kill()


def gpu_count():
    """The GPUs that a verifier started here sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name])
    return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.splitlines())


def wait_until(condition, seconds):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def disturb(host, lane, seconds):
    """Kills the lane's process at work until it is quarantined; the number of kills, or None where time ran out."""
    kills, last, end = 0, None, time.time() + seconds
    while time.time() < end:
        state = host.states().get(lane)
        if state == "quarantined":
            return kills
        process = host.process_of(lane)
        if state == "busy" and process is not None and process != last:
            os.kill(process, signal.SIGKILL)
            kills, last = kills + 1, process
            host.say(f"killed {lane}'s process, the {kills}. time; verdicts {host.counts()}")
        time.sleep(0.02)
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("out")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--lanes", type=int, default=2, help="of the cpu device")
    parser.add_argument("--candidates", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=90)
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    lines, expected = candidates(arguments.candidates)
    with open(os.path.join(arguments.out, "candidates.jsonl"), "w") as file:
        file.write("\n".join(lines) + "\n")
    lane_count = arguments.lanes if arguments.device == "cpu" else gpu_count()
    host = Host(arguments.programs, arguments.out, arguments.device, lane_count)
    host.say(f"lanes {host.states()}")
    evaluation = subprocess.Popen(
        [os.path.join(arguments.programs, "hone"), "eval", "kernelbench", "--candidates", f"{arguments.out}/candidates.jsonl", "--device",
         arguments.device, "--server", f"unix:{host.socket}", "--out", f"{arguments.out}/eval"],
        stdout=open(f"{arguments.out}/eval.log", "w"), stderr=subprocess.STDOUT)
    facts = {"device": arguments.device, "lanes": host.states()}
    try:
        observe(host, facts, arguments.seconds)
    finally:
        evaluation.terminate()
        evaluation.wait()
        host.say(f"verdicts {host.counts()}")
        facts["verdicts"] = host.counts()
        struck = (facts.get("quarantined_after_kills") or 0) // 3 if lane_count == 1 else 0
        facts["unexpected"] = unexpected(f"{arguments.out}/eval/verdicts.jsonl", expected, struck)
        host.stop()
        with open(os.path.join(arguments.out, "lanes.json"), "w") as file:
            json.dump(facts, file, indent=1)
    kept = all(facts.get(key) for key in ("all_lanes_judge", "quarantined_after_kills", "others_went_on", "came_back_after_s"))
    print(json.dumps(facts))
    sys.exit(0 if kept and not facts["unexpected"] else 3)


def observe(host, facts, seconds):
    end = time.time() + seconds
    left = lambda: end - time.time()  # noqa: E731
    lanes = sorted(host.states())
    facts["all_lanes_judge"] = wait_until(lambda: all(host.counts().get(lane, 0) >= 5 for lane in lanes), left() - 20)
    before = host.counts()
    host.say(f"verdicts {before}")
    victim = lanes[0]
    facts["quarantined_after_kills"] = disturb(host, victim, left() - 25)
    begin, counts = time.time(), host.counts()
    host.say(f"{victim} quarantined after {facts['quarantined_after_kills']} kills; lanes {host.states()}")
    wait_until(lambda: host.states().get(victim) != "quarantined", left())
    facts["quarantine_s"] = round(time.time() - begin, 1)
    after = host.counts()
    facts["verdicts_meanwhile"] = {lane: after.get(lane, 0) - counts.get(lane, 0) for lane in lanes}
    facts["others_went_on"] = all(facts["verdicts_meanwhile"][lane] > 0 for lane in lanes[1:]) and facts["verdicts_meanwhile"][victim] == 0
    host.say(f"the quarantine ends; verdicts meanwhile {facts['verdicts_meanwhile']}; lanes {host.states()}")
    if wait_until(lambda: host.counts().get(victim, 0) > after.get(victim, 0), left()):
        facts["came_back_after_s"] = round(time.time() - begin, 1)
        host.say(f"{victim} judges again; lanes {host.states()}")


def unexpected(path, expected, struck):
    """Verdicts that are not what the candidate is; as many as `struck` may be INFRA."""
    wrong = []
    for line in open(path):
        result = json.loads(line)
        status = result["verdict"]["status"]
        if status == "INFRA" and struck > 0:
            struck -= 1
            continue
        if status != expected[result["id"]]:
            wrong.append(f"{result['id']}: {status}, should be {expected[result['id']]}: {result['verdict']['message']}")
    return wrong


if __name__ == "__main__":
    main()

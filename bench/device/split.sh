#!/usr/bin/env bash
# usage: bench/device/split.sh PROGRAMS RESULTS [SANDBOX]      on a machine with two NVIDIA GPUs
# Split placement with real programs: `hone train` learns on GPU 0, a `hone worker` samples on GPU 1, weights go over NCCL, a
# `hone verifier` on GPU 1 judges. All weights of a model with random ones (Qwen2.5-1.5B's shape with six layers), three steps in
# turn; a second worker then joins and the first one is killed. Then an adapter, one step off. About 75 seconds. Prints each
# step's figures; RESULTS gets the runs' metrics and logs. The distance of engine and learner that a step shows is what the
# worker's self-test, with both on one GPU, shows too: it is bf16's with random weights, whose answers are nearly undecided,
# and says that the weights are the same on both sides.
#     PROGRAMS  folder with hone, hone-verifier and hone-runner (and libhone_nccl.so in ../lib)
#     SANDBOX   bubblewrap (default) or none
# Needs on that machine: a CUDA toolkit, g++, bubblewrap, and $HONE_PYTHON with torch, safetensors and tokenizers.
set -u
programs=${1:?the folder with hone}
results=${2:?where the figures go}
sandbox=${3:-bubblewrap}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
use_torch
work=$(mktemp -d)
mkdir -p "$results"
t0=$(date +%s)
say() { echo "== $* (at $(($(date +%s) - t0)) s)"; }
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

say "model and verifier"
"$programs/hone" verifier --listen "unix:$work/verifier" --set 'devices=[cuda:1]' --set build_slots=8 \
  --set sandbox="$sandbox" > "$results/verifier.log" 2>&1 &
timeout 60 "$HONE_PYTHON" "$here/train_model.py" "$work" "${LAYERS:-6}"

settings() {
  cat <<YAML
policy: {start: $work/model, context: 2048}
device: {device: "cuda:0", dtype: bf16}
engine: {max_running: 64, cache_gb: 8}
tasks: {from: $work/tasks}
rl:
  steps: $1
  groups: 8
  group_size: 8
  turns: 1
  max_tokens: 96
  lag: $2
  learning_rate: 1.0e-5
  micro_batch_tokens: 8192
  checkpoint_every: 100
  exemplars: {enabled: false}
workers: {listen: "unix:$work/coordinator", count: $3, lease_s: 6}
evaluation: {before: false, after: false}
verifier: {endpoint: "unix:$work/verifier", devices: [cuda]}
rewards:
  terms: [{name: correct}]
  turns: {name: single_score}
YAML
}

report() {  # METRICS
  figures "$1" seconds/step seconds/wait seconds/weights weights/sent seconds/learn workers/alive workers/leases_lost \
    workers/leases_returned workers/generate_s workers/verify_s rollout/tokens correct/first_turn learn/updated \
    learn/staleness_max learn/mismatch_abs_log_ratio learn/gradient_norm learn/tokens_per_s memory/peak_gb
}

worker() {  # NAME: on GPU 1
  "$programs/hone" worker --coordinator "unix:$work/coordinator" --name "$1" --set device.device=cuda:1 > "$results/$1.log" 2>&1 &
}
learn() {  # NAME SECONDS
  timeout -k 2 "$2" "$programs/hone" train "$work/$1.yaml" --name "$1" --runs "$work/runs" > "$results/$1.log" 2>&1 &
}
finish() {  # NAME PID
  wait "$2"
  say "$1 ends with exit code $?"
  tr '\r' '\n' < "$results/$1.log" | grep -v "frame #" | tail -n 12 | cut -c1-400
  cp "$work/runs/$1/metrics.jsonl" "$results/$1.jsonl" 2>/dev/null && report "$results/$1.jsonl"
}

say "all weights, in turn; one worker"
settings 6 0 2 > "$work/full.yaml"
worker first
first=$!
learn full 60
run=$!
for _ in $(seq 300); do [ "$(cat "$work/runs/full/metrics.jsonl" 2>/dev/null | wc -l)" -ge 3 ] && break; kill -0 $run 2>/dev/null || break; sleep 0.1; done
say "three steps are done; a second worker joins, the first one is killed"
worker second
for _ in $(seq 80); do grep -q groups "$results/second.log" 2>/dev/null && break; kill -0 $run 2>/dev/null || break; sleep 0.1; done
kill -9 $first
finish full $run
tail -n 2 "$results/first.log" "$results/second.log" | cut -c1-300
nvidia-smi --query-gpu=index,memory.used --format=csv,noheader

say "an adapter, one step off"
settings 4 1 1 > "$work/adapter.yaml"
echo 'lora: {rank: 16, alpha: 32}' >> "$work/adapter.yaml"
worker third
learn adapter 40
finish adapter $!
tail -n 3 "$results/third.log" | cut -c1-300
ls "$work/runs/adapter/adapter" 2>/dev/null
say "done"

#!/usr/bin/env bash
# usage: bench/device/train.sh PROGRAMS RESULTS [SANDBOX]      on a machine with one NVIDIA GPU of 80 GB or more
# Reinforces an adapter of a model of Qwen2.5-1.5B's shape (random weights) on one GPU: sampling, verifying and learning there.
# Three steps; the run is then resumed from its checkpoint alone, once a step behind, and sampled with its
# adapter. About two minutes. Prints seconds of each phase, memory and the distance of engine and learner; RESULTS gets the
# runs' metrics and checkpoint sizes.
#     PROGRAMS  folder with hone, hone-verifier and hone-runner
#     SANDBOX   bubblewrap (default) or none
# Needs on that machine: a CUDA toolkit ($CUDA_HOME), g++, bubblewrap, and $HONE_PYTHON with torch, safetensors and tokenizers.
set -u
programs=${1:?the folder with hone}
results=${2:?where the figures go}
sandbox=${3:-bubblewrap}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
use_torch
work=$(mktemp -d)
mkdir -p "$results"
timed() { local start; start=$(date +%s.%N); echo "== $*"; timeout "$@"; echo "exit $? after $(echo "$(date +%s.%N) - $start" | bc 2>/dev/null || "$HONE_PYTHON" -c "import time; print(time.time() - $start)") s"; }

timed 60 "$HONE_PYTHON" "$here/train_model.py" "$work"
cat > "$work/train.yaml" <<YAML
policy: {start: $work/model, context: 4096}
device: {device: cuda, dtype: bf16}
lora: {rank: 16, alpha: 32, targets: [q_proj, k_proj, v_proj, o_proj]}
tasks: {from: $work/tasks}
rl:
  steps: ${STEPS:-3}
  groups: ${GROUPS_OF_A_STEP:-16}
  group_size: 8
  turns: 1
  max_tokens: 200
  learning_rate: 1.0e-4
  micro_batch_tokens: 16384
  checkpoint_every: 1
  checkpoint_moments: bf16
  filters: {chain: [{name: mirrorpop, delta: 0.05}]}
evaluation: {before: false, after: false}
verifier: {devices: [cuda], build_slots: 0, sandbox: $sandbox, protocol: quick}
YAML

report() {  # METRICS
  figures "$1" seconds/step seconds/generate seconds/verify seconds/judging seconds/learn seconds/update \
    share/generate verify/build_busy verify/lane_busy verify/cached rollout/tokens_per_s rollout/response_tokens \
    verdicts correct/first_turn reward/mean learn/mismatch_abs_log_ratio learn/rejected_share learn/entropy \
    learn/score_seconds learn/tokens learn/tokens_per_s learn/gradient_norm learn/updated memory/peak_gb 'verdict/*' \
    'speedup/*'
}

timed 100 "$programs/hone" train "$work/train.yaml" --name first --runs "$work/runs"
cp "$work/runs/first/metrics.jsonl" "$results/first.jsonl"; report "$work/runs/first/metrics.jsonl"
tail -n 3 "$work/runs/first/verifier.log"
nvidia-smi --query-gpu=memory.used,memory.total --format=csv,noheader
ls -l "$work/runs/first/checkpoint/rl/"*/ "$work/runs/first/adapter" | tee "$results/checkpoint.txt"

# What travels to another machine, and nothing else.
mkdir -p "$work/runs/second/checkpoint"
cp "$work/runs/first/config.yaml" "$work/runs/first/exemplars.db" "$work/runs/second/"
cp -r "$work/runs/first/checkpoint/rl" "$work/runs/second/checkpoint/"
timed 60 "$programs/hone" train --name second --runs "$work/runs" --resume --set rl.steps=$((${STEPS:-3} + 2)) --set rl.lag=1 --max-seconds 45
cp "$work/runs/second/metrics.jsonl" "$results/second.jsonl"; report "$work/runs/second/metrics.jsonl"

timed 40 "$programs/hone" rollout --name samples --runs "$work/runs" --set policy.start="$work/runs/first" --set device.device=cuda \
  --set device.dtype=bf16 --set tasks.from="$work/tasks" --set max_tokens=200 --set sampling.samples=16 \
  --set 'verifier.devices=[cuda]' --set verifier.build_slots=0 --set verifier.sandbox="$sandbox"
cat "$work/runs/samples/rollout.json"
rm -rf "$work"

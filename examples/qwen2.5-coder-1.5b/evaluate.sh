#!/usr/bin/env bash
# usage: evaluate.sh NAME [hone options ...]      NAME: before, sft, after
# The policy on tasks that it never trained on: the suite's held-out split and KernelBench level 1 ($DATA/kb1), equal seeds
# whatever NAME. SAMPLES and KB1_SAMPLES a task, SECONDS_HELD_OUT and SECONDS_KB1 at most.
. "$(dirname "$0")/common.sh"
name=$1
shift
run "heldout_$name" eval policy "$here/eval.yaml" "${where[@]}" --set "policy.start=$MODEL" --set tasks.from=suite \
  --set "sampling.samples=${SAMPLES:-8}" --set "limits.max_seconds=${SECONDS_HELD_OUT:-0}" "$@"
[ ! -d "$DATA/kb1" ] || run "kb1_$name" eval policy "$here/eval.yaml" "${where[@]}" --set "policy.start=$MODEL" \
  --set "tasks.from=$DATA/kb1" --set "sampling.samples=${KB1_SAMPLES:-4}" --set "limits.max_seconds=${SECONDS_KB1:-0}" "$@"

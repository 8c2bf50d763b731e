#!/usr/bin/env bash
# Data, on a CPU: demonstrations that the verifier accepted, the tasks to train on, KernelBench with sizes, and what the
# decontamination check says of all of them. $KERNELBENCH is a checkout's tasks as JSONL (level, problem_id, name, code).
. "$(dirname "$0")/common.sh"
mkdir -p "$DATA"
python=${HONE_PYTHON:-python3}
threshold=${THRESHOLD:-0.6}  # of similarity, from which a task is a near copy
kb1=()
if [ -n "${KERNELBENCH:-}" ]; then
  "$python" "$here/kernelbench_sizes.py" "$KERNELBENCH" "$DATA/kb1" --level 1 | tee "$DATA/kb1.txt" | tail -1
  kb1=(--away-from "$DATA/kb1")
fi
if [ ! -e "$DATA/sft.jsonl" ]; then
  "$HONE/hone" demonstrations --families "$here/families" --per-family "${PER_FAMILY:-36}" --generated "${GENERATED:-450}" \
    --away-from suite "${kb1[@]}" --threshold "$threshold" --seed 1 --out "$DATA/sft.jsonl" --rejected "$DATA/rejected.txt" | tee "$DATA/demonstrations.txt"
fi
evaluation=(--evaluation suite)
[ ${#kb1[@]} -eq 0 ] || evaluation+=(--evaluation "$DATA/kb1")
{
  echo "\$ hone tasks decontaminate: tasks of reinforcement"
  "$HONE/hone" tasks decontaminate --training suite "${evaluation[@]}" --threshold "$threshold" --show 15 --clean "$DATA/train_tasks.jsonl"
  echo
  echo "\$ hone tasks decontaminate: demonstrations"
  "$HONE/hone" tasks decontaminate --training "$DATA/sft.jsonl" "${evaluation[@]}" --threshold "$threshold" --show 15
} | sed "s#$DATA/##g" | tee "$DATA/decontamination.txt"

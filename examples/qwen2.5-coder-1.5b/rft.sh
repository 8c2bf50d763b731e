#!/usr/bin/env bash
# Rejection fine-tuning: the model's own right answers to the train tasks as a further data set, $DATA/rft.jsonl, for
# 3_sft.sh (DATA_SET) in place of the demonstrations or with them.
. "$(dirname "$0")/common.sh"
run rft rft "${where[@]}" --set "policy.start=$MODEL" --set "tasks.from=$DATA/train_tasks.jsonl" --set rounds=4 \
  --set tasks_per_round=16 --set samples=16 --set max_tokens=1024 "$@"
cp "$RUNS/rft/dataset.jsonl" "$DATA/rft.jsonl"

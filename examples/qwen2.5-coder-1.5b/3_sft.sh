#!/usr/bin/env bash
# Supervised fine-tuning with CuSeT on the demonstrations: an adapter in $RUNS/sft/adapter. A minute.
. "$(dirname "$0")/common.sh"
device=(--set "device.device=$DEVICE")
[ "$DEVICE" != cpu ] || device+=(--set device.dtype=fp32)
run sft sft "$here/sft.yaml" "${device[@]}" --set "start=$MODEL" --set "data=$DATA/sft.jsonl" "$@"
[ ! -e "$RUNS/sft/sft.json" ] || { cat "$RUNS/sft/sft.json"; touch "$RUNS/sft/DONE"; }

#!/usr/bin/env bash
# The trained model, evaluated as the base model was: with the adapter of reinforcement, else that of fine-tuning.
. "$(dirname "$0")/common.sh"
adapter=$RUNS/${NAME:-grpo}/adapter
[ -d "$adapter" ] || adapter=$RUNS/sft/adapter
"$here/evaluate.sh" "${AFTER:-after}" --set "policy.adapter=$adapter" "$@"

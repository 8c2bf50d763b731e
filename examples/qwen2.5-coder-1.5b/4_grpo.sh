#!/usr/bin/env bash
# GRPO with PrimeEcho, buffered dynamic retry, MirrorPop and contrastive prompts, from the adapter of 3_sft.sh. Goes on where it
# stopped; MAX_SECONDS bounds this start. NAME: of the run.
. "$(dirname "$0")/common.sh"
name=${NAME:-grpo}
adapter=()
[ ! -d "$RUNS/sft/adapter" ] || adapter=(--set "policy.adapter=$RUNS/sft/adapter")
limit=()
[ -z "${MAX_SECONDS:-}" ] || limit=(--max-seconds "$MAX_SECONDS")
run "$name" train "$here/grpo.yaml" "${where[@]}" "${together[@]}" --set "policy.start=$MODEL" "${adapter[@]}" \
  --set "tasks.from=$DATA/reinforced.jsonl" "${limit[@]}" "$@"

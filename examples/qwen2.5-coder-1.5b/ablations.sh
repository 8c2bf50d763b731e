#!/usr/bin/env bash
# Reinforcement again for STEPS steps from the same adapter and seed, all mechanisms on and each one off; then the held-out split.
. "$(dirname "$0")/common.sh"
steps=${STEPS:-4}
for variant in all no_primeecho no_bdr no_mirrorpop no_contrast; do
  off=()
  case $variant in
    no_primeecho) off=(--set "rewards.turns={name: single_score}") ;;
    no_bdr) off=(--set rl.retry.enabled=false) ;;
    no_mirrorpop) off=(--set "rl.filters.chain=[]") ;;
    no_contrast) off=(--set rl.exemplars.enabled=false) ;;
  esac
  [ -e "$RUNS/ablation_$variant/DONE" ] || { NAME=ablation_$variant "$here/4_grpo.sh" --set "rl.steps=$steps" "${off[@]}" && touch "$RUNS/ablation_$variant/DONE"; }
  DATA=$WORK/none "$here/evaluate.sh" "$variant" --set "policy.adapter=$RUNS/ablation_$variant/adapter"
done

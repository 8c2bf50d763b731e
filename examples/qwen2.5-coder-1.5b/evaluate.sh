#!/usr/bin/env bash
# usage: evaluate.sh NAME [hone options ...]      NAME: before, sft, after
# The policy on tasks that it never trained on, equal seeds whatever NAME: heldout, the suite's held-out split; unseen, tasks of
# families that nothing was trained on ($DATA/unseen.jsonl); kb1 and kb2, KernelBench ($DATA/kb1, $DATA/kb2). SETS names those
# wanted, SAMPLES the samples of a task, SECONDS_<set> a limit. PROTOCOLS: right samples are also timed under these.
. "$(dirname "$0")/common.sh"
name=$1
shift
for set in ${SETS:-heldout unseen kb1}; do
  case $set in
    heldout) tasks=(--set tasks.from=suite) ;;
    unseen) tasks=(--set "tasks.from=$DATA/unseen.jsonl" --set tasks.split=all) ;;
    *) tasks=(--set "tasks.from=$DATA/$set") ;;
  esac
  [ "$set" = heldout ] || [ -e "$DATA/$set" ] || [ -e "$DATA/$set.jsonl" ] || continue
  seconds=SECONDS_$set
  run "${set}_$name" eval policy "$here/eval.yaml" "${where[@]}" --set stream=true --set "policy.start=$MODEL" "${tasks[@]}" \
    --set "sampling.samples=${SAMPLES:-8}" --set "max_seconds=${!seconds:-0}" --set "timed_again.protocols=[${PROTOCOLS:-}]" \
    --set "timed_again.max_seconds=${SECONDS_again:-0}" "$@"
done

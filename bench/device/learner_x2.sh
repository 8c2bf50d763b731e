#!/usr/bin/env bash
# usage: bench/device/learner_x2.sh [BIN_DIR [PART...]]      on a machine with two NVIDIA GPUs, quiet
# Full sharding over two GPUs against one, with and without the overlap of transfers; an 8B adapter likewise; weights to an
# engine on the other GPU; sampling beside learning; loss curves; a killed rank. All two-GPU bars in about two minutes.
# One JSON object a line on standard output. RESULT names a folder for results.json; each part has its own time limit, and
# one that fails does not stop the others. Of PART+PART only the first is waited for before the next begins: a killed rank
# is half a minute of waiting. DEVICE=cpu runs tiny shapes through the same code; its figures mean nothing.
set -u
bin=${1:-build/gpu/bin}
shift || true
[ $# -gt 0 ] || set -- comm+killed scaling lora_8b weights one_step_off curve scaling_8b
. "$(dirname "$0")/common.sh"
use_torch
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
# NVLink multicast is left alone: not every machine lets a job use it.
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}
declare -A limit=([comm]=40 [scaling]=60 [lora_8b]=60 [scaling_8b]=60 [curve]=70 [weights]=50 [one_step_off]=70 [killed]=90)
port=${MASTER_PORT:-29517}
failed=0

# both ranks of one part, and how they ended
part() {
  local start rank pids=() codes=()
  start=$(date +%s%N)
  for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank MASTER_PORT=$2 timeout -k 5 "${LIMIT:-${limit[$1]}}" "$bin/ranks_bench" "$1" \
      ${DEVICE:+--device "$DEVICE"} --commit "${HONE_COMMIT:-unknown}" ${RESULT:+--record "$RESULT/results.json"} &
    pids+=($!)
  done
  for rank in 0 1; do wait "${pids[$rank]}"; codes+=($?); done
  echo "{\"part\": \"$1\", \"exit\": [${codes[0]}, ${codes[1]}], \"ms\": $((($(date +%s%N) - start) / 1000000))}"
  [ "$1" = killed ] && return 0  # its second rank is killed, its first one ends with 1
  ((codes[0] == 0 && codes[1] == 0))
}

later=()
for group in "$@"; do
  jobs=()
  for what in ${group//+/ }; do
    port=$((port + 10))
    part "$what" "$port" &
    jobs+=($!)
  done
  wait "${jobs[0]}" || failed=1
  later+=("${jobs[@]:1}")
done
for job in "${later[@]}"; do wait "$job" || failed=1; done
exit $failed

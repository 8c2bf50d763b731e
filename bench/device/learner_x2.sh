#!/usr/bin/env bash
# usage: bench/device/learner_x2.sh [BIN_DIR [PART...]]      on a machine with two NVIDIA GPUs
# Full sharding over two GPUs against one, weights to an engine on the other GPU, sampling beside learning, a killed rank.
# One JSON object a line on standard output. RESULT names a folder for results.json; each part has its own time limit, and
# one that fails does not stop the others.
set -u
bin=${1:-build/gpu/bin}
shift || true
python=${HONE_PYTHON:-python3}
torch_lib=$("$python" -c "import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))") || exit 2
export LD_LIBRARY_PATH="$torch_lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
# NVLink multicast is left alone: not every machine lets a job use it.
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}
declare -A limit=([comm]=40 [scaling]=60 [scaling_8b]=60 [curve]=70 [weights]=50 [one_step_off]=70 [killed]=90)
port=${MASTER_PORT:-29517}
for part in "${@:-comm scaling weights one_step_off curve scaling_8b killed}"; do
  for what in $part; do
    port=$((port + 10))
    start=$(date +%s%N)
    pids=()
    for rank in 0 1; do
      RANK=$rank LOCAL_RANK=$rank MASTER_PORT=$port timeout "${LIMIT:-${limit[$what]}}" "$bin/ranks_bench" "$what" \
        --commit "${HONE_COMMIT:-unknown}" ${RESULT:+--record "$RESULT/results.json"} &
      pids+=($!)
    done
    codes=()
    for pid in "${pids[@]}"; do wait "$pid"; codes+=($?); done
    echo "{\"part\": \"$what\", \"exit\": [${codes[0]}, ${codes[1]}], \"ms\": $((($(date +%s%N) - start) / 1000000))}"
  done
done

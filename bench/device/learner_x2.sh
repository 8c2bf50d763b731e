#!/usr/bin/env bash
# usage: bench/device/learner_x2.sh [BUILD_DIR]      on a machine with two NVIDIA GPUs
# Full sharding over two GPUs against one: tokens per second, memory, and the losses of 50 steps on the same data.
set -u
build=${1:-build/gpu}
python=${HONE_PYTHON:-python3}
torch_lib=$("$python" -c "import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))") || exit 2
export LD_LIBRARY_PATH="$torch_lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
timeout 300 "$build/bin/learner_bench" cuda sharded || echo "{\"failed\": \"one rank\", \"exit\": $?}"
export MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-29517} WORLD_SIZE=2
for rank in 0 1; do
  RANK=$rank LOCAL_RANK=$rank timeout 400 "$build/bin/learner_bench" cuda sharded &
done
wait

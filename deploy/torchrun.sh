#!/usr/bin/env bash
# usage: deploy/torchrun.sh GPUS COMMAND [ARGUMENT ...]     one rank on each GPU of this host
#   deploy/torchrun.sh 8 hone sft examples/sft_8b_full.yaml --name full --set start=models/Qwen3-8B --set data=kernels.jsonl
# For several hosts give torchrun's own --nnodes, --node-rank, --rdzv-endpoint through TORCHRUN_ARGS.
set -eu
gpus=$1
shift
# shellcheck disable=SC2086  (the arguments are words)
exec torchrun --nproc-per-node "$gpus" --no-python ${TORCHRUN_ARGS:---standalone} "$@"

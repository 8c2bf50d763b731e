#!/usr/bin/env bash
# Measures the verifier on a GPU machine: verdicts a second with and without the CPU screen, a lane's overhead and
# utilisation, a cached verdict, and how well speedups repeat. About eight minutes. Figures go into RESULTS, a file like
# bench/results.json whose entries are put into that one by hand or by `--record bench/results.json` in a checkout.
#   bench/device/verifier.sh PROGRAMS SAMPLES RESULTS [OPTION...]
#     PROGRAMS  folder with hone-verifier, hone-runner and device_bench: build/gpu/bin, or bin of an installed tree
#     SAMPLES   the recorded answers, qwen_coder_native_samples.jsonl
#     OPTION    of device_bench: --what screened,cv --repeats 5 --sandbox none
# Needs on that machine: an NVIDIA GPU with its driver, a CUDA toolkit ($CUDA_HOME), g++, bubblewrap, and $HONE_PYTHON with
# torch for CUDA.
set -euo pipefail
programs=${1:?the folder with device_bench}
samples=${2:?qwen_coder_native_samples.jsonl}
results=${3:?where the figures go}
shift 3
export HONE_PYTHON=${HONE_PYTHON:-$(command -v python3)}
machine="$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1), $(nproc) cores"
commit=$(git -C "$(dirname "$0")" rev-parse --short HEAD 2>/dev/null || echo "${HONE_COMMIT:-unknown}")
"$programs/device_bench" "$samples" --record "$results" --machine "$machine" --commit "$commit" "$@"

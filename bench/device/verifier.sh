#!/usr/bin/env bash
# Measures the verifier on a GPU machine: verdicts a second on PyTorch extensions, built anew and found built; on native
# candidates with and without the CPU screen; a lane's overhead and utilisation, a cached verdict, and how well speedups
# repeat. About six minutes on one GPU. Figures go into RESULTS, a file like bench/results.json whose entries are put into
# that one by hand or by `--record bench/results.json` in a checkout; what was measured when time ran out stands there.
#   bench/device/verifier.sh TREE SAMPLES RESULTS [OPTION...]
#     TREE     an installed tree, or the build folder build/gpu: bin/ with hone-verifier, hone-runner and both benches
#     SAMPLES  the recorded answers, qwen_coder_native_samples.jsonl
#     OPTION   of device_bench: --what screened,cv --repeats 5 --sandbox none --gpus 2
#   PEER=3     in the environment: so many of the extensions also by KernelBench's own protocol, half a minute each
#   EXTENSIONS=40   PyTorch extensions; 0: none
# Needs on that machine: an NVIDIA GPU with its driver, a CUDA toolkit ($CUDA_HOME), g++, bubblewrap, and $HONE_PYTHON with
# torch for CUDA.
set -euo pipefail
tree=${1:?the folder with bin/device_bench}
samples=${2:?qwen_coder_native_samples.jsonl}
results=${3:?where the figures go}
shift 3
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/bench/device/common.sh"
export HONE_PYTHON=${HONE_PYTHON:-$(command -v python3)}
export LD_LIBRARY_PATH=$tree/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
machine="$(gpu_name), $(nproc) cores"
commit=${HONE_COMMIT:-$(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown)}
common=(--record "$results" --machine "$machine" --commit "$commit")
if [ "${EXTENSIONS:-40}" -gt 0 ]; then
  "$tree/bin/torch_bench" --device cuda --python "$HONE_PYTHON" --candidates "${EXTENSIONS:-40}" --peer-candidates "${PEER:-0}" \
    --peer-script "$here/bench/verifier/kernelbench_protocol.py" "${common[@]}"
fi
"$tree/bin/device_bench" "$samples" "${common[@]}" "$@"

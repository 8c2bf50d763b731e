#!/usr/bin/env bash
# The engine and HF transformers side by side on an NVIDIA GPU, with random weights of the same shapes. About six minutes.
#   bench/device/engine.sh BUILD_FOLDER [RESULTS.json]
# Needs transformers in the Python on PATH; without it only the engine is measured.
set -euo pipefail
build=${1:?the build folder, e.g. build/release}
record=()
[[ -n ${2:-} ]] && record=(--record "$2" --commit "$(git -C "$(dirname "$0")" rev-parse --short=10 HEAD)")
. "$(dirname "$0")/common.sh"
machine=$(gpu_name)
for shape in qwen1_5b qwen8b; do
  "$build/bin/engine_bench" --shape "$shape" --machine "$machine" "${record[@]}"
done
"$build/bin/engine_kernel_bench"
if python3 -c 'import transformers' 2>/dev/null; then
  for shape in qwen1_5b qwen8b; do
    python3 "$(dirname "$0")/engine_hf.py" "$shape" 1,64,256 64
  done
fi

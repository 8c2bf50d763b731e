#!/usr/bin/env bash
# The engine and HF transformers side by side on the CPU: Qwen2.5-1.5B's shape with random weights in bf16, prompts of 64
# tokens, 32 new ones, batch 1 and 8. On an otherwise idle machine with 12 GB free; about ten minutes on two cores.
#   bench/engine/cpu.sh BUILD_FOLDER [PYTHON]      PYTHON has torch and transformers
set -euo pipefail
build=${1:?the build folder, e.g. build/release}
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
peers=()
for batch in 1 8; do
  line=$("$python" "$here/../device/engine_hf.py" qwen1_5b "$batch" 32 --device cpu --prompt 64)
  echo "$line"
  peers+=(--peer "b$batch=$("$python" -c 'import json, sys; print(json.loads(sys.argv[1])["tok_s"])' "$line")")
done
"$build/bin/engine_bench" --device cpu "${peers[@]}" --record "$here/../results.json" \
  --commit "$(git -C "$here" rev-parse --short=10 HEAD)"

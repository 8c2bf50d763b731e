#!/usr/bin/env bash
# The engine and HF transformers side by side on the CPU: Qwen2.5-1.5B's shape with random weights in bf16, prompts of 64
# tokens, 32 new ones, batch 1 and 8. On an otherwise idle machine with 8 GB free; some five minutes on two cores.
#   bench/engine/cpu.sh BUILD_FOLDER [PYTHON]      PYTHON has torch and transformers
set -euo pipefail
build=${1:?the build folder, e.g. build/release}
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
lines=$("$python" "$here/../device/engine_hf.py" qwen1_5b 1,8 32 --device cpu --prompt 64)
echo "$lines"
mapfile -t peers < <("$python" -c '
import json, sys
for line in sys.argv[1].splitlines():
    case = json.loads(line)
    print("--peer")
    print("b%d=%s" % (case["batch"], case["tok_s"]))' "$lines")
"$build/bin/engine_bench" --device cpu "${peers[@]}" --record "$here/../results.json" \
  --commit "$(git -C "$here" rev-parse --short=10 HEAD)"

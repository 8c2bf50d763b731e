#!/usr/bin/env bash
# usage: bench/device/learner.sh [BUILD_DIR]      on a machine with one NVIDIA GPU of 80 GB or more
# Checks the learner's numbers on the device, then measures it at the shapes of Qwen2.5-1.5B and Qwen3-8B with random weights,
# and HF transformers with the same shapes where Python has it. One JSON object a line on standard output; the log lines of
# each part go to standard error. A part that fails does not stop the others.
set -u
build=${1:-build/gpu}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
use_torch
for part in rows check prefix_check prefix full full_checkpointed full_offload phases score lora; do
  timeout 300 "$build/bin/learner_bench" cuda "$part" || echo "{\"failed\": \"$part\", \"exit\": $?}"
done
if "$HONE_PYTHON" -c "import transformers" 2>/dev/null; then
  timeout 600 "$HONE_PYTHON" "$here/learner_hf.py" || echo "{\"failed\": \"transformers\", \"exit\": $?}"
else
  echo '{"skipped": "transformers is not installed"}'
fi

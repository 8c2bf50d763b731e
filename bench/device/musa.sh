#!/usr/bin/env bash
# Judges the .mu suite and its CUDA originals through the compatibility toolchain (docs/musa.md): on this machine's GPU where it
# has one, one kernel for each task; else all kernels on the CPU emulation.
#   bench/device/musa.sh [BUILD_FOLDER]      default build/release; needs its programs musa-suite, hone-verifier and hone-runner
# Exit code 3: two verdicts differ.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
device=cpu size=all
[ -e /dev/nvidia0 ] && device=cuda size=one
exec "$build/bin/musa-suite" --device "$device" --toolchain "compat/$device" --size "$size" --examples "$root/examples" \
  --record "$root/bench/results.json" ${HONE_PYTHON:+--python "$HONE_PYTHON"}

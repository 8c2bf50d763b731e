#!/usr/bin/env bash
# Runs the attack corpus and the honest kernels on this machine's GPU and writes the table into docs/attacks.md.
#   bench/device/attacks.sh [BUILD_FOLDER]
# default build/release; needs its programs attack-corpus, hone-verifier and hone-runner, nvcc and a Python with torch.
# Verdicts are kept in BUILD_FOLDER/attacks.jsonl as they come: a run that was cut short (HONE_ATTACKS_S limits one, in
# seconds) goes on where it ended, and the table says what is missing.
# Exit code 3: an attack got through, an honest program did not, or some were not judged.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
corpus=("$build/bin/attack-corpus" --corpus "$root/tests/attacks" --device cuda --results "$build/attacks.jsonl")
timeout --signal=TERM --kill-after=5 "${HONE_ATTACKS_S:-86400}" "${corpus[@]}" ${HONE_PYTHON:+--python "$HONE_PYTHON"} \
  > /dev/null || true
exec "${corpus[@]}" --report --out "$root/docs/attacks.md"

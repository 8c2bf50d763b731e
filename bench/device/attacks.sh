#!/usr/bin/env bash
# Runs the attack corpus on this machine's GPU and writes the table into docs/attacks.md.
#   bench/device/attacks.sh [BUILD_FOLDER]      default build/release; needs its programs attack-corpus and hone-verifier
# Exit code 3: an attack got through, or an honest program did not.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/release}
exec "$build/bin/attack-corpus" --corpus "$root/tests/attacks" --device cuda --out "$root/docs/attacks.md" \
  ${HONE_PYTHON:+--python "$HONE_PYTHON"}

#!/usr/bin/env bash
# Several GPUs on one host: verdicts from every lane, candidates that poison their context, and a lane whose process dies
# again and again: it is quarantined, the others go on, and it comes back after a clean probe. About a minute.
#   bench/device/lanes.sh PROGRAMS OUT [OPTION of lanes.py...]
#     PROGRAMS  folder with hone and hone-verifier: build/gpu/bin, or bin of an installed tree
#     OUT       folder for the log, the verdicts and lanes.json
# With `--device cpu` it runs on a machine without a GPU, on `--lanes` lanes of the emulation, two by default.
set -euo pipefail
programs=${1:?the folder with hone and hone-verifier}
out=${2:?where results go}
shift 2
export HONE_PYTHON=${HONE_PYTHON:-$(command -v python3)}
exec "$HONE_PYTHON" "$(dirname "$0")/lanes.py" "$programs" "$out" "$@"

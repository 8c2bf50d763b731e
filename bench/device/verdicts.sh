#!/usr/bin/env bash
# Judges small wrong candidates on this machine's GPU, with the vendor's tools' reports, and writes docs/verdicts.md. About half a minute.
#   bench/device/verdicts.sh PROGRAMS [OPTION of verdict-table...]
set -euo pipefail
programs=${1:?the folder with verdict-table and hone-verifier}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
exec "$programs/verdict-table" --device cuda ${HONE_PYTHON:+--python "$HONE_PYTHON"} --out "$root/docs/verdicts.md" "$@"

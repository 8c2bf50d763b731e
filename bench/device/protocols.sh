#!/usr/bin/env bash
# The same candidates under both protocols of the verifier and as KernelBench itself measures them. About two minutes, most of
# it KernelBench's builds.
#   bench/device/protocols.sh PROGRAMS RESULTS [OPTION of protocol_bench...]
set -euo pipefail
programs=${1:?the folder with protocol_bench and hone-verifier}
results=${2:?where the figures go}
shift 2
. "$(dirname "$0")/common.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
exec "$programs/protocol_bench" --device cuda --python "${HONE_PYTHON:-$(command -v python3)}" --source "$root" \
  --machine "$(gpu_name), $(nproc) cores" \
  --peer-script "$root/bench/verifier/kernelbench_protocol.py" --record "$results" "$@"

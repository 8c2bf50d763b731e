#!/usr/bin/env bash
# Verdicts a second on PyTorch-extension candidates, beside KernelBench's protocol on the same candidates. Runs on a machine
# with a GPU and nvcc, from a tree that was built elsewhere: bin/ lib/ share/ and this checkout's bench/.
#
#   bench/device/torch.sh TREE [more options of torch_bench]
set -euo pipefail
tree=${1:?the folder with bin/torch_bench}
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
export LD_LIBRARY_PATH=$tree/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
python=${HONE_PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
exec "$tree/bin/torch_bench" --device cuda --python "$python" \
  --peer-script "$here/bench/verifier/kernelbench_protocol.py" --source "$here" "$@"

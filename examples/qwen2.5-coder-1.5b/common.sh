# What the stages share. Everything is a variable, so that the same scripts run a tiny model on a CPU:
#   HONE     folder with hone, hone-verifier and hone-runner      WORK     data, weights and runs
#   MODEL    HF folder                                            DEVICE   cuda or cpu
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HONE=${HONE:-$here/../../build/release/bin}
WORK=${WORK:-$PWD/qwen-run}
MODEL=${MODEL:-$WORK/model}
DEVICE=${DEVICE:-cuda}
DATA=${DATA:-$WORK/data}
RUNS=${RUNS:-$WORK/runs}
mkdir -p "$WORK" "$RUNS"
if [ "$DEVICE" = cpu ]; then
  where=(--set device.device=cpu --set device.dtype=fp32 --set "verifier.devices=[cpu]" --set verifier.build_slots=2)
else
  where=(--set "device.device=$DEVICE" --set device.dtype=bf16 --set "verifier.devices=[$DEVICE]" --set verifier.build_slots=0)
fi

# run FOLDER COMMAND...: a new run of that name, or the interrupted one gone on with; nothing where it ended.
run() {
  local name=$1
  shift
  if [ -e "$RUNS/$name/DONE" ]; then echo "$name: done before"; return 0; fi
  local resume=()
  if [ -e "$RUNS/$name/config.yaml" ]; then resume=(--resume); fi
  "$HONE/hone" "$@" --name "$name" --runs "$RUNS" "${resume[@]}"
}

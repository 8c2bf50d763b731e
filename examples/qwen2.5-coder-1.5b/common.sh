# What the stages share. Everything is a variable, so that the same scripts run a tiny model on a CPU:
#   HONE     folder with hone, hone-verifier and hone-runner      WORK     data, weights and runs
#   MODEL    HF folder                                            DEVICE   cuda, cuda:<n> or cpu: samples and learns
#   TIMED_ON where candidates are timed; another GPU than DEVICE (DEVICE=cuda:0 TIMED_ON=cuda:1) lets sampling, verifying and
#            learning run at the same time. DTYPE: of sampling and reinforcement, bf16 or fp16. SCREEN_LANES: candidates checked on the CPU at a time
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HONE=${HONE:-$here/../../build/release/bin}
WORK=${WORK:-$PWD/qwen-run}
MODEL=${MODEL:-$WORK/model}
DEVICE=${DEVICE:-cuda}
TIMED_ON=${TIMED_ON:-$DEVICE}
DATA=${DATA:-$WORK/data}
RUNS=${RUNS:-$WORK/runs}
mkdir -p "$WORK" "$RUNS"
if [ "$DEVICE" = cpu ]; then
  where=(--set device.device=cpu --set device.dtype=fp32 --set "verifier.devices=[cpu]" --set verifier.build_slots=2)
else
  where=(--set "device.device=$DEVICE" --set "device.dtype=${DTYPE:-bf16}" --set "verifier.devices=[$TIMED_ON]" --set verifier.build_slots=0)
fi
[ -z "${SCREEN_LANES:-}" ] || where+=(--set "verifier.options=[screen_lanes=$SCREEN_LANES]")
together=(--set rl.stream=true)
[ "$TIMED_ON" = "$DEVICE" ] && [ "$DEVICE" != cpu ] || together+=(--set rl.overlap=true)

# run FOLDER COMMAND...: a new run of that name, or the interrupted one gone on with; nothing where it ended.
run() {
  local name=$1
  shift
  if [ -e "$RUNS/$name/DONE" ]; then echo "$name: done before"; return 0; fi
  local resume=()
  if [ -e "$RUNS/$name/config.yaml" ]; then resume=(--resume); fi
  "$HONE/hone" "$@" --name "$name" --runs "$RUNS" "${resume[@]}"
}

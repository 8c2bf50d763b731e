#!/usr/bin/env bash
# Data, on a CPU: tasks to evaluate on, demonstrations that the verifier accepted, the tasks to train on, and what the
# decontamination check says of all of them. $KERNELBENCH is a checkout's tasks as JSONL (level, problem_id, name, code); $RECORDS
# journals of earlier reinforcement, whose tasks without anything left to learn are not given again.
. "$(dirname "$0")/common.sh"
mkdir -p "$DATA"
python=${HONE_PYTHON:-python3}
threshold=${THRESHOLD:-0.6}  # of similarity, from which a task is a near copy
evaluation=(--evaluation suite)
if [ -n "${KERNELBENCH:-}" ]; then
  for level in 1 2; do
    [ -d "$DATA/kb$level" ] || "$python" "$here/kernelbench_sizes.py" "$KERNELBENCH" "$DATA/kb$level" --level $level | tee "$DATA/kb$level.txt" | tail -1
    evaluation+=(--evaluation "$DATA/kb$level")
  done
fi

# draw NAME SEED FOLDER PER_FAMILY GENERATED: $DATA/NAME.jsonl, the demonstrations, and $DATA/NAME_tasks.jsonl.
draw() {
  [ -e "$DATA/$1.jsonl" ] || "$HONE/hone" demonstrations --families "$here/$3" --per-family "$4" --generated "$5" --seed "$2" --lanes 2 --threshold "$threshold" \
    "${away[@]}" --out "$DATA/$1.jsonl" --tasks "$DATA/$1_tasks.jsonl" --rejected "$DATA/$1_rejected.txt" | tee "$DATA/$1.txt"
}
away=()
draw answers 7 held_out "${PER_UNSEEN:-4}" 0
cp "$DATA/answers_tasks.jsonl" "$DATA/unseen.jsonl"
evaluation+=(--evaluation "$DATA/unseen.jsonl")
away=("${evaluation[@]/--evaluation/--away-from}")
draw sft 1 families "${PER_FAMILY:-60}" "${GENERATED:-450}"
draw rl 2 families "${PER_RL_FAMILY:-2}" 0
{
  echo "\$ hone tasks decontaminate: tasks of reinforcement"
  "$HONE/hone" tasks decontaminate --training suite --training "$DATA/rl_tasks.jsonl" "${evaluation[@]}" --threshold "$threshold" --show 15 \
    --clean "$DATA/train_tasks.jsonl"
  echo
  echo "\$ hone tasks decontaminate: demonstrations"
  "$HONE/hone" tasks decontaminate --training "$DATA/sft.jsonl" "${evaluation[@]}" --threshold "$threshold" --show 15
} | sed "s#$DATA/##g" | tee "$DATA/decontamination.txt"
records=()
for journal in ${RECORDS:-}; do records+=(--records "$journal"); done
"$python" "$here/rl_tasks.py" "$DATA/train_tasks.jsonl" "$DATA/reinforced.jsonl" "${records[@]}" | tee "$DATA/reinforced.txt" | tail -1

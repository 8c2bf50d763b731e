# Sourced by the scripts beside it.

# The programs' Python, and its torch's libraries where the loader finds them; other folders of LD_LIBRARY_PATH come first.
use_torch() {
  local libraries
  export HONE_PYTHON=${HONE_PYTHON:-$(command -v python3)}
  libraries=$("$HONE_PYTHON" -c "import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))") || exit 2
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries"
}

gpu_name() { nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1; }

# figures METRICS NAME...: of each step of a run, one JSON object a line. A NAME that ends with * stands for all that begin so.
figures() {
  "$HONE_PYTHON" - "$@" <<'PY'
import fnmatch, json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    chosen = {"step": record["step"]}
    for name in sys.argv[2:]:
        for key in fnmatch.filter(record, name):
            chosen[key] = float(f"{record[key]:.4g}")
    print(json.dumps(chosen))
PY
}

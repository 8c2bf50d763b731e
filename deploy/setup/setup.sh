#!/usr/bin/env bash
# Prepares a Debian 12 or Ubuntu 24.04 machine to build hone: system packages, then a Python environment with torch.
# Prints the path of the Python to build against as its last line, so that the Makefile can pass it on.
#
#   HONE_SKIP_APT=1   leave system packages alone (you manage them yourself)
#   HONE_PYTHON=PATH  use this Python instead of the active one; it must have torch >= 2.6
#
# A second run only checks, which takes less than a second.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
say() { printf 'setup: %s\n' "$*" >&2; }

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'; }

wanted_packages() { sed 's/#.*//' "$here/packages.txt" | tr -s ' \t' '\n' | sed '/^$/d'; }

catch2_is_v3() { dpkg-query -W -f '${Version}' catch2 2>/dev/null | grep -q '^3'; }

missing_packages() {
  local package
  for package in $(wanted_packages); do
    if [ "$package" = catch2 ]; then catch2_is_v3 || echo catch2; else installed "$package" || echo "$package"; fi
  done
}

# Debian 12 itself carries Catch2 2; version 3 comes from its backports.
needs_backports() { . /etc/os-release && [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ]; }

# The mirror that this machine already takes Debian from; backports lie beside it.
debian_mirror() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | awk '$2 == "bookworm" { print $1; exit }'
}

install_packages() {
  local missing as_root=() options=(-y --no-install-recommends) list=/etc/apt/sources.list.d/hone-bookworm-backports.list
  missing=$(missing_packages | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "these system packages are missing and neither root nor sudo is available: $missing"
      say "ask an administrator to run:  apt-get install -y $missing"
      say "or set HONE_SKIP_APT=1 if you provide them in another way"
      exit 2
    fi
    as_root=(sudo)
  fi
  say "installing system packages: $missing"
  if needs_backports && [[ " $missing" == *" catch2 "* ]] && ! grep -rqs bookworm-backports /etc/apt/sources.list /etc/apt/sources.list.d; then
    say "adding the source bookworm-backports for Catch2 3 ($list)"
    "${as_root[@]}" apt-get update -qq >&2  # the mirror is known once its lists are
    echo "deb $(debian_mirror) bookworm-backports main" | "${as_root[@]}" tee "$list" >/dev/null
  fi
  "${as_root[@]}" apt-get update -qq >&2
  if needs_backports && [[ " $missing" == *" catch2 "* ]]; then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" -qq -t bookworm-backports catch2 >&2
    missing=$(missing_packages | tr '\n' ' ')
  fi
  # shellcheck disable=SC2086
  [ -z "$missing" ] || "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" -qq $missing >&2
}

has_torch() {
  "$1" - <<'PY' 2>/dev/null
import sys, torch
major, minor = (int(part) for part in torch.__version__.split(".")[:2])
sys.exit(0 if (major, minor) >= (2, 6) else 1)
PY
}

# The environment is shared by all clones of one user and keyed by the pinned versions.
cached_python() {
  local key dir
  key=$(sha256sum "$root/requirements.txt" | cut -c1-12)
  dir=${XDG_CACHE_HOME:-$HOME/.cache}/hone/venv-$key
  if [ ! -e "$dir/complete" ] || [ ! -x "$dir/bin/python3" ]; then  # the Python it was made from may be gone
    say "creating the Python environment $dir (torch is about 2.5 GB to download, once)"
    rm -rf "$dir" "$dir.new"
    mkdir -p "$(dirname "$dir")"
    python3 -m venv "$dir" >&2
    "$dir/bin/python3" -m pip install --quiet --disable-pip-version-check --requirement "$root/requirements.txt" >&2
    touch "$dir/complete"
  fi
  echo "$dir/bin/python3"
}

[ "${HONE_SKIP_APT:-0}" = 1 ] || install_packages
if [ -n "${HONE_PYTHON:-}" ]; then
  has_torch "$HONE_PYTHON" || { say "HONE_PYTHON=$HONE_PYTHON has no torch >= 2.6"; exit 2; }
  echo "$HONE_PYTHON"
elif active=$(command -v python3) && has_torch "$active"; then
  "$active" -c 'import sys; print(sys.executable)'
else
  cached_python
fi

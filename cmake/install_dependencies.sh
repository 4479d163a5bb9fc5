#!/usr/bin/env bash
# install_dependencies.sh [PACKAGE...]
#
# Installs what a build of Trireme needs and prints the libtorch folder as its only line on stdout:
#   1. Debian or Ubuntu packages (as root or with sudo), the PACKAGEs included;
#   2. libtorch 2.13 or 2.14: LIBTORCH_ROOT, else the torch of the active Python, else a pinned one in .venv.
# What is there already is left alone: with nothing to do it ends in a tenth of a second and starts neither apt nor pip.
set -euo pipefail
cd "$(dirname "$0")/.."
exec 9<cmake/install_dependencies.sh && flock 9 # two of these at once take turns

torch=torch==2.13.0
packages=(g++ cmake ninja-build ccache mold nlohmann-json3-dev libcli11-dev libgtest-dev libxxhash-dev libopenmpi-dev openmpi-bin
  python3 bible-kjv "$@")

say() { echo "$*" >&2; }
fail() { say "error: $*"; exit 1; }

install_packages() { # NAME...: those that are missing
  command -v dpkg-query >/dev/null || fail "no Debian or Ubuntu here; install the equivalents of: $*"
  local present missing=() name
  present=" $(dpkg-query --show --showformat '${Package}:${db:Status-Status} ' "$@" 2>/dev/null || true)"
  for name in "$@"; do
    [[ $present == *" $name:installed "* ]] || missing+=("$name")
  done
  ((${#missing[@]})) || return 0

  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null && sudo=sudo
    # a password is asked for only where a person can type it
    if [ -z "$sudo" ] || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      local list="${missing[*]}" how="run as root: "
      [ -z "$sudo" ] || how="run: sudo "
      fail "packages are missing and this is not root; ${how}apt-get update && ${sudo:+sudo }apt-get install -y --no-install-recommends $list"
    fi
  fi
  say "installing ${missing[*]}"
  local apt=($sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
  { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >&2 </dev/null ||
    fail "apt-get could not install ${missing[*]}; its own words are above"
}

version_of() { # FOLDER: "2.13" of a torch folder; fails where there is none
  [ -f "$1/lib/libtorch_cpu.so" ] || return 1
  awk '/^#define TORCH_VERSION_MAJOR / {major = $3} /^#define TORCH_VERSION_MINOR / {print major "." $3; exit}' \
    "$1/include/torch/headeronly/version.h"
}

is_usable() { [[ $(version_of "$1") =~ ^2\.1[34]$ ]]; } # FOLDER

torch_of() { # PYTHON: the folder of its torch, or nothing; does not import it
  "$1" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null
}

make_venv() { # .venv with the pinned torch; the file `complete` is written last, so that a killed pip is not trusted
  local python=python3
  if command -v python3.11 >/dev/null && python3.11 -c '' 2>/dev/null; then
    python=python3.11
  fi
  "$python" -c 'import venv, ensurepip' 2>/dev/null || install_packages "$(basename "$python")-venv"
  say "installing $torch into .venv"
  rm -rf .venv
  "$python" -m venv .venv >&2 || fail "$python -m venv .venv failed; its own words are above"
  .venv/bin/python -m pip install --progress-bar off "$torch" >&2 </dev/null ||
    fail "pip could not install $torch for $("$python" --version); set LIBTORCH_ROOT to a torch 2.13 or 2.14 folder to do without"
  echo "$torch" >.venv/complete
}

install_packages "${packages[@]}"

if [ -n "${LIBTORCH_ROOT:-}" ]; then
  is_usable "$LIBTORCH_ROOT" || fail "LIBTORCH_ROOT=$LIBTORCH_ROOT holds no libtorch 2.13 or 2.14; unset it to let one be installed"
  realpath "$LIBTORCH_ROOT"
  exit
fi
if [ "$(cat .venv/complete 2>/dev/null)" != "$torch" ]; then
  folder=$(torch_of python3 || true)
  if [ -n "$folder" ] && is_usable "$folder"; then
    realpath "$folder"
    exit
  fi
  make_venv
fi
for folder in "$PWD"/.venv/lib/python3*/site-packages/torch; do
  is_usable "$folder" || fail "$folder is damaged; remove .venv and try again"
  echo "$folder"
done

#!/usr/bin/env bash
# Makes build/ ready for ninja. Does nothing where it is ready for the same libtorch and CMAKE_FLAGS (environment, or
# `make build CMAKE_FLAGS="-DTRIREME_WERROR=ON"`).
set -euo pipefail
cd "$(dirname "$0")/.."

libtorch=$(cmake/install_dependencies.sh)
wanted="$PWD $libtorch ${CMAKE_FLAGS:-}"
[ -f build/build.ninja ] && [ "$(cat build/configured_for 2>/dev/null)" = "$wanted" ] && exit

rm -f build/CMakeCache.txt build/configured_for
# six files are compiled as one: every file that sees torch costs 5 s before its first line
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=6 \
  "-DLIBTORCH_ROOT=$libtorch" ${CMAKE_FLAGS:-}
echo "$wanted" >build/configured_for

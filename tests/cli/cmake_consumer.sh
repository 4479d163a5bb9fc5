#!/usr/bin/env bash
# Another project finds the installed library with find_package(Trireme), and the installed programs run right away,
# without LD_LIBRARY_PATH and from another folder. Argument: the build folder.
set -euo pipefail
build=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cmake --install "$build" --prefix "$tmp/prefix" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
export LIBTORCH_ROOT= # as make exports it where it is not set
cmake -S examples/06_cmake_consumer -B "$tmp/consumer" -G Ninja "-DCMAKE_PREFIX_PATH=$tmp/prefix"
cmake --build "$tmp/consumer"
cd "$tmp"
unset LIBTORCH_ROOT LD_LIBRARY_PATH
prefix/bin/trireme --version
prefix/bin/trireme launch -n 2 -- consumer/consumer | tee output
grep -q 'sum 3' output

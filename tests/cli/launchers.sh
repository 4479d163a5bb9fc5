#!/usr/bin/env bash
# The same run under other launchers: torchrun --no-python and mpirun, where they are installed; the losses are equal.
source tests/cli/common.sh.inc
config c.json
train c.json --data text.txt --ranks 2 --steps 4 --out own >log

torch=$(sed -n 's/^LIBTORCH_ROOT:PATH=//p' "$build/CMakeCache.txt")
python=$(cd "$torch/../../../.." 2>/dev/null && pwd)/bin/python
if [ -x "$python" ] && "$python" -c "import torch.distributed.run" 2>/dev/null; then
  timeout 100 "$python" -m torch.distributed.run --no-python --standalone --nproc-per-node 2 \
    "$build/trireme" train c.json --data text.txt --steps 4 --out torchrun >log 2>&1 || fail "$(tail -5 log)"
  [ "$(losses own)" = "$(losses torchrun)" ] || fail "torchrun gives other losses"
else
  echo "torchrun is not installed: left out"
fi

if command -v mpirun >/dev/null; then
  timeout 100 mpirun --allow-run-as-root --oversubscribe -n 2 "$build/trireme" train c.json --data text.txt --steps 4 --out mpi >log 2>&1 || fail "$(tail -5 log)"
  [ "$(losses own)" = "$(losses mpi)" ] || fail "mpirun gives other losses"
else
  echo "mpirun is not installed: left out"
fi

train c.json --data text.txt --ranks 2 --steps 4 --out gloo --backend gloo >log
[ "$(losses own)" = "$(losses gloo)" ] || fail "gloo gives other losses"

#!/usr/bin/env bash
# bench comm as a user types it: rows as promised, the table, and every mistake by name.
source tests/cli/common.sh.inc
t=$build/trireme
export XDG_CACHE_HOME=$tmp/cache

timeout 100 "$t" bench comm --table >table.json 2>log && grep -q "measured now, kept in $tmp/cache" log || fail "$(cat log)"
timeout 100 "$t" bench comm --table >again.json 2>log && grep -q "kept in $tmp/cache" log || fail "$(cat log)"
cmp table.json again.json || fail "the kept table is another one"
sed 's/"copied_up_to_bytes": [0-9]*/"copied_up_to_bytes": 4321/' table.json >own.json
TRIREME_ALGORITHM_TABLE=$tmp/own.json timeout 100 "$t" bench comm --table >own_again.json 2>log
cmp own.json own_again.json && grep -q "given by $tmp/own.json" log || fail "$(cat log)"
! TRIREME_ALGORITHM_TABLE=$tmp/none.json timeout 100 "$t" bench comm --table >log 2>&1 || fail "a missing table was accepted"
grep -q "none.json" log || fail "$(cat log)"

timeout 200 "$t" bench comm --ops all_reduce,barrier,send_recv --sizes 1KiB,64KiB --against gloo --json >rows.json 2>log ||
  fail "$(cat log)"
python3 - <<'P'
import json
rows = json.load(open("rows.json"))
rows = rows["rows"] if isinstance(rows, dict) else rows
seen = {(r["op"], r["bytes"]) for r in rows}
assert {("all_reduce", 1024), ("all_reduce", 65536), ("send_recv", 1024), ("send_recv", 65536)} <= seen, seen
assert any(op == "barrier" for op, _ in seen), seen
for r in rows:
    assert r["seconds"] > 0 and r["gloo_seconds"] > 0 and "mpi_seconds" not in r, r
    assert r["op"] == "barrier" or r["floor_seconds"] > 0, r
P

for mistake in "--ops all_redcue" "--sizes 1KB7" "--against nccl" "--memory heap" "--dtype f33" "--tabel" \
  "--table --ops all_reduce" "--ops all_reduce --ranks 1000000"; do
  ! timeout 60 "$t" bench comm $mistake >log 2>&1 || fail "$mistake was accepted"
  [ "$(wc -l <log)" -le 2 ] && grep -q -- "${mistake##* }" log || fail "$mistake: $(cat log)"
done

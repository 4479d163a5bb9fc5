#!/usr/bin/env bash
# trireme status: a running run, a stopped rank, a killed one on each backend, an ended run, and mistakes.
source tests/cli/common.sh.inc
t=$build/trireme
config c.json

# begin BACKEND OUT: a run of two ranks that has made three steps; sets $pid and $ranks (processes, by rank)
begin() {
  timeout 100 "$t" train c.json --data text.txt --ranks 2 --steps 1000000 --backend "$1" --out "$2" >log 2>&1 &
  pid=$!
  for _ in $(seq 200); do grep -q '"step":3' "$2/metrics.jsonl" 2>/dev/null && break; sleep 0.1; done
  "$t" status "$2" --json >status.json || fail "$(cat log)"
  ranks=($(python3 -c 'import json; print(*[r["process"] for r in json.load(open("status.json"))["ranks"]])'))
}
# status OUT EXPRESSION: of `ranks`, what --json gives for each rank; tried for 5 s
status() {
  for _ in $(seq 50); do
    "$t" status "$1" --json >status.json
    python3 -c 'import json, sys; ranks = json.load(open("status.json"))["ranks"]; sys.exit(not eval(sys.argv[1]))' "$2" && return
    sleep 0.1
  done
  fail "status $1 never shows $2: $(cat status.json)"
}

for backend in shm gloo; do
  begin $backend $backend
  status $backend '[r["rank"] for r in ranks] == [0, 1] and all(r["condition"] == "alive" and r["step"] >= 3 for r in ranks)'
  status $backend 'all(r["phase"] for r in ranks)'
  "$t" status $backend >table
  [ "$(wc -l <table)" = 3 ] && grep -qE "^ +1 +${ranks[1]}  alive " table || fail "$(cat table)"
  kill -STOP "${ranks[1]}"
  status $backend 'ranks[1]["condition"] == "stopped" and ranks[0]["waits_for"] and ranks[0]["waits_for"]["seconds"] > 0.3'
  status $backend 'ranks[0]["waits_for"]["bytes"] > 0 and ranks[0]["waits_for"]["group"] == "world"'
  kill -CONT "${ranks[1]}"
  status $backend 'all(r["condition"] == "alive" for r in ranks) and not (ranks[0]["waits_for"] and ranks[0]["waits_for"]["seconds"] > 0.3)'
  kill -9 "${ranks[1]}"
  code=0; wait $pid || code=$?
  [ $code = 137 ] || fail "exit $code: $(cat log)"
  grep -qE "rank 1 \(process ${ranks[1]}\)(:)? was killed by signal 9 \(SIGKILL\)" log || fail "rank 0 does not say how: $(cat log)"
  tail -1 log | grep -qE "^rank 1 was killed by signal 9 \(SIGKILL\) in step [0-9]+, .+ for [0-9]" || fail "$(tail -2 log)"
  "$t" status $backend >log && grep -q "not running on this host, ended after step" log || fail "$(cat log)"
  ! "$t" status "${ranks[0]}" >log 2>&1 || fail "status of a process that has ended"
  grep -q "process ${ranks[0]} runs no ranks" log || fail "$(cat log)"
done

# by process: the launcher's or a rank's; and --watch ends with the run
begin shm watched
for process in $(pgrep -P $pid) "${ranks[@]}"; do
  "$t" status "$process" >table && grep -q "${ranks[0]}" table || fail "$process: $(cat table)"
done
timeout 60 "$t" status watched --watch >table & watcher=$!
sleep 0.5
kill -INT $pid
wait $pid || true
wait $watcher || fail "--watch: $(tail -3 table)"
grep -q "not running on this host" table || grep -q "ended\|exited" table || fail "$(cat table)"

for mistake in "" "no_such_run" "watched text.txt" "watched --jsn" "." "1" "text.txt"; do
  ! timeout 20 "$t" status $mistake >log 2>&1 || fail "status $mistake was accepted"
  [ "$(wc -l <log)" -le 2 ] && grep -q "error:" log || fail "status $mistake: $(cat log)"
done

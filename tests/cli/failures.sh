#!/usr/bin/env bash
# Whatever goes wrong: one clear line, exit code not 0, no process left, the last checkpoint whole.
source tests/cli/common.sh.inc
config c.json

# refused NAME PATTERN COMMAND…
refused() {
  local name=$1 pattern=$2 code=0
  shift 2
  timeout 60 "$@" >out 2>log </dev/null || code=$?
  [ $code -ne 0 ] && [ $code -lt 124 ] || fail "$name exits $code: $(cat log)"
  grep -qE -- "$pattern" log || fail "$name does not say '$pattern': $(cat log)"
  [ "$(wc -l <log)" -le 8 ] || fail "$name says too much: $(cat log)"
  ! grep -qE "Exception raised|frame #|terminate called|what\(\)" log || fail "$name shows a stack trace: $(cat log)"
}
run() { echo "$build/trireme train c.json --ranks 2 --steps 2 --overwrite --out run"; }

# data
refused missing "none.txt" $(run) --data none.txt
: >empty; refused empty "empty" $(run) --data empty
printf abc >short; refused short "3 tokens" $(run) --data short
refused folder "directory|folder" $(run) --data "$tmp"
printf 'abc' >odd.bin; refused odd_bytes "odd.bin" $(run) --data odd.bin
python3 -c "import sys; sys.stdout.buffer.write(bytes([255, 255]) * 20000)" >big.bin
refused vocabulary "65535" $(run) --data big.bin

# configuration: every violation at once
config c.json 3 8 '"gradient_clipp1ng": 1, "zero_optimization": {"stage": 3}'
refused all_at_once "gradient_clipping" $(run) --data text.txt
grep -q "stage" log && grep -q "train_batch_size" log || fail "not all violations: $(cat log)"
config c.json

# start-up
RANK=0 refused rank_alone "WORLD_SIZE" $(run) --data text.txt
python3 -m http.server 29871 --bind 127.0.0.1 >/dev/null 2>&1 & server=$!
sleep 1
refused port_taken "29871" "$build/trireme" launch -n 2 --master-port 29871 -- "$build/trireme-rank" train c.json --data text.txt --steps 1 --out p
kill $server
RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=0.0.0.0 MASTER_PORT=29872 refused bad_address "0.0.0.0" "$build/trireme-rank" train c.json --data text.txt --steps 1 --out p
RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=no.such.host.invalid MASTER_PORT=29872 refused no_host "no.such.host.invalid" "$build/trireme-rank" train c.json --data text.txt --steps 1 --out p

# damaged files
train c.json --data text.txt --ranks 2 --steps 4 --out run --overwrite --set checkpoint.every=2 >log 2>&1
cp -r run broken && printf x | dd of=broken/checkpoints/step_00000004/shard_00000.safetensors bs=1 seek=900 conv=notrunc 2>/dev/null
refused flipped_byte "shard_00000.safetensors" "$build/trireme" train c.json --data text.txt --ranks 2 --steps 6 --out broken --resume
cp -r run cut && truncate -s 100 cut/checkpoints/step_00000004/shard_00001.safetensors
refused truncated "shard_00001.safetensors" "$build/trireme" train c.json --data text.txt --ranks 2 --steps 6 --out cut --resume
cp -r run stateless && rm stateless/checkpoints/step_00000004/state.json
refused no_state "state.json" "$build/trireme" train c.json --data text.txt --ranks 2 --steps 6 --out stateless --resume
truncate -s 50 run/export/model.safetensors
refused short_export "model.safetensors" "$build/trireme" eval run/export --data text.txt --json

# a full disk during a checkpoint: the earlier one stays
if [ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=1m none disk 2>/dev/null; then
  trap 'umount "$tmp/disk" 2>/dev/null; rm -rf "$tmp"' EXIT
  code=0
  timeout 60 "$build/trireme" train c.json --data text.txt --ranks 2 --steps 8 --out disk/run --set checkpoint.every=2 --set checkpoint.keep=100 >log 2>&1 || code=$?
  [ $code -ne 0 ] || fail "a full disk went unnoticed"
  grep -qi "no space left" log || fail "$(cat log)"
  [ -n "$(ls disk/run/checkpoints)" ] || fail "no checkpoint left on the full disk: $(cat log)"
  [ -z "$(ls disk/run/checkpoints.partial 2>/dev/null)" ] || fail "leftovers on the full disk"
fi

# a killed rank: the others end, it is named, the last checkpoint goes on
"$build/trireme" train c.json --data text.txt --ranks 3 --steps 100000 --out k --set checkpoint.every=2 --set train_batch_size=12 >log 2>&1 &
pid=$!
for _ in $(seq 150); do [ -n "$(ls k/checkpoints 2>/dev/null)" ] && break; sleep 0.2; done
kill -9 "$(pgrep -P $pid | tail -1)"
code=0; wait $pid || code=$?
[ $code -ne 0 ] || fail "a killed rank went unnoticed"
tail -1 log | grep -qE "rank [012] was killed by signal 9" || fail "$(tail -3 log)"
train c.json --data text.txt --ranks 2 --steps "$(($(ls k/checkpoints | tail -1 | tr -dc 0-9 | sed 's/^0*//') + 2))" --out k --resume --set train_batch_size=12 --set train_micro_batch_size_per_gpu=6 >log 2>&1 || fail "$(tail -3 log)"

# a killed launcher takes its ranks along
"$build/trireme" train c.json --data text.txt --ranks 2 --steps 100000 --out l >log 2>&1 &
pid=$!
for _ in $(seq 150); do grep -q '"step":3' l/metrics.jsonl 2>/dev/null && break; sleep 0.2; done
ranks=$(pgrep -P $pid)
kill -9 $pid
alive() { grep -qs '^State:.[^Z]' "/proc/$1/status"; } # a zombie has ended
for rank in $ranks; do
  for _ in $(seq 50); do alive "$rank" || break; sleep 0.1; done
  ! alive "$rank" || fail "rank process $rank outlived its launcher"
done

# a checkpoint without its manifest is damaged, not absent
train c.json --data text.txt --steps 4 --out torn --set checkpoint.every=2 >log
rm torn/checkpoints/step_00000004/manifest.json
! train c.json --data text.txt --steps 6 --out torn --resume >log 2>&1 || fail "resumed from an older checkpoint"
grep -q "step_00000004" log || fail "$(cat log)"

# two runs in one folder: the second is refused, the first goes on
"$build/trireme" train c.json --data text.txt --steps 100000 --out shared >first 2>&1 &
pid=$!
for _ in $(seq 100); do grep -q '"step":3' shared/metrics.jsonl 2>/dev/null && break; sleep 0.1; done
for flag in --resume --overwrite; do
  ! train c.json --data text.txt --steps 5 --out shared $flag >log 2>&1 || fail "$flag took a folder in use"
  grep -q "error:" log || fail "$(cat log)"
done
kill -0 $pid || fail "the first run ended: $(cat first)"
kill -INT $pid
wait $pid || true
[ "$(ls shared/checkpoints | wc -l)" = 1 ] || fail "the first run saved nothing"

# a start that fails leaves nothing in the way and nothing lost
python3 -c 'import array; array.array("H", [60000] * 4000).tofile(open("wrong.u16", "wb"))'
! train c.json --data wrong.u16 --set data.format=uint16 --ranks 2 --steps 3 --out retry >log 2>&1 || fail "took token 60000"
grep -q "holds token 60000" log || fail "$(cat log)"
train c.json --data text.txt --ranks 2 --steps 3 --out retry >log
! train c.json --data wrong.u16 --set data.format=uint16 --steps 3 --out retry --overwrite >log 2>&1 || fail "took it"
[ -s retry/export/model.safetensors ] || fail "--overwrite removed a run for one that cannot start"

# another model than the checkpoint's is named by its key
! train c.json --data text.txt --ranks 2 --steps 5 --out retry --resume --set model.n_layer=3 >log 2>&1 || fail "took 3 layers"
grep -q "model.n_layer is 3, checkpoint .* was made with" log || fail "$(cat log)"

# what cannot be written is said
! "$build/trireme" eval retry --data text.txt --json >/dev/full 2>log || fail "eval wrote to a full disk"
grep -q "cannot write to stdout" log || fail "$(cat log)"
! train c.json --data text.txt --ranks 2 --steps 3 --out full >/dev/full 2>log || fail "train wrote to a full disk"
grep -q "cannot write to stdout: No space left" log || fail "$(cat log)"

# rank 0 stopped under gloo, whose store it keeps: the other ends at its deadline
timeout 60 "$build/trireme" train c.json --data text.txt --ranks 2 --backend gloo --steps 100000 --out stopped \
  --set communication.timeout=3s >log 2>&1 &
pid=$!
for _ in $(seq 100); do grep -q '"step":3' stopped/metrics.jsonl 2>/dev/null && break; sleep 0.1; done
kill -STOP "$(pgrep -f "trireme-rank train .* --out stopped" | head -1)"
code=0; wait $pid || code=$?
[ $code -ne 0 ] && [ $code -ne 124 ] || fail "a stopped rank 0: exit $code, $(tail -3 log)"
grep -q "timed out after 3000 ms" log || fail "$(tail -3 log)"

# a pipe in the place of a manifest is not waited for
rm retry/checkpoints/*/manifest.json && mkfifo "$(echo retry/checkpoints/step_*)/manifest.json"
code=0; timeout 10 "$build/trireme" eval retry/checkpoints/step_* --data text.txt >log 2>&1 || code=$?
[ $code = 1 ] && grep -q "not a regular file" log || fail "a pipe as manifest: exit $code, $(cat log)"

#!/usr/bin/env bash
# A run leaves what the README promises; it repeats bit for bit, resumes bit for bit, goes on with other ranks, stops
# and saves on Ctrl-C, and guards its folder.
source tests/cli/common.sh.inc

config c.json
train c.json --data text.txt --ranks 2 --steps 12 --out a --set checkpoint.every=5 >log
for file in config.json metrics.jsonl loss.svg summary.json export/config.json export/model.safetensors; do
  [ -s "a/$file" ] || fail "a/$file is missing"
done
[ "$(ls a/checkpoints)" = "$(printf 'step_00000010\nstep_00000012')" ] || fail "checkpoints: $(ls a/checkpoints)"
[ "$(find a -name 'model.safetensors' | wc -l)" = 1 ] || fail "more than one model.safetensors"
python3 - <<'P'
import json
lines = [json.loads(l) for l in open("a/metrics.jsonl")]
steps = [l for l in lines if "loss" in l]
assert [l["step"] for l in steps] == list(range(1, 13)), "a line a step from 1"
assert all("validation_loss" not in l for l in steps) and any("validation_loss" in l for l in lines)
for l in steps:
    assert l["items"] == 8 * 32 and l["lr"] == 1e-3 and l["grad_norm"] > 0 and l["tokens_per_second"] > 0
    assert set(l["seconds"]) == {"data", "forward", "backward", "exposed_communication", "optimizer"}
    for by_rank in [*l["seconds"].values(), l["busy"], l["peak_rss_bytes"]]:
        assert len(by_rank) == 2, l
summary = json.load(open("a/summary.json"))
for key in "tokens_per_second startup_seconds exposed_communication_fraction loss validation_loss".split():
    assert summary[key] > 0, key
assert len(summary["pss_bytes"]) == len(summary["peak_rss_bytes"]) == 2
assert json.load(open("a/config.json"))["train_micro_batch_size_per_gpu"] == 4
P
# the resolved configuration runs again; the same run gives the same bits
train a/config.json --ranks 2 --out again >log
[ "$(losses a)" = "$(losses again)" ] || fail "the same run twice differs"

# resume: same layout to the last bit, another number of ranks near; metrics.jsonl is cut back
train c.json --data text.txt --ranks 2 --steps 12 --out b --set checkpoint.every=5 >log
rm -r b/checkpoints/step_00000012
train c.json --data text.txt --ranks 2 --steps 12 --out b --resume >log
grep -q "resuming at step 10" log || fail "$(cat log)"
[ "$(losses a)" = "$(losses b)" ] || fail "the resumed run differs"
rm -r b/checkpoints/step_00000012
train c.json --data text.txt --ranks 1 --steps 12 --out b --resume --set train_micro_batch_size_per_gpu=2 >log
python3 - "$(losses a)" "$(losses b)" <<'P'
import sys
a, b = (list(map(float, x.split())) for x in sys.argv[1:])
assert len(a) == len(b) == 12 and all(abs(x - y) < 2e-5 * x for x, y in zip(a, b)), (a, b)
P

# the folder is guarded
! train c.json --data text.txt --steps 1 --out a >log 2>&1 || fail "a folder in use was taken"
grep -q -- "--resume" log && grep -q -- "--overwrite" log || fail "$(cat log)"
! train c.json --data text.txt --steps 1 --out fresh --resume >log 2>&1 || fail "resumed nothing"
grep -q "no checkpoint in fresh" log || fail "$(cat log)"
train c.json --data text.txt --steps 1 --out a --overwrite --set train_micro_batch_size_per_gpu=8 >log
[ "$(losses a | wc -w)" = 1 ] || fail "--overwrite kept old steps"
train c.json --data text.txt --steps 1 --set train_micro_batch_size_per_gpu=8 >log
train c.json --data text.txt --steps 1 --set train_micro_batch_size_per_gpu=8 >log
[ -d runs/c-1/export ] && [ -d runs/c-2/export ] || fail "default folders: $(ls runs)"

# Ctrl-C: a step is finished and saved, exit 130, and the line says how to go on
"$build/trireme" train c.json --data text.txt --ranks 2 --set training.steps=100000 --out c >log 2>&1 &
pid=$!
for _ in $(seq 100); do grep -q '"step":3' c/metrics.jsonl 2>/dev/null && break; sleep 0.2; done
kill -INT $pid
code=0; wait $pid || code=$?
[ $code = 130 ] || fail "Ctrl-C exits $code: $(tail -2 log)"
command=$(sed -n 's/.*go on with: //p' log)
[[ $command == *"--data text.txt --ranks 2"*"--out c --resume" ]] || fail "$(tail -3 log)"
[ "$(ls c/checkpoints | wc -l)" = 1 ] || fail "no checkpoint after Ctrl-C"
reached=$(losses c | wc -w)
bash -c "$command --steps $((reached + 1))" >log || fail "what was printed does not go on: $command: $(cat log)"
grep -q "resuming at step $reached" log || fail "$(cat log)"

#!/usr/bin/env bash
# check, eval, sample, prove and help as a user types them.
source tests/cli/common.sh.inc
t=$build/trireme
config c.json

"$t" check c.json --ranks 2 >log && grep -q "ok: can run on 2 ranks" log || fail "$(cat log)"
! "$t" check c.json --ranks 3 >log 2>&1 || fail "8 = 4 * gas * 3 was accepted"
grep -q "8" log && grep -q "4" log && grep -q "3" log || fail "$(cat log)"
config typo.json 4 8 '"steps_per_prlnt": 3'
! "$t" check typo.json >log 2>&1 && grep -q "steps_per_print" log || fail "$(cat log)"
! "$t" tune >log 2>&1 && grep -q "not built yet" log || fail "$(cat log)"
for verb in train launch check prove eval sample; do
  "$t" $verb --help >log && grep -q "trireme $verb" log || fail "$verb --help: $(cat log)"
done
"$t" --version | grep -q "torch" || fail "--version"

train c.json --data text.txt --ranks 2 --steps 6 --out run >log
head -c 4096 text.txt >eval.txt
"$t" eval run/export --data eval.txt --json >export.json
"$t" eval run --data eval.txt --json >run.json
cmp export.json run.json || fail "a run and its export differ"
python3 - <<'P'
import json
result = json.load(open("export.json"))
assert set(result) == {"loss", "tokens"} and result["tokens"] == 4095 // 32 * 32 and 0 < result["loss"] < 6, result
P
"$t" sample run/export --prompt "in the" --length 40 --seed 3 >one
"$t" sample run/export --prompt "in the" --length 40 --seed 3 >two
cmp one two || fail "the same seed samples differently"
head -c 6 one | grep -q "in the" || fail "the prompt is missing: $(cat one)"

"$t" prove c.json --ranks 2 | grep -q "equal: one process and 2 ranks" || fail "prove"
"$t" prove c.json --ranks 2 --data text.txt --json >proof.json
python3 -c 'import json; p = json.load(open("proof.json")); assert p["equal"] and p["ranks"] == 2 and len(p["comparisons"]) > 20, p'

# eval reads tokens as the run was told to, whatever the file's name says
python3 -c 'import array, sys; array.array("H", (i * i % 97 for i in range(4000))).tofile(open("tokens.u16", "wb"))'
train c.json --data tokens.u16 --set data.format=uint16 --steps 1 --out tokens >log
"$t" eval tokens --data tokens.u16 --json >tokens.json
python3 -c 'import json; r = json.load(open("tokens.json")); assert r["tokens"] == 3999 // 32 * 32, r'
# a finished run that is resumed says so and keeps what it has
cp tokens/summary.json before.json
train c.json --data tokens.u16 --set data.format=uint16 --steps 1 --out tokens --resume >log
cmp before.json tokens/summary.json && grep -q "already" log || fail "$(cat log)"
# one that was lengthened and killed before its summary still gets it, and its export
sed -i 's/"steps": 1\b/"steps": 7/' tokens/summary.json
mv tokens/export/model.safetensors before.safetensors
train c.json --data tokens.u16 --set data.format=uint16 --steps 1 --out tokens --resume >log
python3 -c 'import json; assert json.load(open("tokens/summary.json"))["steps"] == 1'
cmp before.safetensors tokens/export/model.safetensors || fail "$(cat log)"

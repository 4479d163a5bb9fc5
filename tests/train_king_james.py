#!/usr/bin/env python3
"""train_king_james.py | --self-test

`make train` as a newcomer meets it; `.ci/run all` calls it (about five minutes on 2 cores). Checks that
- it ends well, with a validation loss below 1.75 nats a byte,
- at least 70 % of the words of its sample occur in the text, and no 20 words in a row are copied from it,
- run again it trains at once (the seconds are printed), and Ctrl-C then ends it with 130 and leaves a checkpoint.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT / "data" / "king_james.txt"


def judge_sample(sample, text):
    """(part of the sample's words that occur in the text, longest run of words copied from it)"""
    words, text_words = ([w for w in re.findall(r"[A-Za-z0-9:']+", s)] for s in (sample, text))
    known = set(text_words)
    starts = {}
    for position, word in enumerate(text_words):
        starts.setdefault(word, []).append(position)
    longest = 0
    for begin, word in enumerate(words):
        for position in starts.get(word, []):
            length = 1
            while words[begin + length : begin + length + 1] == text_words[position + length : position + length + 1] != []:
                length += 1
            longest = max(longest, length)
    return sum(w in known for w in words) / max(len(words), 1), longest


def self_test():
    text = " ".join(f"word{i}" for i in range(100))
    assert judge_sample("word1 word3 wrod word2", text) == (0.75, 1)
    assert judge_sample("x " + " ".join(f"word{i}" for i in range(70, 100)), text) == (30 / 31, 30)
    assert judge_sample("", text) == (0, 0)
    print("judge_sample finds made-up words and copied runs")


def newest_run():
    return max((ROOT / "runs").glob("king_james-*"), key=lambda folder: folder.stat().st_mtime, default=None)


def check_first_run():
    begin = time.monotonic()
    subprocess.run(["make", "train"], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
    run = newest_run()
    loss = json.loads((run / "summary.json").read_text())["validation_loss"]
    known, copied = judge_sample((run / "sample.txt").read_text(), TEXT.read_text())
    print(f"make train took {time.monotonic() - begin:.0f} s: validation loss {loss:.3f} (bar 1.75), "
          f"{100 * known:.0f} % of the sample's words occur in the text (bar 70 %), longest copy {copied} words (bar 19)")
    return loss < 1.75 and known >= 0.7 and copied < 20


def check_second_run():
    before, begin = newest_run(), time.monotonic()
    # a shell's background job ignores SIGINT and so would all that it starts
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    make = subprocess.Popen(["make", "train"], cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=heed)
    while time.monotonic() < begin + 60 and make.poll() is None:
        run = newest_run()
        if run != before and (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_text().count("\n") > 1:
            break
        time.sleep(0.01)
    print(f"run again, it trained after {time.monotonic() - begin:.1f} s")
    os.killpg(make.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
    make.wait(timeout=60)
    saved = sorted(folder.name for folder in (run / "checkpoints").iterdir())
    print(f"after Ctrl-C: make exits {make.returncode}, checkpoints {saved}")
    return make.returncode != 0 and len(saved) == 1


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    good = check_first_run()
    good = check_second_run() and good
    sys.exit(not good)


if __name__ == "__main__":
    main()

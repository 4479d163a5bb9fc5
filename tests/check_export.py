#!/usr/bin/env python3
"""check_export.py: Hugging Face's transformers loads an export and computes what Trireme computes.

Needs torch and transformers; `.ci/run all` installs them and calls it. Trains a tiny GPT-2 on 2 ranks, then compares the
loss of `trireme eval` with transformers' on single windows of the text, so that no error hides in a mean.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import GPT2LMHeadModel

TRIREME = Path(__file__).resolve().parent.parent / "build" / "trireme"
LENGTH = 32
TOLERANCE = 1e-4
CONFIG = {
    "model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 48, "n_head": 3, "n_positions": LENGTH, "vocab_size": 256},
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
}


def trireme(*words):
    return subprocess.run([str(w) for w in (TRIREME, *words)], check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    text = " ".join(f"{n} and {n * n % 97} make {n + n * n % 97}." for n in range(2000)).encode()
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "text.txt").write_bytes(text)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        trireme("train", folder / "config.json", "--data", folder / "text.txt", "--ranks", 2, "--steps", 40, "--out", folder / "run")
        model = GPT2LMHeadModel.from_pretrained(folder / "run" / "export").eval()
        for begin in range(0, len(text) - LENGTH, len(text) // 8):
            window = text[begin : begin + LENGTH + 1]
            (folder / "window.txt").write_bytes(window)
            ours = json.loads(trireme("eval", folder / "run" / "export", "--data", folder / "window.txt", "--json"))["loss"]
            tokens = torch.tensor(list(window))
            with torch.no_grad():
                logits = model(tokens[None, :-1]).logits[0]
            theirs = torch.nn.functional.cross_entropy(logits, tokens[1:]).item()
            worst = max(worst, abs(ours - theirs))
    print(f"largest difference of a window's loss to transformers': {worst:.1e} (tolerance {TOLERANCE:.0e})")
    sys.exit(worst > TOLERANCE)


if __name__ == "__main__":
    main()

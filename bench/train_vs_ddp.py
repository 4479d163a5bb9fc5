#!/usr/bin/env python3
"""Trireme against PyTorch DDP eager (bench/peers/ddp.py): 2 ranks x 1 thread, the same model, on one host.

Runs interleaved pairs (ours, theirs, theirs, ours, ...), takes the ratio within each pair and prints the median with
the range over the pairs, so that a drift of the machine's speed cancels out. Both are watched in the same way, from
outside: both append a line a step to a file.
  tokens/s   median over the steps from 5 on
  start      seconds from the command to the end of the first step
  PSS        MiB a rank after step 5 from /proc/PID/smaps_rollup, the largest rank, in a run of its own that is not timed
  exposed    the part of our step in which a rank only waits for communication, from our summary.json
A verdict compares the range with the bar: `spans` means that it lies on both sides.
Needs a Python with torch 2.13 or 2.14 (--python) and a quiet machine; a run beside a compiler says nothing.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {  # layers, width, heads, positions, micro-batch, steps
    "tiny": (2, 64, 2, 64, 4, 60),
    "2m": (4, 192, 6, 128, 8, 30),
    "10m": (6, 384, 6, 256, 8, 10),
}
BARS = {  # the least ratio of tokens/s, the largest ratios of start and PSS
    "tiny": (1.5, 0.3, 0.5),
    "2m": (1.05, 0.35, 0.6),
    "10m": (1.05, 0.6, 0.85),
}
RANKS = 2


def our_command(size, steps, out, data):
    layers, width, heads, positions, micro_batch, _ = SIZES[size]
    config = {
        "model": {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": positions,
                  "vocab_size": 256},
        "train_batch_size": RANKS * micro_batch,
        "train_micro_batch_size_per_gpu": micro_batch,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
        "gradient_clipping": 1.0,
    }
    file = out.with_suffix(".json")
    file.write_text(json.dumps(config))
    command = [ROOT / "build" / "trireme", "train", file, "--data", data, "--ranks", str(RANKS), "--threads", "1",
               "--steps", str(steps), "--out", out]
    return command, out / "metrics.jsonl"


def their_command(size, steps, out, data, python):
    names = ("layers", "width", "heads", "positions", "micro-batch")
    shape = [word for name, value in zip(names, SIZES[size]) for word in (f"--{name}", str(value))]
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS),
               ROOT / "bench" / "peers" / "ddp.py", "--data", data, "--steps", str(steps), "--out", out, *shape]
    return command, out


def start(command):
    env = dict(os.environ, OMP_NUM_THREADS="1")
    return subprocess.Popen([str(word) for word in command], env=env, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def wait_for_lines(process, file, count, limit=300):
    """Returns when `file` holds `count` lines of steps; fails if the process ends before."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if file.exists() and file.read_text().count('"tokens_per_second"') >= count:
            return
        if process.poll() is not None:
            sys.exit(f"{' '.join(process.args)}\nended with {process.returncode}: {process.stderr.read()[-2000:]}")
        time.sleep(0.005)
    process.kill()
    sys.exit(f"{' '.join(process.args)}: no {count} steps within {limit} s")


def timed_run(command, file):
    """(tokens/s, seconds to the end of the first step)"""
    begin = time.monotonic()
    process = start(command)
    wait_for_lines(process, file, 1)
    first_step = time.monotonic() - begin
    errors = process.communicate()[1]
    if process.returncode:
        sys.exit(f"{' '.join(process.args)}\nended with {process.returncode}: {errors[-2000:]}")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    speeds = [line["tokens_per_second"] for line in lines if line.get("step", 0) >= 5 and "loss" in line]
    return statistics.median(speeds), first_step


def memory_run(command, file):
    """The largest rank's (PSS, peak RSS) in MiB after step 5."""
    process = start(command)
    wait_for_lines(process, file, 6)
    ranks = [pid for pid in descendants(process.pid) if is_rank(pid)]
    if len(ranks) != RANKS:
        sys.exit(f"{len(ranks)} ranks are running, not {RANKS}")
    pss = max(field(pid, "smaps_rollup", "Pss:") for pid in ranks)
    peak = max(field(pid, "status", "VmHWM:") for pid in ranks)
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
    return pss, peak


def descendants(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def is_rank(pid):
    return b"\0RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()


def field(pid, file, name):
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def compare(ours, theirs, bar, more_is_better):
    """Median ratio, its range over the pairs, and on which side of the bar the range lies."""
    ratios = [a / b for a, b in zip(ours, theirs)]
    better = [ratio >= bar if more_is_better else ratio <= bar for ratio in ratios]
    verdict = "holds" if all(better) else "spans" if any(better) else "misses"
    return {"ours": statistics.median(ours), "theirs": statistics.median(theirs), "ratio": statistics.median(ratios),
            "range": [min(ratios), max(ratios)], "bar": bar, "verdict": verdict}


def measure(size, pairs, data, python, folder):
    steps = SIZES[size][-1]
    speeds, starts, exposed = ([], []), ([], []), []
    for pair in range(pairs):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            out = folder / f"{size}-{pair}-{side}"
            command = their_command(size, steps, out, data, python) if side else our_command(size, steps, out, data)
            speed, first_step = timed_run(*command)
            speeds[side].append(speed)
            starts[side].append(first_step)
            if not side:
                exposed.append(json.loads((out / "summary.json").read_text())["exposed_communication_fraction"])
    ours = memory_run(*our_command(size, 10000, folder / f"{size}-memory", data))
    theirs = memory_run(*their_command(size, 10000, folder / f"{size}-memory-peer", data, python))
    speed_bar, start_bar, memory_bar = BARS[size]
    return {
        "tokens/s": compare(*speeds, speed_bar, True),
        "start s": compare(*starts, start_bar, False),
        "PSS MiB": compare([ours[0]], [theirs[0]], memory_bar, False),
        "peak RSS MiB": {"ours": ours[1], "theirs": theirs[1], "ratio": ours[1] / theirs[1]},
        "exposed": statistics.median(exposed),
    }


def print_row(size, name, row):
    spread = "{:.2f}-{:.2f}".format(*row["range"]) if "range" in row else ""
    digits = 2 if row["theirs"] < 100 else 0
    print(f"| {size} | {name} | {row['ours']:.{digits}f} | {row['theirs']:.{digits}f} | {row['ratio']:.2f} | {spread} "
          f"| {row.get('bar', '')} | {row.get('verdict', '')} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "king_james.txt")
    parser.add_argument("--python", default=str(ROOT / ".venv" / "bin" / "python"))
    parser.add_argument("--json", type=Path, help="write all figures there too")
    arguments = parser.parse_args()
    if os.getloadavg()[0] > 0.5:
        print(f"warning: the load average is {os.getloadavg()[0]:.1f}; wait for a quiet machine", file=sys.stderr)

    results = {}
    print("| size | figure | Trireme | DDP | ratio | range | bar | verdict |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.sizes:
            result = measure(size, arguments.pairs, arguments.data, arguments.python, Path(folder))
            exposed = result.pop("exposed")
            for name, row in result.items():
                print_row(size, name, row)
            print(f"| {size} | exposed communication | {100 * exposed:.1f} % | | | | {'10 %' if size == '10m' else ''} | |")
            results[size] = {**result, "exposed_communication_fraction": exposed}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""check_example.py FILE BUILD

Runs the command in an example's top comment and looks for what the comment promises:

    // Run:
    //   build/trireme launch -n 2 -- build/examples/01_all_reduce
    // Prints:
    //   [rank 0] sum 3
    //   ...

The command runs in a folder of its own, where `build` is BUILD and `data/text.txt` is a text of 64 KB. It must exit
with 0, and each line under "Prints:" must be a line of its output, in any order, since ranks write as they come; "..."
in a line stands for anything, a line of "..." alone for further lines. Without one, no other line may appear.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def read_promise(source):
    """(command, promised lines) from the comment."""
    comment = []
    for line in source.splitlines():
        if not line.startswith("//"):
            break
        comment.append(line[2:].rstrip())
    sections, current = {}, None
    for line in comment:
        if heading := re.fullmatch(r" (Run|Prints):", line):
            current = sections.setdefault(heading.group(1), [])
        elif current is not None and line.startswith("   "):
            current.append(line.strip())
        else:
            current = None
    if not sections.get("Run") or not sections.get("Prints"):
        sys.exit("the top comment has no lines under 'Run:' or under 'Prints:'")
    return "\n".join(sections["Run"]), sections["Prints"]


def compare(promised, printed):
    """What is missing and what is too much."""
    left = list(printed)
    missing = []
    for line in promised:
        if line == "...":
            continue
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        found = next((other for other in left if re.fullmatch(pattern, other)), None)
        if found is None:
            missing.append(line)
        else:
            left.remove(found)
    return missing, [] if "..." in promised else left


def main():
    file, build = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    command, promised = read_promise(file.read_text())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "build").symlink_to(build)
        Path(folder, "data").mkdir()
        verse = "In the beginning God created the heaven and the earth. And the earth was without form, and void.\n"
        Path(folder, "data", "text.txt").write_text((verse * 700)[: 1 << 16])
        run = subprocess.run(["bash", "-c", f"set -e -o pipefail\n{command}"], cwd=folder, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    missing, surplus = compare(promised, [line.strip() for line in run.stdout.splitlines() if line.strip()])
    if run.returncode or missing or surplus:
        print(run.stdout)
        print(f"exit {run.returncode}", *(f"missing: {m}" for m in missing), *(f"not promised: {s}" for s in surplus), sep="\n")
        sys.exit(1)
    print(f"{command}\nprints its {len(promised)} lines")


if __name__ == "__main__":
    main()

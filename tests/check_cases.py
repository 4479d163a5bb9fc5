#!/usr/bin/env python3
"""check_cases.py --tsv cases.tsv --build FOLDER --scripts "a;b"  |  check_cases.py --self-test

cases.tsv has one line a case: ID, TAB, tests, TAB, remark. The case's own text is the bug report that its test's
comment sums up. `tests` is `-`, and then the remark says why there is none yet, or one or more of, separated by blanks,
  program:Suite.Test   a GoogleTest; * and ? stand for any characters, as in comm_test:*/Sums.Int8/*
  script:NAME          a test that ctest knows under this name
Its head fixes the number of cases, so that none is lost on the way.

Fails on a wrong number, a doubled or malformed line, a test that is not there, and a test that did not run or was
skipped: the programs' results are read from FOLDER/test_results, where the run of ctest left them.
"""
import argparse
import fnmatch
import json
import re
import sys
import tempfile
from pathlib import Path


def read_cases(text):
    """[(id, [tests], remark)] and all that is wrong with the file."""
    cases, problems, expected = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.fullmatch(r"# cases: (\d+)", line):
            expected = int(match.group(1))
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not re.fullmatch(r"[A-Z]\d+", fields[0]):
            problems.append(f"line {number}: not ID, TAB, tests, TAB, remark: {line!r}")
            continue
        name, tests, remark = fields
        tests = [] if tests == "-" else tests.split(" ")
        if not tests and not remark:
            problems.append(f"{name}: neither a test nor a reason")
        problems += [f"{name}: '{t}' is not program:Suite.Test" for t in tests if not re.fullmatch(r"[\w-]+:\S+", t)]
        if any(name == other for other, _, _ in cases):
            problems.append(f"{name}: stands there twice")
        cases.append((name, tests, remark))
    if expected != len(cases):
        problems.append(f"the head says '# cases: {expected}', there are {len(cases)}")
    return cases, problems


def read_results(build, program):
    """{Suite.Test: ran}, or a sentence that says why there are none."""
    binary = next((p for p in build.rglob(program) if p.is_file()), None)
    if binary is None:
        return f"there is no program {program}"
    file = build / "test_results" / f"{program}.json"
    if not file.exists() or file.stat().st_mtime < binary.stat().st_mtime:
        return f"{program} has not run to its end since it was built"
    return {
        f"{suite['name']}.{test['name']}": test["result"] == "COMPLETED"
        for suite in json.loads(file.read_text())["testsuites"]
        for test in suite["testsuite"]
    }


def check(text, build, scripts):
    """All that is wrong, one line each, and a summary."""
    cases, problems = read_cases(text)
    results = {}
    for name, tests, _ in cases:
        for test in tests:
            program, _, pattern = test.partition(":")
            if program == "script":
                if pattern not in scripts:
                    problems.append(f"{name}: ctest knows no {pattern}")
                continue
            if program not in results:
                results[program] = read_results(build, program)
            if isinstance(results[program], str):
                problems.append(f"{name}: {results[program]}")
                continue
            matches = fnmatch.filter(results[program], pattern)
            if not matches:
                problems.append(f"{name}: {program} has no {pattern}")
            problems += [f"{name}: {m} did not run" for m in matches if not results[program][m]]
    tested = sum(bool(tests) for _, tests, _ in cases)
    return problems, f"{len(cases)} cases: {tested} have tests that ran, {len(cases) - tested} say why not yet"


def self_test():
    """A right file and tree; then one fault at a time, each of which must be found."""
    head = "# cases: 3\n"
    good = ["B1\ta_test:S.One\t", "B2\ta_test:P/S.Two/* script:cli_x\twith a remark", "B3\t-\tpipelines are not built"]
    faults = [
        (head + "\n".join(good[:2]), "the head says '# cases: 3', there are 2"),
        (head + "\n".join([good[0], good[0], good[2]]), "B1: stands there twice"),
        (head + "\n".join([*good[:2], "B3\t-\t"]), "B3: neither a test nor a reason"),
        (head + "\n".join([*good[:2], "B3 - reason"]), "line 4: not ID"),
        (head + "\n".join([*good[:2], "B3\ta_test:S.Gone\t"]), "B3: a_test has no S.Gone"),
        (head + "\n".join([*good[:2], "B3\ta_test:S.Skipped\t"]), "B3: S.Skipped did not run"),
        (head + "\n".join([*good[:2], "B3\tb_test:S.One\t"]), "B3: there is no program b_test"),
        (head + "\n".join([*good[:2], "B3\tstale_test:S.One\t"]), "B3: stale_test has not run"),
        (head + "\n".join([*good[:2], "B3\tscript:cli_y\t"]), "B3: ctest knows no cli_y"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder)
        (build / "test_results").mkdir()
        (build / "a_test").touch()
        (build / "stale_test").touch()
        suites = {
            "S": [("One", "COMPLETED"), ("Skipped", "SKIPPED")],
            "P/S": [("Two/0", "COMPLETED"), ("Two/1", "COMPLETED")],
        }
        report = [{"name": s, "testsuite": [{"name": n, "result": r} for n, r in t]} for s, t in suites.items()]
        (build / "test_results" / "a_test.json").write_text(json.dumps({"testsuites": report}))
        failures = [f"the right file is found wrong: {p}" for p in check(head + "\n".join(good), build, ["cli_x"])[0]]
        for text, expected in faults:
            found = check(text, build, ["cli_x"])[0]
            if not any(expected in line for line in found):
                failures.append(f"nothing says '{expected}': {found}")
    return failures, f"{len(faults)} planted faults found"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--tsv", type=Path)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--scripts", default="")
    arguments = parser.parse_args()
    if arguments.self_test:
        problems, summary = self_test()
    else:
        problems, summary = check(arguments.tsv.read_text(), arguments.build, arguments.scripts.split(";"))
    print("\n".join(problems) if problems else summary)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

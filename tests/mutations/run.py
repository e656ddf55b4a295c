#!/usr/bin/env python3
"""Breaks the engine, the logs, the ring, the journal and what replies wait for on purpose, one way at a time, and expects a named test to notice.

    tests/mutations/run.py [--only NAME] [--list]

Every mutation is a replacement in one file of a copy of the workspace; the working tree is never
touched. A mutation that no longer applies, that does not build, or that its test does not notice,
fails the run. A test is one of the engine, or of the crate before the `/`. Tests named in
`shuttle_orders` run under shuttle, and those with `loom` in their name under loom. The test
`linearizability` checks histories of real processes, until one is wrong: see
tests/linearizability.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT_S = 600
PATHS = [
    "crates/backend",
    "crates/base",
    "crates/control",
    "crates/drivers",
    "crates/effects",
    "crates/engine",
    "crates/memcache",
    "crates/pages",
    "crates/peer",
    "crates/quorum",
    "crates/ring",
    "crates/session",
    "crates/service",
    "crates/tier",
    "crates/volvox",
    "lab/doubles",
    "lab/faulty",
    "lab/load",
    "lab/measure",
    "lab/report",
    "lab/sim",
    "lab/table",
]
# Histories of real processes, and the most of them: what a breakage needs to show depends on when a
# fault comes.
HISTORIES = "linearizability"
HISTORIES_MAX = 20
MANIFEST = ["Cargo.toml", "Cargo.lock"]


def copy_workspace(to):
    """Copies what the tests are built from: some crates and their source of numbers.

    The copies are new files. With the times of their sources they would be older than what an
    earlier run has built from its last mutation, which cargo would then use again.
    """
    for name in MANIFEST:
        shutil.copy(ROOT / name, to / name)
    replace(to / "Cargo.toml", r"(?m)^members = .*$", f"members = {json.dumps(PATHS)}")
    for path in PATHS:
        (to / path).mkdir(parents=True)
        for part in ["Cargo.toml", "src", "tests", "benches"]:
            source = ROOT / path / part
            if source.is_dir():
                shutil.copytree(source, to / path / part, copy_function=shutil.copy)
            elif source.exists():
                shutil.copy(source, to / path / part)
    # The libraries of the benches, which the tests named here do not use.
    needed = "[dev-dependencies]\neffects.workspace = true\nmeasure.workspace = true\n"
    replace(to / "crates/engine/Cargo.toml", r"(?s)\[dev-dependencies\].*?(?=\n\[|\Z)", needed)


def replace(path, pattern, text):
    path.write_text(re.sub(pattern, lambda _: text, path.read_text()))


def parts(test):
    """Its crate, its binary and its name."""
    package, _, path = test.rpartition("/")
    binary, _, name = path.partition("::")
    return package or "engine", binary, name


def command(test, target):
    if test == HISTORIES:
        binary = target / "plain" / "debug" / "volvox"
        run = ROOT / "tests" / "linearizability" / "run.sh"
        return [run, "--volvox", binary, "--first", "--histories", str(HISTORIES_MAX)]
    package, binary, name = parts(test)
    line = ["cargo", "test", "--quiet", "--package", package]
    line += ["--lib"] if binary == "lib" else ["--test", binary]
    return line + ["--", *([name, "--exact"] if name else [])]


def environment(test, target):
    _, binary, _ = parts(test)
    checker = "shuttle" if binary.startswith("shuttle") else "loom" if "loom" in test else None
    env = dict(os.environ, CARGO_TERM_COLOR="never", RUST_BACKTRACE="0")
    env |= {"CARGO_TARGET_DIR": str(target / (checker or "plain"))}
    env |= {"SHUTTLE_SILENCE_WARNINGS": "1"}
    if checker:
        env["RUSTFLAGS"] = f"--cfg {checker}"
    return env


def builder(test, target):
    """What builds the test, and what it tests."""
    if test == HISTORIES:
        return ["cargo", "build", "--quiet", "--package", "volvox", "--no-default-features"]
    line = command(test, target)
    return line[: line.index("--")] + ["--no-run"]


def run(line, test, at, target):
    try:
        env = environment(test, target)
        done = subprocess.run(
            line, cwd=at, env=env, timeout=LIMIT_S, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return None, f"not done after {LIMIT_S} s"
    return done.returncode, done.stdout + done.stderr


def is_noticed(test, status, output):
    """Whether the test has noticed the breakage."""
    if test == HISTORIES:
        return status == 1 and ("VIOLATED" in output or "LOST" in output)
    return status != 0 and ("0 passed; 0 failed" not in output or "panicked" in output)


def last_words(output):
    for wrong in ["VIOLATED", "LOST"]:
        if wrong in output:
            return output[output.index(wrong) :].splitlines()[0][:100]
    lines = [line for line in output.splitlines() if line.strip()]
    after = [i for i, line in enumerate(lines) if "panicked at" in line]
    return lines[after[0] + 1][:100] if after and after[0] + 1 < len(lines) else "it failed"


def places(mutation, at):
    """How often what is to be replaced occurs."""
    return (at / mutation["file"]).read_text().count(mutation["from"])


def check(mutation, at, target):
    """The verdict on one mutation, and a word on it."""
    path = at / mutation["file"]
    text = path.read_text()
    if places(mutation, at) != 1:
        return "STALE", f"{mutation['file']}: {places(mutation, at)} places to replace, not 1"
    path.write_text(text.replace(mutation["from"], mutation["to"]))
    try:
        test = mutation["test"]
        built, output = run(builder(test, target), test, at, target)
        if built != 0:
            return "BROKEN", "it does not build:\n" + output[-2000:]
        status, output = run(command(test, target), test, at, target)
    finally:
        path.write_text(text)
    if status is None:
        return "caught", output
    if not is_noticed(test, status, output):
        return "MISSED", "the test passed" if status == 0 else output[-2000:]
    return "caught", last_words(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", help="run the mutations whose name contains this")
    parser.add_argument("--list", action="store_true", help="print names and tests, run nothing; fails if one has no place")
    parser.add_argument("--target-dir", type=pathlib.Path, default=ROOT / "target" / "mutations",
                        help="where to build (default: target/mutations)")
    options = parser.parse_args()
    target = options.target_dir.resolve()
    mutations = tomllib.loads((HERE / "mutations.toml").read_text())["mutation"]
    mutations = [m for m in mutations if not options.only or options.only in m["name"]]
    if options.list:
        stale = [m["name"] for m in mutations if places(m, ROOT) != 1]
        for mutation in mutations:
            mark = "\tSTALE" if mutation["name"] in stale else ""
            print(f"{mutation['name']}\t{mutation['test']}{mark}")
        return 1 if stale else 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as directory:
        at = pathlib.Path(directory)
        copy_workspace(at)
        print(f"{'mutation':<44} {'verdict':<8} {'s':>4}  test", flush=True)
        for mutation in mutations:
            start = time.monotonic()
            verdict, word = check(mutation, at, target)
            failed += verdict != "caught"
            seconds = time.monotonic() - start
            print(f"{mutation['name']:<44} {verdict:<8} {seconds:4.0f}  {mutation['test']}: {word}",
                  flush=True)
    print(f"{len(mutations) - failed} of {len(mutations)} caught")
    return 1 if failed or not mutations else 0


if __name__ == "__main__":
    sys.exit(main())

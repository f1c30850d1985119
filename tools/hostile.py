#!/usr/bin/env python3
"""Plays the tests that SECURITY.md names, again and again.

    hostile.py [--list] [MINUTES]     at least one round; MINUTES: as many as end in that time, 1 unless said

They run as tools/test.py runs them. Arbitrary input is another one in each round.
"""
import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Unit tests of a crate are run together.
CRATES = ("scheduler::mgb_scheduler", "probe::mgb_probe")


def names():
    """What SECURITY.md's table of tests names, as parts of the names that tools/test.py has."""
    text = (ROOT / "SECURITY.md").read_text()
    table = text.split("\n## Tests\n", 1)[1].split("\n## ", 1)[0]
    cells = [line.strip(" |").rsplit(" | ", 1)[-1] for line in table.splitlines() if line.startswith("| ")]
    for code in sorted({code for cell in cells[1:] for code in re.findall(r"`([^`]+)`", cell)}):
        if code.startswith("make ") or code.endswith(".toml") or "/benches/" in code:
            continue
        if code.endswith(".rs"):
            package, _, file = code.removesuffix(".rs").partition("/tests/")
            yield f"{package}::{file}::"
        else:
            yield code
    yield from CRATES


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("minutes", nargs="?", type=float, default=1)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    began, rounds, longest = time.monotonic(), 0, 0.0
    end = began + 60 * arguments.minutes
    command = [sys.executable, str(ROOT / "tools/test.py"), *(["--list"] if arguments.list else []), *names()]
    while rounds == 0 or time.monotonic() + longest < end:
        round_began = time.monotonic()
        if subprocess.run(command, cwd=ROOT).returncode != 0:
            sys.exit(f"the attacks of round {rounds + 1} did not all fail")
        if arguments.list:
            return
        rounds, longest = rounds + 1, max(longest, time.monotonic() - round_began)
    print(f"{rounds} rounds in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

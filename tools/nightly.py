#!/usr/bin/env python3
"""Runs what `make test` leaves out, one target of make after the other: what takes long, and what needs root.

    nightly.py [--list] [STAGE...]     STAGE: run these alone

Each stage writes a log in build/nightly/. One that fails does not keep the next ones from running; one that cannot run on
this machine is left out, and the table at the end says why. The exit code is 1 if a stage failed.
"""
import argparse
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/nightly"
# A stage that takes longer hangs.
LIMIT_S = 4 * 3600

# What it is called, its targets, what it shows, and what it needs of the machine.
Stage = collections.namedtuple("Stage", "name targets shows needs", defaults=((),))
STAGES = [
    Stage("dependencies", ["deny"], "licences, bans, sources and advisories of the dependencies", ("cargo-deny",)),
    Stage("lowest-rust", ["lowest-rust"], "the lowest Rust that Cargo.toml names", ("rustup",)),
    Stage("llvm-19", ["lit-19"], "the pass for LLVM 19"),
    Stage("levels", ["levels-test"], "the examples at all levels of optimisation"),
    Stage("kills", ["kill-test"], "whoever is killed, in all rounds"),
    Stage("queue", ["queue-test"], "10,000 jobs through a queue whose service is killed"),
    Stage("random", ["random-test"], "10,000 random programs"),
    Stage("api", ["api-test"], "20,000 seeds of calls of the driver's API"),
    Stage("attacks", ["attack-test"], "sources that attack the pass"),
    Stage("mutations", ["mutation-test"], "each proof of the pass switched off is noticed"),
    Stage("fuzz", ["fuzz"], "arbitrary input, 20,000 of each"),
    Stage("hostile", ["hostile"], "hostile clients for an hour"),
    Stage("soak", ["soak"], "10,000 programs, 500 kills"),
    Stage("asan", ["asan"], "the conformance set with AddressSanitizer"),
    Stage("wheel", ["wheel-test"], "the wheel, installed, upgraded and removed"),
    Stage("starters", ["starters-test"], "GNU parallel, Snakemake, Ray"),
    Stage("packages", ["package-test"], "tarball and packages on small Debians and an Ubuntu", ("root",)),
    Stage("containers", ["containers-test"], "containers of podman", ("root",)),
    Stage("systemd", ["systemd-test"], "a real systemd", ("root",)),
    Stage("slurm", ["slurm-test"], "a real Slurm on three nodes", ("root",)),
]
SETTINGS = {"MGB_HOSTILE_MINUTES": "60"}


def lack(needs):
    """What of it this machine lacks, or nothing."""
    for need in needs:
        if need == "root":
            if os.geteuid() != 0:
                return "it needs root"
        elif need == "cargo-deny":
            # Cargo finds it in a folder of its own as well.
            if subprocess.run(["cargo", "deny", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
                return "there is no cargo-deny (cargo install --locked cargo-deny)"
        elif shutil.which(need) is None:
            return f"there is no {need}"
    return None


def play(stage):
    """Runs a stage; how it ended, after how many seconds, and what it has left out by its own word."""
    log = LOGS / f"{stage.name}.log"
    print(f"nightly: {stage.name}: {stage.shows} ({log.relative_to(ROOT)})", flush=True)
    began = time.monotonic()
    with log.open("w") as output:
        make = subprocess.Popen(["make", *stage.targets], cwd=ROOT, env=SETTINGS | os.environ, stdin=subprocess.DEVNULL,
                                stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = make.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # Whatever it has started ends with it, also where ctrl-c ends this.
            if make.poll() is None:
                os.killpg(make.pid, signal.SIGKILL)
                make.wait()
    seconds = time.monotonic() - began
    lines = log.read_text(errors="replace").splitlines()
    if code != 0:
        print("\n".join(lines[-20:]), flush=True)
    ended = "passed" if code == 0 else "FAILED" if code is not None else f"FAILED: stopped after {LIMIT_S} s"
    return ended, seconds, [line.strip() for line in lines if "left out" in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="run these alone")
    parser.add_argument("--list", action="store_true", help="print the stages")
    arguments = parser.parse_args()
    if arguments.list:
        for stage in STAGES:
            print(f"{stage.name:13} {' '.join(stage.targets):16} {stage.shows}")
        return 0
    unknown = set(arguments.stages) - {stage.name for stage in STAGES}
    if unknown:
        parser.error(f"no stage {', '.join(sorted(unknown))}: --list prints them")
    LOGS.mkdir(parents=True, exist_ok=True)
    results = []
    for stage in STAGES:
        if arguments.stages and stage.name not in arguments.stages:
            continue
        missing = lack(stage.needs)
        results.append((stage.name, *((f"left out: {missing}", 0.0, []) if missing else play(stage))))
    for name, ended, seconds, parts in results:
        print(f"{name:13} {seconds:7.0f} s  {ended}")
        for part in parts:
            print(f"{'':25}{part}")
    failed = [name for name, ended, *_ in results if ended.startswith("FAILED")]
    out = [name for name, ended, *_ in results if ended.startswith("left out")]
    print(f"nightly: {len(results) - len(failed) - len(out)} passed, {len(failed)} failed, {len(out)} left out")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

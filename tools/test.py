#!/usr/bin/env python3
"""Runs every test of the workspace, several at a time.

    test.py [--quick] [--list] [--jobs N] [FILTER...]     FILTER: a part of PACKAGE::BINARY::TEST

`cargo test` runs one test binary after the other, so that each one's longest test keeps the rest waiting. Here each
integration test is a process of its own, as are the unit tests of a crate together, and those of all binaries run
side by side: the long ones first, then the short ones, at last one by one those that measure times. tests/plan.toml
says which these are. docs/TESTS.md says why this is no cargo-nextest.

The last line is `N passed, N failed`; the exit code is 1 if any failed.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A test that takes longer hangs: whatever a test waits for, it gives up after ten minutes at most.
LIMIT_S = 1200


class Job:
    """One process to run: a test, or all of a binary."""

    def __init__(self, name, binary, arguments, folder):
        self.name = name
        self.command = [binary, *arguments]
        self.folder = folder
        self.seconds = 0.0
        self.cpu = 0.0
        self.failed = False
        self.output = ""
        self.counts = (0, 0, 0)

    def run(self, environment):
        began = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=dict(environment, CARGO_MANIFEST_DIR=str(self.folder)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            timer = threading.Timer(LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            timer.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            self.output = output.read().decode(errors="replace")
        self.seconds = time.monotonic() - began
        self.cpu = usage.ru_utime + usage.ru_stime
        found = re.findall(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored", self.output, re.M)
        self.counts = tuple(map(int, found[-1])) if found else (0, 0, 0)
        self.failed = process.returncode != 0
        if self.failed and self.counts[1] == 0:
            # It crashed, or was killed for its time.
            self.output += f"\n{self.name}: exit code {process.returncode} after {self.seconds:.0f} s\n"
            self.counts = (self.counts[0], 1, self.counts[2])
        return self


def binaries():
    """Builds the tests; each binary's name, whether it is an integration test, its path and its package's folder."""
    command = [os.environ.get("CARGO", "cargo"), "test", "--release", "--workspace", "--locked", "--no-run"]
    command += ["--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(built.returncode)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = Path(message["manifest_path"]).parent
            target = message["target"]
            name = f"{folder.relative_to(ROOT)}::{target['name']}"
            yield name, "test" in target["kind"], message["executable"], folder


def jobs_of(name, is_integration, binary, folder, environment):
    """The processes that a binary's tests are run in."""
    listed = subprocess.run(
        [binary, "--list", "--format", "terse"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    tests = [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]
    if is_integration:
        return [Job(f"{name}::{test}", binary, ["--exact", test, "--show-output"], folder) for test in tests]
    return [Job(name, binary, [], folder)] if tests else []


class Plan:
    """tests/plan.toml: beginnings of names."""

    def __init__(self, file):
        plan = tomllib.loads(file.read_text())
        self.long, self.alone = plan["long"], plan["alone"]

    def rank(self, name):
        """Where a name stands among the long ones; behind them if it is none."""
        for at, beginning in enumerate(self.long):
            if name.startswith(beginning):
                return at
        return len(self.long)

    def is_long(self, name):
        return self.rank(name) < len(self.long)

    def is_alone(self, name):
        return any(name.startswith(beginning) for beginning in self.alone)

    def check(self, names):
        """Ends everything where the plan names what is not there."""
        for beginning in self.long + self.alone:
            if not any(name.startswith(beginning) for name in names):
                sys.exit(f"the plan names {beginning}, and no test's name begins so")


class Report:
    """What is printed as jobs end."""

    def __init__(self):
        self.lock = threading.Lock()
        self.done = []

    def add(self, job):
        with self.lock:
            self.done.append(job)
            word = "FAILED" if job.failed else "ok"
            print(f"{word:6} {job.seconds:7.1f} s  cpu {job.cpu:6.1f} s  {job.name}", flush=True)
            for why in re.findall(r"^(?:left out|skipped): .*", job.output, re.M):
                print(f"       {why}", flush=True)
            if job.failed:
                print(f"-- output of {job.name}\n{job.output}-- end of output of {job.name}", flush=True)

    def close(self, seconds):
        passed, failed, ignored = (sum(job.counts[at] for job in self.done) for at in range(3))
        cpu = sum(job.cpu for job in self.done)
        for job in self.done:
            if job.failed:
                print(f"failed: {job.name}")
        print(f"tests took {seconds:.0f} s, {cpu:.0f} s of CPU time; {ignored} ignored")
        print(f"{passed} passed, {failed} failed")
        return failed == 0 and passed > 0


def run_all(jobs, workers, environment, report):
    """Runs jobs in their order, as many at a time as there are workers."""
    left = iter(jobs)
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                job = next(left, None)
            if job is None:
                return
            report.add(job.run(environment))

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave the long ones out, and those that measure times")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="processes at a time")
    parser.add_argument("--plan", type=Path, default=ROOT / "tests/plan.toml", help="which tests are long, which alone")
    parser.add_argument("filter", nargs="*", help="run only tests whose names have one of these in them")
    options = parser.parse_args()
    environment = dict(os.environ)
    plan = Plan(options.plan)
    jobs = [job for binary in binaries() for job in jobs_of(*binary, environment)]
    plan.check([job.name for job in jobs])
    if options.quick:
        jobs = [job for job in jobs if not plan.is_long(job.name) and not plan.is_alone(job.name)]
    if options.filter:
        jobs = [job for job in jobs if any(part in job.name for part in options.filter)]
    if options.list:
        print("\n".join(job.name for job in jobs))
        return
    began = time.monotonic()
    report = Report()
    beside = sorted((job for job in jobs if not plan.is_alone(job.name)), key=lambda job: plan.rank(job.name))
    run_all(beside, options.jobs, environment, report)
    run_all([job for job in jobs if plan.is_alone(job.name)], 1, environment, report)
    if not report.close(time.monotonic() - began):
        sys.exit(1)


if __name__ == "__main__":
    main()

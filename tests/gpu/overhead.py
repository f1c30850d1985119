#!/usr/bin/env python3
"""What MGB costs: calls and whole processes, plain and with MGB in turn on the same machine, under the same MPS. A figure is
the median of the runs with MGB over the median of the plain ones."""

import json
import statistics
import subprocess
import time

from trial import Trial

# What is measured, and the ratio it must not exceed.
CALLS = {"launches": 1.05, "alternate": 1.05, "pairs": 1.02, "large": 1.02, "small": 1.02, "used-pairs": None,
         "pageable-to-device": 1.01, "pageable-to-host": 1.01, "pinned-to-device": 1.01, "pinned-to-host": 1.01}
WHOLE = 1.02
# Jobs of some seconds as the evaluation has them, each alone on its GPU: the size and further arguments.
JOBS = {"backprop": ["512MiB"], "diffusion_region": ["512MiB"], "wavelet": ["1GiB"], "boxes": ["512MiB"],
        "search": ["256MiB"], "nn_train": ["256MiB"], "busy": ["256MiB", "--steps", "500"]}
JOB = 1.01


def main():
    trial = Trial("overhead", __doc__, lambda parser: (
        parser.add_argument("--runs", type=int, default=7, help="runs of each (default 7)"),
        parser.add_argument("--many", type=int, nargs="*", default=[48, 64], help="processes started at once"),
        parser.add_argument("--only", nargs="*", help="measurements to do (default: all)")))
    arguments = trial.arguments
    trial.mgbd()
    # The first client starts MPS's server.
    trial.run([trial.prefix / "benches/mgb/overhead", "pairs"])
    pipe = trial.status().get("mps_pipe")
    shared = trial.environment(**({"CUDA_MPS_PIPE_DIRECTORY": pipe} if pipe else {}))
    environments = {"plain": shared, "mgb": trial.environment()}
    ways = {way: (trial.prefix / f"benches/{way}/overhead", shared) for way, shared in environments.items()}
    wanted = lambda what: not arguments.only or what in arguments.only
    calls(trial, ways, [call for call in CALLS if wanted(call)])
    if wanted("whole"):
        alone = {**ways, "plain without MPS": (ways["plain"][0], trial.environment())}
        whole(trial, alone, "whole process", ["whole"], WHOLE)
    for job in (job for job in JOBS if wanted(job)):
        programs = {way: (trial.prefix / f"benches/{way}" / job, shared) for way, shared in environments.items()}
        whole(trial, programs, f"{job} alone", JOBS[job], JOB)
    for count in arguments.many:
        many(trial, ways, count)
    trial.finish()


def calls(trial, ways, wanted):
    seen = {way: {call: [] for call in wanted} for way in ways}
    for turn in range(trial.arguments.runs):
        # The order changes, so that neither way always comes first.
        for way in sorted(ways, reverse=turn % 2 == 1):
            program, environment = ways[way]
            done = trial.run([program, *wanted], environment)
            if done["code"] != 0:
                trial.check(f"overhead runs ({way})", False, done)
                return
            for line in done["stdout"].splitlines():
                call, nanoseconds = line.split()
                seen[way][call].append(int(nanoseconds))
    trial.result["calls_ns"] = seen
    for call in wanted:
        judge(trial, call, {way: seen[way][call] for way in ways}, CALLS[call], 1e6, "ms")


def whole(trial, ways, what, words, bar):
    """A program from its start to its end."""
    seen = {way: [] for way in ways}
    # The first turn only brings programs and driver into memory.
    for turn in range(trial.arguments.runs + 1):
        for way in sorted(ways, reverse=turn % 2 == 1):
            program, environment = ways[way]
            done = trial.run([program, *words], environment)
            if done["code"] != 0:
                trial.check(f"{what} ({way})", False, done)
                return
            if turn > 0:
                seen[way].append(done["seconds"] * 1e9)
    trial.result.setdefault("whole_ns", {})[what] = seen
    judge(trial, what, seen, bar, 1e6, "ms")


def judge(trial, what, seen, bar, scale, unit):
    medians = {way: statistics.median(values) for way, values in seen.items()}
    ratio = medians["mgb"] / medians["plain"]
    figure = {"ratio": round(ratio, 4), "bar": bar, "unit": unit,
              **{way: round(value / scale, 3) for way, value in medians.items()},
              "spread": {way: [round(min(v) / scale, 3), round(max(v) / scale, 3)] for way, v in seen.items()}}
    trial.check(what, bar is None or ratio <= bar, json.dumps(figure))


def many(trial, ways, count):
    """Processes that all start at once: how long until all are through, and how many fail."""
    for way, (program, environment) in ways.items():
        start = time.monotonic()
        processes = [trial.spawn([program, "whole"], environment) for _ in range(count)]
        ends, failed = [], []
        for process in processes:
            try:
                _, errors = process.communicate(timeout=trial.left())
            except subprocess.TimeoutExpired:
                process.kill()
                _, errors = process.communicate()
                errors += "\nstopped by the trial"
            trial.running.remove(process)
            ends.append(time.monotonic() - start)
            if process.returncode != 0:
                failed.append(errors.strip().splitlines()[-1:] or [f"exit code {process.returncode}"])
        figure = {"seconds": round(max(ends), 2), "failed": len(failed), "of": count, "errors": failed[:3]}
        # Plain programs fail beyond MPS's 48 clients: that is stated, not judged.
        trial.check(f"{count} processes at once, {way}", way == "plain" or not failed, figure)


main()

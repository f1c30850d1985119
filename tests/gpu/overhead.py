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


def main():
    trial = Trial("overhead", __doc__, lambda parser: (
        parser.add_argument("--runs", type=int, default=7, help="runs of each (default 7)"),
        parser.add_argument("--many", type=int, nargs="*", default=[48, 64], help="processes started at once"),
        parser.add_argument("--only", nargs="*", help="measurements to do (default: all)")))
    arguments = trial.arguments
    trial.mgbd()
    plain = trial.prefix / "benches/plain/overhead"
    mgb = trial.prefix / "benches/mgb/overhead"
    # The first client starts MPS's server.
    trial.run([mgb, "pairs"])
    pipe = trial.status().get("mps_pipe")
    shared = trial.environment(**({"CUDA_MPS_PIPE_DIRECTORY": pipe} if pipe else {}))
    ways = {"plain": (plain, shared), "mgb": (mgb, trial.environment())}
    calls(trial, ways, [call for call in CALLS if not arguments.only or call in arguments.only])
    if not arguments.only or "whole" in arguments.only:
        whole(trial, {**ways, "plain without MPS": (plain, trial.environment())})
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


def whole(trial, ways):
    seen = {way: [] for way in ways}
    for turn in range(trial.arguments.runs):
        for way in sorted(ways, reverse=turn % 2 == 1):
            program, environment = ways[way]
            done = trial.run([program, "whole"], environment)
            if done["code"] != 0:
                trial.check(f"whole process ({way})", False, done)
            seen[way].append(done["seconds"] * 1e9)
    trial.result["whole_ns"] = seen
    judge(trial, "whole process", seen, WHOLE, 1e6, "ms")


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

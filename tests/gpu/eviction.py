#!/usr/bin/env python3
"""Idle memory makes room: how long 16 GiB take to the host and back under MPS, and a batch of jobs that hold memory through
long pauses, with and without it. All results must be right."""

import json
import re
import statistics
import time

from trial import GIB, Nvml, Trial

# MiB, rounds, milliseconds of a pause, steps and blocks of a kernel: idle for some 70 % of its time.
JOB = [10240, 3, 2800, 6000, 264]


def speed(trial):
    """One program makes room for another in its pauses: what mgbd saw of it, and how much longer its next kernel took."""
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    environment = trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0")
    pauses = trial.example("pauses")
    times, evicted = [], []
    for _ in range(trial.arguments.runs):
        holds = trial.spawn([pauses, 16384, 2, 4500, 10, 264], environment)
        time.sleep(1.0)
        other = trial.run([pauses, 16384, 1, 1, 10, 264], environment)
        output, errors = holds.communicate(timeout=trial.left())
        trial.running.remove(holds)
        right = holds.returncode == 0 and "PASS" in output and other["code"] == 0
        trial.check("16 GiB leave and come back: both results are right", right, None if right else [errors, other])
        rounds = [float(seconds) for seconds in re.findall(r"round \d+: ([\d.]+) s", errors)]
        times.append(rounds[0] - rounds[-1])
    trial.stop_mgbd()
    log = "".join(path.read_text() for path in trial.folder.glob("mgbd-*.log"))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log)
    evicted = [int(ms) / 1000 for ms in re.findall(r"evicted .*took_ms=(\d+)", plain)]
    trial.check("16 GiB to the host, seconds", bool(evicted) and statistics.median(evicted) <= 1.0,
                {"bar": 1.0, "median": statistics.median(evicted) if evicted else None, "all": evicted})
    trial.check("16 GiB back, seconds", statistics.median(times) <= 0.5,
                {"bar": 0.5, "median": round(statistics.median(times), 3), "all": [round(each, 3) for each in times]})


def batch(trial, gpus):
    """Jobs of which one fits on a GPU."""
    jobs = trial.folder / "jobs.txt"
    line = " ".join(str(word) for word in [trial.example("pauses"), *JOB])
    jobs.write_text(f"{line}\n" * trial.arguments.jobs * gpus)
    seconds = {}
    for name, options in (("evicting", []), ("--no-swap", ["--no-swap"])):
        trial.mgbd(options=options)
        ended = trial.run([trial.prefix / "bin/mgb", "batch", "--json", "-j", trial.arguments.jobs * gpus, jobs],
                          trial.environment(MGB="require"))
        counts = trial.status()["counts"]
        trial.stop_mgbd()
        report = json.loads(ended["stdout"] or "{}")
        failed = [job for job in report.get("jobs", []) if job["exit_code"] != 0]
        trial.check(f"{name}: every job is right", report and not failed, failed[:2] or ended["stderr"][-500:] if failed else None)
        seconds[name] = round(report.get("makespan_s", 0), 1)
        trial.result[name] = {"seconds": seconds[name], "counts": counts}
        trial.check(f"{name}: evictions", (counts["evicted"] > 0) == (name == "evicting"),
                    {what: counts[what] for what in ("evicted", "evicted_bytes", "evictions_failed", "swapped_out")})
    gain = seconds["--no-swap"] / max(seconds["evicting"], 0.1)
    trial.check("makespan without over with it", gain >= 1.8, {"bar": 1.8, "gain": round(gain, 2), "seconds": seconds})


def main():
    trial = Trial("eviction", __doc__, lambda parser: (
        parser.add_argument("--runs", type=int, default=3, help="measurements of the speed (default 3)"),
        parser.add_argument("--jobs", type=int, default=6, help="jobs a GPU in the batch (default 6)"),
        parser.add_argument("--room", type=float, default=20.0, help="GiB of each GPU (default 20)")))
    gpus = len(Nvml().gpus)
    for gpu in range(gpus):
        trial.ballast(trial.arguments.room * GIB, gpu=gpu)
    if trial.arguments.runs > 0:
        speed(trial)
    if trial.arguments.jobs > 0:
        batch(trial, gpus)
    trial.finish()


main()

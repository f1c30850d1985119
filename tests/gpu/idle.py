#!/usr/bin/env python3
"""Twelve PyTorch training jobs of 8 GiB that are idle by turns, on one GPU with room for one of them beside the contexts of all: all end, with the losses that
they have when there is room for all. Then one of them is suspended and resumed while it runs."""

import importlib.util
import pathlib
import subprocess
import sys
import time

from trial import GIB, Nvml, Trial, kill_group

JOB = pathlib.Path(__file__).resolve().parent / "frameworks/job.py"


def command(trial, seed, steps, pause):
    return [sys.executable, JOB, "train", trial.arguments.gib, steps, seed, pause]


def together(trial, commands, environment):
    """Runs programs at once: the last line that each prints, and what went wrong."""
    processes = [trial.spawn(words, environment) for words in commands]
    lines, wrong = [], []
    for process in processes:
        try:
            output, errors = process.communicate(timeout=trial.left())
        except subprocess.TimeoutExpired:
            kill_group(process)
            output, errors = process.communicate()
            errors += "did not end in time"
        trial.running.remove(process)
        lines.append(output.strip().splitlines()[-1] if output.strip() else None)
        if process.returncode != 0:
            wrong.append(errors[-500:])
    return lines, wrong


def held(trial, pid):
    return sum(task["reserved_bytes"] for task in trial.status()["tasks"] if task["pid"] == pid)


def suspended(trial, environment, reference):
    """One job leaves the GPU in the middle of its work, and goes on."""
    process = trial.spawn(command(trial, 0, trial.arguments.steps, 0.5), environment)
    until = time.monotonic() + 60
    while held(trial, process.pid) < trial.arguments.gib * GIB / 2 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.0)
    left = trial.run([trial.prefix / "bin/mgb", "suspend", process.pid], timeout=60)
    remains = held(trial, process.pid)
    time.sleep(1.0)
    back = trial.run([trial.prefix / "bin/mgb", "resume", process.pid], timeout=60)
    output, errors = process.communicate(timeout=trial.left())
    trial.running.remove(process)
    line = output.strip().splitlines()[-1] if output.strip() else errors[-500:]
    trial.check("a running job is suspended and resumed: nothing stays, and its loss is the same",
                left["code"] == 0 and back["code"] == 0 and remains == 0 and line == reference,
                {"suspend": left["stdout"] + left["stderr"], "seconds": round(left["seconds"], 2), "loss": line})


def main():
    trial = Trial("idle", __doc__, lambda parser: (
        parser.add_argument("--jobs", type=int, default=12, help="jobs (default 12)"),
        parser.add_argument("--gib", type=float, default=7.0, help="GiB of each model's training state (default 7: 8 with the rest)"),
        parser.add_argument("--steps", type=int, default=12, help="steps of each (default 12)"),
        parser.add_argument("--pause", type=float, default=4.0, help="seconds of a pause after every fourth step (default 4)"),
        parser.add_argument("--room", type=float, default=16.0, help="GiB of the GPU (default 16)"),
        parser.add_argument("--waiting", action="store_true", help="also without evictions, and what they gain")))
    if importlib.util.find_spec("torch") is None:
        trial.check("PyTorch: not on this machine, left out", True)
        trial.finish()
    asked = trial.arguments
    visible = {"CUDA_VISIBLE_DEVICES": asked.gpu or "0"}
    at_once = max(1, int(Nvml().free(int(asked.gpu or 0)) / GIB / (asked.gib + 2)))
    jobs = [command(trial, seed, asked.steps, asked.pause) for seed in range(asked.jobs)]
    alone = trial.environment(**visible, CUBLAS_WORKSPACE_CONFIG=":4096:8")
    reference, began = [], time.monotonic()
    for first in range(0, asked.jobs, at_once):
        group = [[*words[:-1], 0] for words in jobs[first:first + at_once]]
        lines, wrong = together(trial, group, alone)
        reference += lines
        trial.check(f"natively, {len(group)} with room for all: they end", not wrong, wrong[:1] or None)
    natively = time.monotonic() - began
    trial.ballast(asked.room * GIB, gpu=0)
    trial.mgbd(**visible)
    environment = trial.front(**visible, CUBLAS_WORKSPACE_CONFIG=":4096:8")
    began = time.monotonic()
    lines, wrong = together(trial, jobs, environment)
    seconds, counts = time.monotonic() - began, trial.status()["counts"]
    trial.check(f"{asked.jobs} jobs of {asked.gib + 1:g} GiB on {asked.room:g} GiB: all end", not wrong, wrong[:1] or None)
    trial.check("with the same losses", lines == reference,
                {"seconds": round(seconds, 1), "natively without pauses": round(natively, 1), "evicted": counts["evicted"],
                 "GiB evicted": round(counts["evicted_bytes"] / GIB, 1), "swapped out": counts["swapped_out"],
                 "different": [(a, b) for a, b in zip(lines, reference) if a != b][:2]})
    trial.check("memory was evicted", counts["evicted"] > 0, {"failed": counts["evictions_failed"]})
    suspended(trial, environment, reference[0])
    trial.stop_mgbd()
    if asked.waiting:
        trial.mgbd(options=["--no-swap"], **visible)
        began = time.monotonic()
        lines, wrong = together(trial, jobs, environment)
        waiting = time.monotonic() - began
        trial.check("without evictions: all end, with the same losses", lines == reference, wrong[:1] or None)
        trial.check("time without evictions over that with them", waiting / seconds >= 2.2,
                    {"bar": 2.2, "gain": round(waiting / seconds, 2), "seconds": [round(waiting, 1), round(seconds, 1)]})
        trial.stop_mgbd()
    trial.finish()


main()

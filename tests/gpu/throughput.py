#!/usr/bin/env python3
"""A first throughput trial: 16 jobs with real host phases of a few seconds each, memory held all along, under `sa` (one
process a GPU, plain binaries) and `mgb`. Prints the ratio of the makespans and where the time went."""

import json

from batches import run_batch
from trial import Trial


def job(index):
    """The four kinds of job in turn: MiB, rounds, host ms, compute, kernel steps, blocks."""
    return [["phases", 4096, 6, 600, "compute", 8, 64],
            ["phases", 2048, 8, 400, "compute", 20, 64],
            ["phases", 1024, 10, 350, "compute", 30, 48],
            ["phases", 6144, 4, 900, "compute", 6, 96]][index % 4]


def host_seconds(job):
    return job[2] * job[3] / 1000


def main():
    trial = Trial("throughput", __doc__, lambda parser: (
        parser.add_argument("--jobs", type=int, default=16),
        parser.add_argument("--gpus", type=int, default=2),
        parser.add_argument("--workers", type=int, help="jobs at once under mgb (default: mgb batch's own)")))
    jobs = [job(index) for index in range(trial.arguments.jobs)]
    summaries = {}
    for policy in ("sa", "mgb"):
        trace = trial.folder / f"trace-{policy}"
        workers = trial.arguments.workers if policy == "mgb" else None
        summary = run_batch(trial, policy, jobs, trial.arguments.gpus, workers, trace)
        summary["host_phase_seconds_asked_for"] = sum(host_seconds(j) for j in jobs)
        if trace.exists():
            tasks = [task for line in trace.read_text().splitlines() for task in json.loads(line)["tasks"]]
            summary["task_seconds"] = {"waited": round(sum(t["wait_ns"] for t in tasks) / 1e9, 2),
                                       "ran": round(sum(t["run_ns"] for t in tasks) / 1e9, 2)}
        summaries[policy] = summary
        trial.check(f"{policy}: every job right", summary["exit_code"] == 0, summary)
    trial.result["summaries"] = summaries
    makespans = {p: s.get("makespan_s", s["seconds_by_this_clock"]) for p, s in summaries.items()}
    trial.check("sa / mgb", True, {"makespans": makespans, "ratio": round(makespans["sa"] / makespans["mgb"], 2)})
    trial.finish()


main()

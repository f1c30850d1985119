#!/usr/bin/env python3
"""The demo's kind of list on real GPUs with memory made short by a ballast: 16 jobs under `sa`, `cg:4` and `mgb`. `cg`
must run out of memory, `mgb` must not, and every result must be right."""

from batches import run_batch
from trial import GIB, Trial

# Together they need more than four times any quarter of the room: four at once on a GPU do not always fit.
JOBS = [
    ["phases", 6144, 4, 300, "compute", 8, 64], ["phases", 1024, 6, 250, "compute", 20, 64],
    ["phases", 4096, 5, 300, "compute", 10, 64], ["vecadd", 200000000],
    ["phases", 5120, 4, 350, "compute", 8, 96], ["stencil", 100000000, 50],
    ["phases", 2048, 6, 250, "compute", 16, 48], ["chain", 200000000],
    ["phases", 6144, 4, 300, "compute", 8, 64], ["reduce", 300000000, 50],
    ["phases", 3072, 5, 300, "compute", 12, 64], ["init_run", 150000000, 40],
    ["phases", 4096, 4, 350, "compute", 10, 64], ["grow", "1GiB", "3GiB"],
    ["twotasks", 150000000, 80000000], ["unwinding", 100000000, 1],
]


def main():
    trial = Trial("demo", __doc__, lambda parser: (
        parser.add_argument("--gpus", type=int, default=1),
        parser.add_argument("--room", type=float, default=16.0, help="GiB that the ballast leaves free a GPU")))
    gpus = trial.arguments.gpus
    trial.name = f"demo-{gpus}gpu"
    for gpu in range(gpus):
        trial.ballast(trial.arguments.room * GIB, gpu)
    table = {}
    for policy in ("sa", "cg:4", "mgb"):
        table[policy] = run_batch(trial, policy, JOBS, gpus)
    trial.result["table"] = table
    print(f"{'policy':8} {'makespan':>9} {'over sa':>8} {'turnaround':>11} {'out of memory':>14} {'failed':>7}")
    for policy, summary in table.items():
        if "error" in summary:
            trial.check(f"{policy}: batch ran", False, summary["error"])
            continue
        ratio = table["sa"].get("makespan_s", 0) / summary["makespan_s"]
        print(f"{policy:8} {summary['makespan_s']:8.1f}s {ratio:7.2f}x {summary['mean_turnaround_s']:10.1f}s "
              f"{summary['failed_for_memory']:14} {summary['failed']:7}")
        if policy == "cg:4":
            trial.check("cg:4: memory runs out, nothing else fails",
                        summary["failed"] == summary["failed_for_memory"] > 0, summary["failed_for_memory"])
        else:
            trial.check(f"{policy}: every job right", summary["failed"] == 0, [
                job for job in summary["jobs"] if job["state"] != "done"])
    trial.finish()


main()

#!/usr/bin/env python3
"""`mgb demo` on real GPUs, with memory made short by a ballast: the same jobs under `sa`, `cg:4` and `mgb`. `cg:4` must
run out of memory, `sa` and `mgb` must not, and every result must be right."""

import json

from trial import Trial


def main():
    trial = Trial("demo", __doc__, lambda parser: (
        parser.add_argument("--gpus", type=int, default=1),
        parser.add_argument("--leave", default="16GiB", help="what the ballast leaves free on every GPU")))
    gpus = trial.arguments.gpus
    trial.name = f"demo-{gpus}"
    visible = ",".join(str(gpu) for gpu in range(gpus))
    trial.arguments.out.mkdir(parents=True, exist_ok=True)
    page = trial.arguments.out.resolve() / f"{trial.name}.html"
    command = [trial.prefix / "bin/mgb", "demo", "--json", "--leave", trial.arguments.leave, "--page", page]
    ended = trial.run(command, trial.environment(CUDA_VISIBLE_DEVICES=visible))
    try:
        demo = json.loads(ended["stdout"])
    except ValueError:
        trial.check("the demo ran", False, {"code": ended["code"], "errors": ended["stderr"][-4000:]})
        trial.finish()
    trial.result["demo"] = demo
    print(f"{'policy':8} {'makespan':>9} {'over sa':>8} {'turnaround':>11} {'out of memory':>14} {'failed':>7}")
    for row in demo["policies"]:
        print(f"{row['policy']:8} {row['makespan_s']:8.1f}s {row['speed_up'] or 0:7.2f}x "
              f"{row['mean_turnaround_s']:10.1f}s {row['failed_for_memory']:14} {row['failed']:7}")
        wrong = [job for job in row["jobs"] if job["state"] != "done"]
        if row["policy"].startswith("cg:"):
            trial.check(f"{row['policy']}: memory runs out, nothing else fails",
                        row["failed"] == row["failed_for_memory"] > 0, row["failed_for_memory"])
        else:
            trial.check(f"{row['policy']}: every job right", not wrong, wrong)
        tasks = [task for job in row["jobs"] for task in job["tasks"]]
        trial.check(f"{row['policy']}: when each job's tasks ran is known",
                    all(job["tasks"] for job in row["jobs"] if job["state"] == "done")
                    and all(0 <= task["from_s"] <= task["to_s"] <= row["makespan_s"] + 0.01 for task in tasks),
                    len(tasks))
        peak = max((used for sample in row["samples"] for used in sample["used_bytes"]), default=0)
        trial.check(f"{row['policy']}: the memory was seen in use, under the capacity",
                    0 < peak <= demo["capacity_bytes"] + (2 << 30), peak)
    bars = page.read_text().count('class="bar') if page.exists() else 0
    drawn = sum(len(job["tasks"]) for row in demo["policies"] for job in row["jobs"])
    trial.check("the page has a bar for each task", bars == drawn > 0, {"bars": bars, "tasks": drawn})
    trial.check("GPUs in use", all(row["gpus"] == gpus for row in demo["policies"]), gpus)
    trial.check("exit code", ended["code"] == 0, ended["stderr"][-2000:])
    trial.finish()


main()

#!/usr/bin/env python3
"""Inference in PyTorch with requests that come at random times, beside training in PyTorch, on one GPU: alone, under plain MPS,
and under MGB with `--latency`, also where training wants more memory than there is. The milliseconds from a request's arrival
until its answer is on the host (p50, p99, worst), what training gets done, and that answers and losses stay the same."""

import importlib.util
import json
import pathlib
import subprocess
import sys

from trial import GIB, Trial

FRAMEWORKS = pathlib.Path(__file__).resolve().parent / "frameworks"
SERVED = ["infer-resnet", "infer-bert"]
TRAINED = ["train-resnet", "train-gpt", "train-mlp"]
LOAD = 0.3
# The training jobs of the scarce case: GiB, steps, and the pause after every fourth step.
SCARCE = ["train", 6, 60, 1.5]
# What their host phases may use: it is the GPU that is shared, and inference in PyTorch is bound by its own thread.
SCARCE_THREADS = 2


def begin(trial, words, environment):
    process = trial.spawn([sys.executable, FRAMEWORKS / "beside.py", *words], environment, stdin=subprocess.PIPE)
    return process


def ready(trial, process):
    if "ready" not in process.stdout.readline():
        sys.exit(f"{trial.name}: a program did not begin: {process.communicate()[1][-2000:]}")


def results(trial, processes):
    """Lets programs begin at one moment, and gives what they print."""
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    found = []
    for process in processes:
        output, errors = process.communicate(timeout=trial.left())
        trial.running.remove(process)
        if process.returncode != 0:
            sys.exit(f"{trial.name}: a program failed: {errors[-2000:]}")
        found.append(json.loads(output.splitlines()[-1]))
    return found


def beside_jobs(trial, kind, room, words, latency, batch):
    """What a latency program measures beside three training jobs that pause; where memory is scarce they are evicted."""
    trace = trial.folder / f"trace-{kind}-{room}.jsonl"
    served = begin(trial, words, latency | {"MGB_TRACE": str(trace)})
    ready(trial, served)
    few = batch | {"OMP_NUM_THREADS": str(SCARCE_THREADS)}
    jobs = [trial.spawn([sys.executable, FRAMEWORKS / "job.py", *SCARCE[:3], seed, SCARCE[3]], few) for seed in range(3)]
    # They all work, or they fill the GPU and the first has left it, before anything is measured.
    before = trial.status()["counts"]["evicted"]
    if room == "scarce":
        trial.until(lambda: trial.status()["counts"]["evicted"] > before, seconds=60)
    else:
        trial.until(lambda: sum(task["state"] == "running" for task in trial.status()["tasks"]) == 1 + len(jobs), seconds=60)
    found = results(trial, [served])[0]
    evicted = trial.status()["counts"]["evicted"] - before
    for job in jobs:
        job.kill()
        job.wait()
        trial.running.remove(job)
    trial.check(f"{kind}, memory {room}: evictions", (evicted > 0) == (room == "scarce"), evicted)
    gone = sum(swap["kind"] == "evicted" for line in trace.read_text().splitlines()
               for task in json.loads(line)["tasks"] for swap in task["swaps"])
    trial.check(f"{kind}, memory {room}: it was not evicted", gone == 0, gone)
    trial.until(lambda: not trial.status()["tasks"])
    return found


def main():
    trial = Trial("inference", __doc__, lambda parser: (
        parser.add_argument("--seconds", type=float, default=6, help="how long each is measured (default 6)"),
        parser.add_argument("--trained", nargs="*", default=TRAINED, help="what is trained beside it"),
        parser.add_argument("--room", type=float, default=14.0, help="GiB of the GPU in the scarce case (default 14)")))
    if importlib.util.find_spec("torch") is None:
        trial.check("PyTorch: not on this machine, left out", True)
        trial.finish()
    seconds = trial.arguments.seconds
    trial.mgbd()
    pipe = trial.status().get("mps_pipe") or ""
    plain = trial.environment(CUDA_MPS_PIPE_DIRECTORY=pipe)
    batch = trial.front()
    latency = batch | {"MGB_CLASS": "latency"}
    rows = trial.result["rows"] = {}

    def measure(row, programs):
        processes = [begin(trial, words, environment) for words, environment in programs]
        for process in processes:
            ready(trial, process)
        found = rows[row] = results(trial, processes)
        print(f"{row:36} " + ", ".join(
            f"{each['p50_ms']} / {each['p99_ms']} / {each['worst_ms']} ms" if "p50_ms" in each
            else f"{each['units'] / each['seconds']:.2f} steps/s" for each in found), flush=True)
        return found

    # A program that has run before is loaded from memory: the first is not measured.
    measure("warm", [([SERVED[0], 1, LOAD], plain)])
    alone = {kind: measure(f"{kind} alone", [([kind, seconds, LOAD], plain)])[0] for kind in SERVED}
    under = {kind: measure(f"{kind} alone, --latency", [([kind, seconds, LOAD, alone[kind]["alone_ms"]], latency)])[0]
             for kind in SERVED}
    trained_by = trial.arguments.trained
    trains = {kind: measure(f"{kind} alone", [([kind, seconds], plain)])[0] for kind in trained_by}
    for kind in SERVED:
        words = [kind, seconds, LOAD, alone[kind]["alone_ms"]]
        trial.check(f"{kind}: the same answers under MGB", under[kind]["digest"] == alone[kind]["digest"])
        for other in trained_by:
            measure(f"{kind}, {other}, MPS", [(words, plain), ([other, seconds], plain)])
            served, trained = measure(f"{kind}, {other}, --latency", [(words, latency), ([other, seconds], batch)])
            ratio = served["p99_ms"] / alone[kind]["p99_ms"]
            kept = trained["units"] / trained["seconds"] / (trains[other]["units"] / trains[other]["seconds"])
            trial.check(f"{kind} beside {other}: the same answers and losses",
                        served["digest"] == alone[kind]["digest"] and trained["digest"] == trains[other]["digest"])
            trial.check(f"{kind} beside {other}: p99 over that alone", ratio <= 1.2, {"bar": 1.2, "ratio": round(ratio, 2)})
            trial.check(f"{kind} beside {other}: training, of what time is left", kept / (1 - LOAD) >= 0.75,
                        {"bar": 0.75, "part": round(kept / (1 - LOAD), 2)})
            trial.save()
    trial.stop_mgbd()

    # Room for all, and then not: the difference is what scarce memory costs.
    plenty = {}
    for room in ("plenty", "scarce"):
        if room == "scarce":
            trial.ballast(trial.arguments.room * GIB, gpu=0)
        trial.mgbd()
        for kind in SERVED:
            found = beside_jobs(trial, kind, room, [kind, 2 * seconds, LOAD, alone[kind]["alone_ms"]], latency, batch)
            rows[f"{kind}, memory {room}"] = found
            trial.check(f"{kind}, memory {room}: the same answers", found["digest"] == alone[kind]["digest"])
            figures = {"ms": [found["p50_ms"], found["p99_ms"], found["worst_ms"]],
                       "over alone": round(found["p99_ms"] / alone[kind]["p99_ms"], 2)}
            if room == "plenty":
                plenty[kind] = found
                trial.check(f"{kind}, memory plenty: p99", True, figures)
            else:
                ratio = found["p99_ms"] / plenty[kind]["p99_ms"]
                trial.check(f"{kind}, memory scarce: p99 over that with room for all", ratio <= 1.3,
                            {"bar": 1.3, "ratio": round(ratio, 2)} | figures)
        trial.stop_mgbd()
    trial.finish()


main()

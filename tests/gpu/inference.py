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

    trial.ballast(trial.arguments.room * GIB, gpu=0)
    trial.mgbd()
    for kind in SERVED:
        trace = trial.folder / f"trace-{kind}.jsonl"
        served = begin(trial, [kind, 2 * seconds, LOAD, alone[kind]["alone_ms"]], latency | {"MGB_TRACE": str(trace)})
        ready(trial, served)
        jobs = [trial.spawn([sys.executable, FRAMEWORKS / "job.py", *SCARCE[:3], seed, SCARCE[3]], batch) for seed in range(3)]
        # They fill the GPU, and the first has left it, before it is measured.
        trial.until(lambda: trial.status()["counts"]["evicted"] > 0, seconds=60)
        found = rows[f"{kind}, memory scarce"] = results(trial, [served])[0]
        after = trial.status()
        for job in jobs:
            job.kill()
            job.wait()
            trial.running.remove(job)
        ratio = found["p99_ms"] / alone[kind]["p99_ms"]
        trial.check(f"{kind}, memory scarce: the same answers", found["digest"] == alone[kind]["digest"])
        trial.check(f"{kind}, memory scarce: others were evicted", after["counts"]["evicted"] > 0, after["counts"]["evicted"])
        gone = sum(swap["kind"] == "evicted" for line in trace.read_text().splitlines()
                   for task in json.loads(line)["tasks"] for swap in task["swaps"])
        trial.check(f"{kind}, memory scarce: it was not", gone == 0, gone)
        trial.check(f"{kind}, memory scarce: p99 over that alone", ratio <= 1.3,
                    {"bar": 1.3, "ratio": round(ratio, 2), "ms": [found["p50_ms"], found["p99_ms"], found["worst_ms"]]})
        trial.until(lambda: not trial.status()["tasks"])
    trial.stop_mgbd()
    trial.finish()


main()

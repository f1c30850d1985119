#!/usr/bin/env python3
"""Sixteen unmodified PyTorch jobs, nothing declared, on one or two GPUs with 16 GiB each: one per GPU (sa), four per GPU
without knowledge of memory (cg:4), and under MGB several times. Under MGB none fails, and every loss is that of the job
alone. With --mixed half of the jobs are other programs, by nvcc and built with MGB."""

import importlib.util
import json
import pathlib
import shutil
import statistics
import sys

from trial import GIB, Nvml, Trial

JOB = pathlib.Path(__file__).resolve().parent / "frameworks/job.py"
# Kind, GiB, steps. Sizes from 1 to 10 GiB, half of them training.
JOBS = [("train", 1, 60), ("infer", 2, 60), ("train", 4, 40), ("infer", 1, 80), ("train", 9.5, 20), ("infer", 5, 40),
        ("train", 2, 60), ("infer", 3, 60), ("train", 6, 30), ("infer", 8, 30), ("train", 3, 40), ("infer", 1, 80),
        ("train", 1, 60), ("infer", 4, 50), ("train", 7, 25), ("infer", 2, 60)]
# Workload, size, steps: each of them once by nvcc and once built with MGB, beside the first half of the jobs above.
OTHERS = [("nn_train", "6GiB", 400), ("wavelet", "8GiB", 20), ("backprop", "3GiB", 10), ("diffusion_region", "4GiB", 200)]


def workload(trial, name):
    """The workload as nvcc builds it; plain clang's where there is no nvcc."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return trial.prefix / "benches/plain" / name
    output = trial.folder / name
    built = trial.run([nvcc, "-O3", "-std=c++17", "-arch=native", "-o", output,
                       trial.prefix / f"benches/workloads/{name}.cu"])
    if built["code"] != 0:
        sys.exit(f"jobs: nvcc failed: {built['stderr'][-2000:]}")
    return output


def commands(trial):
    """The lines of the job file."""
    jobs = [f"{sys.executable} {JOB} {kind} {gib} {steps} {seed}" for seed, (kind, gib, steps) in enumerate(JOBS)]
    if not trial.arguments.mixed:
        return jobs
    others = [f"{program} {size} --steps {steps}" for name, size, steps in OTHERS
              for program in (workload(trial, name), trial.prefix / "benches/mgb" / name)]
    return [line for pair in zip(jobs, others) for line in pair]


def said(text):
    """The line of a job's log that says what came out."""
    lines = text.read_text().splitlines()
    return next((line for line in lines if line.startswith(("train", "infer")) or ": ok, checksum" in line), None)


def play(trial, policy, jobfile, number):
    """One batch under a policy: its summary, and what each job printed."""
    trial.mgbd(policy)
    logs = trial.folder / f"logs-{number}"
    ended = trial.run([trial.prefix / "bin/mgb", "batch", "--json", "--logs", logs, jobfile],
                      trial.environment(CUBLAS_WORKSPACE_CONFIG=":4096:8"))
    trial.stop_mgbd()
    try:
        report = json.loads(ended["stdout"])
    except ValueError:
        sys.exit(f"jobs: mgb batch printed no summary: {ended['stdout'][-500:]} {ended['stderr'][-2000:]}")
    texts = sorted(logs.glob("*.log"))
    lines = [said(text) for text in texts]
    failed = [text.read_text()[-400:] for text, line in zip(texts, lines) if line is None]
    return {"seconds": ended["seconds"], "lines": lines, "failed": failed, "report": report}


def main():
    trial = Trial("mixed" if "--mixed" in sys.argv else "jobs", __doc__, lambda parser: (
        parser.add_argument("--mixed", action="store_true", help="half of the jobs by nvcc and built with MGB"),
        parser.add_argument("--runs", type=int, default=5, help="runs under MGB (default 5)"),
        parser.add_argument("--alone", type=pathlib.Path, metavar="FILE",
                            help="jobs-alone.json or mixed-alone.json of an earlier trial on this machine: sa and cg:4 are left out"),
        parser.add_argument("--without", default="", metavar="POLICIES",
                            help="of sa and cg:4 (sa,cg:4) what is left out; without sa all runs are compared with the first"),
        parser.add_argument("--room", type=float, default=16.0, help="GiB of each GPU (default 16)")))
    if importlib.util.find_spec("torch") is None:
        trial.check("PyTorch: not on this machine, left out", True)
        trial.finish()
    gpus = len(Nvml().gpus)
    jobfile = trial.folder / "jobs.txt"
    jobfile.write_text("".join(f"{line}\n" for line in commands(trial)))
    for gpu in range(gpus):
        trial.ballast(trial.arguments.room * GIB, gpu=gpu)
    without = trial.arguments.without.split(",")
    alone = None
    if trial.arguments.alone:
        alone = json.loads(trial.arguments.alone.read_text())
    elif "sa" not in without:
        alone = play(trial, "sa", jobfile, "sa")
        trial.check("sa: every job ends", not alone["failed"],
                    {"seconds": round(alone["seconds"], 1), "failed": alone["failed"]})
        trial.arguments.out.mkdir(parents=True, exist_ok=True)
        (trial.arguments.out / f"{trial.name}-alone.json").write_text(json.dumps(alone))
    if not trial.arguments.alone and "cg:4" not in without:
        crowded = play(trial, "cg:4", jobfile, "cg")
        trial.check("cg:4, to compare", True, {"seconds": round(crowded["seconds"], 1), "failed": len(crowded["failed"])})
    seconds, reference = [], alone
    for run in range(trial.arguments.runs):
        if seconds and trial.left() < 1.5 * seconds[-1] or alone and trial.left() < alone["seconds"] / 3:
            trial.check(f"run {run + 1}: left out, no time", False)
            break
        # mgbd remembers the runs before, as it does between batches.
        shared = play(trial, "mgb", jobfile, f"mgb-{run}")
        seconds.append(shared["seconds"])
        reference = reference or shared
        trial.check(f"run {run + 1} under MGB: no job fails", not shared["failed"], shared["failed"] or None)
        trial.check(f"run {run + 1} under MGB: losses as {'alone' if alone else 'in the first run'}",
                    shared["lines"] == reference["lines"], {"seconds": round(shared["seconds"], 1)})
    if alone and seconds:
        gains = [round(alone["seconds"] / second, 2) for second in seconds]
        trial.check("gain over sa: 2.0 the first time, more the second", gains[0] >= 2.0 and gains[-1] >= gains[0],
                    {"gains": gains, "median": statistics.median(gains)})
    trial.finish()


main()

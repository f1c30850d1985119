#!/usr/bin/env python3
"""The mixes of the evaluation under MGB in variants, in turns on one machine: with static tasks, with all tasks bound at
run time (`MGB_STATIC=off`), without evictions, and with FlexGPU's rule for them. Prints medians of the makespan, of what jobs waited, and of how often memory was swapped."""

import json
import pathlib
import statistics
import tomllib

from trial import GIB, Nvml, Trial

MASK = (1 << 64) - 1
# What differs: more environment of the programs, more options of mgbd.
VARIANTS = {"static": ({}, []), "lazy": ({"MGB_STATIC": "off"}, []), "no-swap": ({}, ["--no-swap"]),
            "flexgpu": ({}, ["--evict-by", "flexgpu"])}


def numbers(state):
    """SplitMix64, as mixes.toml has it."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        yield z ^ z >> 31


def commands(prefix, name, room):
    """The lines of a mix's job file, for GPUs of so much room."""
    mixes = tomllib.loads((prefix / "benches/mixes.toml").read_text())
    place = [mix["name"] for mix in mixes["mix"]].index(name)
    next_number = numbers(mixes["seed"] + place).__next__
    jobs = []
    for draw in mixes["mix"][place]["draw"]:
        settings = mixes["sets"][draw["from"]]["settings"]
        jobs += [settings[next_number() % len(settings)] for _ in range(draw["jobs"])]
    for last in range(len(jobs) - 1, 0, -1):
        other = next_number() % (last + 1)
        jobs[last], jobs[other] = jobs[other], jobs[last]
    return [" ".join([str(prefix / "benches/mgb" / job["program"]), str(int(job["size"] * room)), *job["args"]]) for job in jobs]


def play(trial, mix, jobfile, variant, run):
    environment, options = VARIANTS[variant]
    # What one variant has taught mgbd is not for the next.
    trial.mgbd(options=[*options, "--past", trial.folder / f"past-{mix}-{variant}-{run}"])
    logs = trial.folder / f"logs-{mix}-{variant}-{run}"
    ended = trial.run([trial.prefix / "bin/mgb", "batch", "--json", "--logs", logs, jobfile], trial.environment(**environment))
    counts = trial.status()["counts"]
    trial.stop_mgbd()
    try:
        report = json.loads(ended["stdout"])
    except ValueError:
        return {"failed": [ended["stderr"][-2000:]], "makespan": None, "said": []}
    texts = [text.read_text() for text in sorted(logs.glob("*.log"))]
    said = [next((line for line in text.splitlines() if "checksum" in line), text[-300:]) for text in texts]
    return {"makespan": round(report["makespan_s"], 2), "waited": round(sum(job["waited_s"] or 0 for job in report["jobs"]), 1),
            "swapped out": counts["swapped_out"], "said": said,
            "failed": [job["command"] for job in report["jobs"] if job["exit_code"] != 0]}


def main():
    trial = Trial("variants", __doc__, lambda parser: (
        parser.add_argument("--mix", default="W1,W6", help="mixes, by name (default W1,W6)"),
        parser.add_argument("--variants", default="static,lazy", help=f"of {','.join(VARIANTS)} (default static,lazy)"),
        parser.add_argument("--runs", type=int, default=3, help="runs of each mix in each variant (default 3)"),
        parser.add_argument("--room", type=float, default=16.0, help="GiB of each GPU (default 16)")))
    variants = trial.arguments.variants.split(",")
    for gpu in range(len(Nvml().gpus)):
        trial.ballast(trial.arguments.room * GIB, gpu=gpu)
    for mix in trial.arguments.mix.split(","):
        jobfile = trial.folder / f"{mix}.txt"
        jobfile.write_text("".join(f"{line}\n" for line in commands(trial.prefix, mix, trial.arguments.room * GIB)))
        played = {variant: [] for variant in variants}
        for run in range(trial.arguments.runs):
            for variant in variants:
                played[variant].append(play(trial, mix, jobfile, variant, run))
        everything = [each for runs in played.values() for each in runs]
        failed = [each["failed"] for each in everything if each["failed"]]
        trial.check(f"{mix}: no job fails", not failed, failed[:3] or None)
        trial.check(f"{mix}: all runs give the same", len({tuple(each["said"]) for each in everything}) == 1)
        ended = {variant: [each for each in runs if each["makespan"]] for variant, runs in played.items()}
        medians = {variant: {what: statistics.median(each[what] for each in runs) for what in ("makespan", "waited", "swapped out")}
                   for variant, runs in ended.items() if runs}
        trial.check(f"{mix}: medians", len(medians) == len(variants), medians)
        trial.result[mix] = played
    trial.finish()


main()

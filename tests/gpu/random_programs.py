#!/usr/bin/env python3
"""Random programs on real GPUs, plain and under MGB: every byte as the model has it, and the same answers of calls that
fail on purpose. Seeds are played in ranges, as many processes at once as are asked for: first plain ones, then under one
mgbd, where asked for with memory that leaves the GPUs and comes back all the while. Then generated sources, where the
bundle has them (`make generated bundle`): those that attack the pass also with memory that leaves the GPUs."""

import json
from concurrent.futures import ThreadPoolExecutor

from trial import Nvml, Trial

# Which program plays which part of the seeds, and how. A new context takes a fifth of a second, and all processes wait
# for it: the last part is small.
PARTS = [
    ("one device", "random", ["--without", "devices"], 0.55),
    ("every device", "random", ["--without", "across"], 0.2),
    ("default streams per thread", "random_per_thread", [], 0.2),
    ("a new context for each seed", "random", ["--reset"], 0.05),
]


def trace(trial, program, first):
    return trial.folder / f"{program}-{first}.trace"


def evicted(path):
    """How often memory left a GPU, as a trace has it."""
    processes = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    swaps = [swap for process in processes for task in process["tasks"] for swap in task["swaps"]]
    return sum(swap["kind"] == "evicted" for swap in swaps)


def play(trial, kind, program, first, last, flags):
    """What a range of seeds printed, and what went wrong."""
    path = trial.prefix / "random" / kind / program
    evicting = {} if not trial.arguments.evict else {
        "MGB_EVICT_EVERY": trial.arguments.evict, "MGB_TRACE": trace(trial, program, first)}
    environment = trial.environment(MGB="require", **evicting) if kind == "mgb" else trial.environment(MGB="off")
    ended = trial.run([path, f"{first}..{last}", "--patience", "120", *flags], env=environment)
    lines = dict(line.split(" ", 1) for line in ended["stdout"].splitlines() if line[:1].isdigit())
    wrong = None
    if ended["code"] != 0:
        wrong = f"{program} {first}..{last}: exit code {ended['code']}: {ended['stderr'][-600:]}"
    return lines, wrong, ended["seconds"]


def generated(trial, path, **settings):
    """What is wrong with a generated program under these settings, or None."""
    # Where its memory is to leave, a program that attacks the pass idles between its steps.
    pause = ["--pause", "1500"] if "MGB_EVICT_EVERY" in settings else []
    ended = trial.run([path, *pause], env=trial.environment(**settings))
    if ended["code"] != 0 or ended["stdout"] != path.with_suffix(".expected").read_text():
        return f"{path.name} with {settings}: exit code {ended['code']}: {ended['stdout'][-400:]}{ended['stderr'][-400:]}"
    return None


def main():
    def add(parser):
        parser.add_argument("--seeds", type=int, default=2000, help="how many, in all")
        parser.add_argument("--first", type=int, default=1)
        parser.add_argument("--range", type=int, default=20, help="seeds of one process")
        parser.add_argument("--at-once", type=int, default=16, help="processes at once")
        parser.add_argument("--evict", type=int, metavar="MS",
                            help="a program's memory leaves the GPUs about every so many ms (default: never)")
        parser.add_argument("--without", default="", help="features to leave out, by commas: see `random`")
    trial = Trial("random_programs", __doc__, add)
    asked = trial.arguments
    trial.result["gpus"] = len(Nvml().gpus)
    jobs, first = [], asked.first
    for name, program, flags, share in PARTS:
        if asked.without:
            left_out = [flags[1]] if "--without" in flags else []
            flags = [f for f in flags if f not in ("--without", *left_out)] + \
                ["--without", ",".join([asked.without, *left_out])]
        last = first + int(asked.seeds * share)
        while first < last:
            end = min(first + asked.range, last)
            jobs.append((name, program, first, end - 1, flags))
            first = end
    runs = {}
    for kind in ("plain", "mgb"):
        if kind == "mgb":
            trial.mgbd()
        with ThreadPoolExecutor(asked.at_once) as pool:
            runs[kind] = list(pool.map(lambda job: play(trial, kind, *job[1:]), jobs))
    programs = sorted(p.with_suffix("") for p in (trial.prefix / "generated").glob("*.expected"))
    attacks = [path for path in programs if path.name.startswith("a")]
    with ThreadPoolExecutor(asked.at_once) as pool:
        for name, sources, settings in (
                ("generated sources with MGB=off", programs, {"MGB": "off"}),
                ("generated sources with MGB=require", programs, {"MGB": "require"}),
                ("generated sources that attack the pass, while memory leaves the GPUs", attacks,
                 {"MGB": "require", "MGB_EVICT_EVERY": 5})):
            wrong = [text for text in pool.map(lambda path: generated(trial, path, **settings), sources) if text]
            trial.check(name, not wrong, {"sources": len(sources), "wrong": wrong[:20]})
    if asked.evict:
        times = sum(evicted(trace(trial, program, first)) for _, program, first, *_ in jobs)
        trial.check("memory left the GPUs", times > 0, {"evictions": times})
    trial.stop_mgbd()
    for name, *_ in PARTS:
        own = [at for at, job in enumerate(jobs) if job[0] == name]
        for kind in ("plain", "mgb"):
            wrong = [runs[kind][at][1] for at in own if runs[kind][at][1]]
            seeds = sum(len(runs[kind][at][0]) for at in own)
            seconds = round(sum(runs[kind][at][2] for at in own), 1)
            trial.check(f"{name}: every byte as it must be, {kind}", not wrong,
                        {"seeds": seeds, "seconds of all processes": seconds, "wrong": wrong[:20]})
        differing = [f"{seed}: {answer} plain, {runs['mgb'][at][0][seed]} under MGB"
                     for at in own for seed, answer in runs["plain"][at][0].items()
                     if runs["mgb"][at][0].get(seed, answer) != answer]
        trial.check(f"{name}: calls answer the same", not differing, differing[:40] or None)
    trial.finish()


main()

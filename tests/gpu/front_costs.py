#!/usr/bin/env python3
"""What the driver front costs: launches and training steps of PyTorch, allocations, and the start of a process, plain, with the
front alone, and under mgbd. Processes of all three live at once and take turns at short measurements, since the same program
differs by more than a tenth from process to process and from minute to minute."""

import importlib.util
import pathlib
import random
import statistics
import subprocess
import sys
import time

from trial import Trial

FOLDER = pathlib.Path(__file__).resolve().parent / "frameworks"
WAYS = ("plain", "front", "mgb")
# What the ratio of each time must not exceed.
BARS = {"torch": {"launches": 1.03, "step": 1.01}, "driver": {"allocations": 1.05}}
START, START_BAR = "import time, torch; print(time.time()); torch.zeros(1).cuda()", 1.05


def environment(trial, way):
    environment = trial.environment() if way == "plain" else trial.front()
    return environment if way == "mgb" else {**environment, "MGB": "off"}


def ask(trial, process, what):
    """One measurement of a process, in seconds."""
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    return answer(trial, process, float)


def answer(trial, process, read):
    line = process.stdout.readline()
    if not line:
        trial.check("a process of the measurement lives", False, process.communicate()[1][-2000:])
        trial.finish()
    return read(line)


def report(trial, what, seconds, bar):
    """`seconds`: by way, the median of each process."""
    median = {way: statistics.median(each) for way, each in seconds.items()}
    for way in WAYS[1:]:
        ratio = round(median[way] / median["plain"], 4)
        spread = {way: [round(f(each), 5) for f in (min, max)] for way, each in seconds.items()}
        trial.check(f"{what}: cost, {way}", ratio <= bar, {"ratio": ratio, "bar": bar, "seconds": median, "spread": spread})


def take_turns(trial, kind, bars, dice):
    command = [sys.executable, FOLDER / "costs.py", kind]
    processes = [(way, trial.spawn(command, environment(trial, way), stdin=subprocess.PIPE))
                 for way in WAYS for _ in range(trial.arguments.processes)]
    for _, process in processes:
        answer(trial, process, str)
    for what, bar in bars.items():
        seen = {process: [] for _, process in processes}
        for _ in range(trial.arguments.turns):
            for _, process in dice.sample(processes, len(processes)):
                seen[process].append(ask(trial, process, what))
        report(trial, what, {way: [statistics.median(seen[process]) for its, process in processes if its == way] for way in WAYS}, bar)
    for _, process in processes:
        process.stdin.close()
        code = process.wait(60)
        trial.running.remove(process)
        if code != 0:
            trial.check("a process of the measurement ends with 0", False, code)


def start(trial, dice):
    """The start of a process. The imports take seconds, differ most from run to run, and do not reach the driver: all ways are
    counted the same for them."""
    imports, rest = [], {way: [] for way in WAYS}
    # The first turn brings files from the disk.
    for turn in range(trial.arguments.starts + 1):
        for way in dice.sample(WAYS, len(WAYS)):
            began = time.time()
            ended = trial.run([sys.executable, "-c", START], environment(trial, way))
            if ended["code"] != 0:
                trial.check(f"start: ends with 0, {way}", False, ended)
                trial.finish()
            if turn > 0:
                imported = float(ended["stdout"])
                imports.append(imported - began)
                rest[way].append(time.time() - imported)
    trial.result["imports"] = imports
    report(trial, "start", {way: [statistics.median(imports) + each for each in rest[way]] for way in WAYS}, START_BAR)


def main():
    trial = Trial("front_costs", __doc__, lambda parser: (
        parser.add_argument("--processes", type=int, default=5, help="processes of each way that take turns (default 5)"),
        parser.add_argument("--turns", type=int, default=15, help="turns of each process (default 15)"),
        parser.add_argument("--only", default="torch,driver,start", metavar="PARTS",
                            help="what is measured (default torch,driver,start)"),
        parser.add_argument("--starts", type=int, default=7, help="starts of each way (default 7)")))
    dice = random.Random(1)
    trial.mgbd()
    has_torch = importlib.util.find_spec("torch") is not None
    trial.check("PyTorch: " + ("measured" if has_torch else "not on this machine, left out"), True)
    parts = trial.arguments.only.split(",")
    for kind, bars in BARS.items():
        if kind in parts and (has_torch or kind != "torch"):
            take_turns(trial, kind, bars, dice)
    if has_torch and "start" in parts:
        start(trial, dice)
    trial.finish()


main()

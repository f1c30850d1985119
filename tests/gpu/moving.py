#!/usr/bin/env python3
"""Tasks that go on, on another of two GPUs: how long 16 GiB take and where that time goes, programs whose tasks move and whose
memory leaves all the time, programs killed on their way, a batch whose GPUs empty unevenly with and without moves, and one
that is even. All results must be right."""

import json
import random
import statistics
import time

from trial import GIB, MIB, Nvml, Trial, kill_group

PARTS = {"rest_ns": "GPU at rest", "map_ns": "device memory", "host_ns": "host memory", "copy_ns": "copies"}
# Programs that may move, with what makes them run for some seconds.
PROGRAMS = [("phases", [1024, 60, 20, "wait", 200, 264]), ("pauses", [512, 40, 20, 200, 264]), ("lists", [2000, 500]),
            ("threads", [2000000, 40]), ("stencil", [20000000, 1500]), ("scan", [20000000]), ("bfs", [2000000]),
            ("twotasks", [40000000, 30000000])]


def place(trial, pid, mib, patience=30):
    """The GPU of a process once it holds so many MiB."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        for task in trial.status()["tasks"]:
            if task["pid"] == pid and task["held_bytes"] >= mib * MIB:
                return task["gpu"]
        time.sleep(0.05)
    return None


def move(trial, process, gpu):
    return trial.run([trial.prefix / "bin/mgb", "move", process.pid, gpu], timeout=40)


def ends_right(trial, processes):
    """What went wrong of programs; ended when this returns."""
    wrong = []
    for process in processes:
        try:
            output, errors = process.communicate(timeout=trial.left())
        except Exception as error:  # a program that hangs must not keep the others from being looked at
            kill_group(process)
            output, errors = str(error), ""
        trial.running.remove(process)
        if process.returncode != 0 or "PASS" not in output:
            wrong.append(f"{process.args}: {process.returncode}: {output[-200:]}{errors[-300:]}")
    return wrong


def speed(trial):
    """A program of 16 GiB there and back, idle and at work."""
    mib = trial.arguments.mib
    pause = 3000 + 2000 * trial.arguments.runs
    for kind, arguments in (("idle", [mib, 1, pause, "wait", 10, 264]), ("at work", [mib, 400, 1, "wait", 20, 1056])):
        trial.mgbd(options=["--no-swap"])
        trace = trial.folder / f"trace-{kind}.jsonl"
        process = trial.spawn([trial.example("phases"), *arguments],
                              trial.environment(MGB="require", MGB_TRACE=trace))
        gpu = place(trial, process.pid, mib)
        took, said = [], []
        time.sleep(1.0)
        for _ in range(2 * trial.arguments.runs):
            gpu = 1 - gpu
            began = time.monotonic()
            ended = move(trial, process, gpu)
            took.append(round(time.monotonic() - began, 3))
            if ended["code"] != 0:
                said.append(ended["stderr"])
            time.sleep(0.6)
        counts = trial.status()["counts"]
        wrong = ends_right(trial, [process])
        trial.check(f"{mib / 1024:g} GiB moved, {kind}: the result is right", not wrong, wrong or None)
        trial.stop_mgbd()
        trial.check(f"{mib / 1024:g} GiB move, {kind}: all were carried out", not said, said or counts["moved"])
        trial.result[f"commands {kind}"] = took
        if trace.exists():
            show_parts(trial, kind, trace)


def show_parts(trial, kind, trace):
    swaps = [swap for line in trace.read_text().splitlines() for task in json.loads(line)["tasks"] for swap in task["swaps"]]
    moved = [swap for swap in swaps if swap["kind"] == "moved"]
    if not moved:
        return
    seconds = [(swap["to_ns"] - swap["from_ns"]) / 1e9 for swap in moved]
    # The first brings the context with it on the new GPU, which is made before the measured time begins.
    parts = {name: round(statistics.median(swap[part] / 1e9 for swap in moved), 4) for part, name in PARTS.items()}
    beside = [second - swap["rest_ns"] / 1e9 for second, swap in zip(seconds, moved)]
    trial.check(f"{trial.arguments.mib / 1024:g} GiB to another GPU, {kind}, seconds once it is at rest",
                statistics.median(beside) <= 0.08,
                {"bar": 0.08, "median": round(statistics.median(beside), 4), "all": [round(each, 4) for each in beside],
                 "parts": parts})


def shuffled(trial):
    """Tasks that move at random while their memory leaves as well."""
    trial.mgbd(options=["--move-every", "20"])
    environment = trial.environment(MGB="require", MGB_EVICT_EVERY="60")
    wrong = []
    for name, arguments in PROGRAMS:
        processes = [trial.spawn([trial.example(name), *arguments], environment) for _ in range(3)]
        wrong += ends_right(trial, processes)
    counts = trial.status()["counts"]
    trial.stop_mgbd()
    trial.check("programs whose tasks move and leave all the time are right", not wrong, wrong[:3] or None)
    trial.check("they have moved", counts["moved"] > 20, {what: counts[what] for what in ("moved", "moved_bytes", "moves_failed")})


def killed(trial, nvml):
    """SIGKILL at random moments of moves: the room on both GPUs returns, and a neighbour's bytes stay."""
    trial.mgbd(options=["--move-every", "10"])
    environment = trial.environment(MGB="require")
    neighbour = trial.spawn([trial.example("phases"), 1024, 100000, 5, "wait", 20, 264], environment)
    place(trial, neighbour.pid, 1024)
    late, longest = [], 0.0
    for _ in range(trial.arguments.kills):
        process = trial.spawn([trial.example("phases"), 4096, 1000, 5, "wait", 20, 264], environment)
        place(trial, process.pid, 4096)
        time.sleep(random.uniform(0.0, 0.5))
        kill_group(process)
        process.wait()
        trial.running.remove(process)
        began = time.monotonic()
        while any(task["pid"] in (process.pid, 0) for task in trial.status()["tasks"]) and time.monotonic() - began < 20:
            time.sleep(0.02)
        longest = max(longest, time.monotonic() - began)
        if time.monotonic() - began > 1.0:
            late.append(round(time.monotonic() - began, 2))
    counts = trial.status()["counts"]
    alive = neighbour.poll() is None
    kill_group(neighbour)
    neighbour.wait()
    trial.running.remove(neighbour)
    trial.stop_mgbd()
    trial.check(f"{trial.arguments.kills} killed while tasks move: room is back within 1 s", not late,
                {"late": late, "longest": round(longest, 2), "moved": counts["moved"]})
    trial.check("their neighbour lives on", alive)
    time.sleep(1.0)
    used = [round(nvml.used(gpu) / MIB) for gpu in range(2)]
    trial.check("nothing is left on the GPUs but the ballast and what was there", True, {"used MiB": used})


def rounds_for(trial, mib, seconds):
    """Rounds with which `phases` takes that long alone, in its kernels."""
    def once(rounds):
        began = time.monotonic()
        trial.run([trial.example("phases", plain=True), mib, rounds, 1, "wait", 2000, 1056], trial.environment(MGB="off"))
        return time.monotonic() - began
    once(1)
    each = max((once(21) - once(1)) / 20, 1e-3)
    return max(2, round(seconds / each))


def batch(trial, options, rounds):
    """Two programs on each GPU, which run for so many rounds; seconds until all have ended, and what mgbd counted."""
    past = ["--past", trial.folder / f"past-{time.monotonic()}"]
    trial.mgbd(options=["--no-swap", *options, *past])
    environment = trial.environment(MGB="require")
    began, processes, ordered = time.monotonic(), [], 0
    for gpu, count in enumerate(rounds):
        for number in count:
            process = trial.spawn([trial.example("phases"), 1024, number, 1, "wait", 2000, 1056], environment)
            processes.append(process)
            if place(trial, process.pid, 1024) != gpu:
                ordered += move(trial, process, gpu)["code"] == 0
    wrong = ends_right(trial, processes)
    seconds = time.monotonic() - began
    counts = trial.status()["counts"]
    trial.stop_mgbd()
    return {"seconds": round(seconds, 2), "wrong": wrong, "moved": counts["moved"] - ordered, "failed": counts["moves_failed"]}


def batches(trial):
    long, short = (rounds_for(trial, 1024, seconds) for seconds in (trial.arguments.long, trial.arguments.long / 8))
    for name, rounds, bar in (("uneven", [[long, long], [short, short]], 1.3), ("even", [[long // 2] * 2] * 2, 1 / 1.02)):
        ways = {"moving": [], "--no-move": []}
        for _ in range(trial.arguments.runs if name == "uneven" else max(1, trial.arguments.runs // 2)):
            for way, options in (("moving", []), ("--no-move", ["--no-move"])):
                ways[way].append(batch(trial, options, rounds))
        wrong = [each["wrong"] for way in ways.values() for each in way if each["wrong"]]
        trial.check(f"{name} batch: every result is right", not wrong, wrong[:2] or None)
        medians = {way: statistics.median(each["seconds"] for each in played) for way, played in ways.items()}
        gain = medians["--no-move"] / medians["moving"]
        trial.check(f"{name} batch: makespan without moves over with them", gain >= bar,
                    {"bar": round(bar, 3), "gain": round(gain, 3), "medians": medians,
                     "moved": [each["moved"] for each in ways["moving"]]})


def main():
    trial = Trial("moving", __doc__, lambda parser: (
        parser.add_argument("--runs", type=int, default=3, help="measurements of each kind (default 3)"),
        parser.add_argument("--mib", type=int, default=16384, help="MiB that move (default 16384)"),
        parser.add_argument("--kills", type=int, default=25, help="programs that are killed (default 25)"),
        parser.add_argument("--long", type=float, default=12.0, help="seconds of a long program of the batches alone (default 12)"),
        parser.add_argument("--only", default="speed,shuffled,killed,batches", help="parts of the trial, by name")))
    nvml = Nvml()
    if len(nvml.gpus) < 2:
        trial.check("two GPUs: this machine has fewer, left out", True)
        trial.finish()
    parts = {"speed": lambda: speed(trial), "shuffled": lambda: shuffled(trial), "killed": lambda: killed(trial, nvml),
             "batches": lambda: batches(trial)}
    for name in trial.arguments.only.split(","):
        parts[name]()
    trial.finish()


main()

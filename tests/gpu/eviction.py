#!/usr/bin/env python3
"""Idle memory makes room: how long 16 GiB take to the host and back under MPS and where that time goes, and a batch of jobs
that hold memory through long pauses, with and without it. All results must be right."""

import json
import re
import statistics
import time

from trial import GIB, Nvml, Trial

# MiB, rounds, milliseconds of a pause, steps and blocks of a kernel. Before mgbd has seen a copy it assumes 8 GiB/s, so it
# evicts who has been idle for the 2.5 s that 10 GiB take both ways, and keeps who came back for twice that: with pauses of
# 2.8 s and kernels of 4.5 s, as 6000 steps take on an H100, nobody ever was. So a kernel takes 1.5 s, a pause 6 s.
JOB = [10240, 3, 6000, 2000, 264]
# The parts of a swap in a trace: what their time went to.
PARTS = {"rest_ns": "GPU at rest", "room_ns": "room", "map_ns": "device memory", "host_ns": "host memory",
         "copy_ns": "copies"}


def swaps_of(file):
    """The swaps of all processes in a trace."""
    if not file.exists():
        return []
    processes = [json.loads(line) for line in file.read_text().splitlines()]
    return [swap for process in processes for task in process["tasks"] for swap in task["swaps"]]


def parts_of(swaps):
    """Medians over swaps of one kind: seconds in all, in each part, and in none of them; GiB/s of the copies."""
    median = lambda values: round(statistics.median(values), 3)
    total = [swap["to_ns"] - swap["from_ns"] for swap in swaps]
    parts = {name: median([swap[part] / 1e9 for swap in swaps]) for part, name in PARTS.items()}
    rest = [whole - sum(swap[part] for part in PARTS) for swap, whole in zip(swaps, total)]
    speeds = [swap["bytes"] / GIB / (swap["copy_ns"] / 1e9) for swap in swaps if swap["copy_ns"]]
    return {"count": len(swaps), "GiB": median([swap["bytes"] / GIB for swap in swaps]),
            "seconds": median([whole / 1e9 for whole in total]), **parts, "else": median([each / 1e9 for each in rest]),
            "GiB/s of copies": median(speeds) if speeds else None, "pumped": all(swap["pumped"] for swap in swaps)}


def say_parts(trial, file):
    """Prints the parts of each swap and their medians, and keeps these in the result; how often memory went each way."""
    swaps, counts = swaps_of(file), {}
    say = lambda what, parts: print(f"  {what}: " + ", ".join(f"{name} {value}" for name, value in parts.items()), flush=True)
    for kind in ("evicted", "restored"):
        its = [swap for swap in swaps if swap["kind"] == kind]
        counts[kind] = len(its)
        for swap in its:
            say(kind, parts_of([swap]))
        if its:
            trial.result.setdefault("parts", {})[kind] = parts_of(its)
            say(f"{kind}, medians", parts_of(its))
    return counts


def speed(trial):
    """One program makes room for another in its pauses: what mgbd saw of it, and how much longer its next kernel took."""
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    environment = trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0")
    pauses = trial.example("pauses")
    mib = trial.arguments.mib
    trace = trial.folder / "trace.jsonl"
    times, evicted = [], []
    for _ in range(trial.arguments.runs):
        # Long enough to be evicted as a whole within the pause, and for the other to be gone by its end: a shorter one, as
        # of 4.5 s, ends while the memory still leaves, and the kernel then waits for that and for room.
        holds = trial.spawn([pauses, mib, 2, 12000, 10, 264], {**environment, "MGB_TRACE": str(trace)})
        time.sleep(1.0)
        other = trial.run([pauses, mib, 1, 1, 10, 264], environment)
        output, errors = holds.communicate(timeout=trial.left())
        trial.running.remove(holds)
        right = holds.returncode == 0 and "PASS" in output and other["code"] == 0
        trial.check(f"{mib / 1024:g} GiB leave and come back: both results are right", right, None if right else [errors, other])
        rounds = [float(seconds) for seconds in re.findall(r"round \d+: ([\d.]+) s", errors)]
        times.append(rounds[0] - rounds[-1])
    trial.stop_mgbd()
    log = "".join(path.read_text() for path in trial.folder.glob("mgbd-*.log"))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log)
    evicted = [int(ms) / 1000 for ms in re.findall(r"evicted .*took_ms=(\d+)", plain)]
    counts = say_parts(trial, trace)
    trial.check("a trace has each time that memory left or came back", counts["evicted"] == counts["restored"] > 0, counts)
    trial.check(f"{mib / 1024:g} GiB to the host, seconds", bool(evicted) and statistics.median(evicted) <= 1.0,
                {"bar": 1.0, "median": statistics.median(evicted) if evicted else None, "all": evicted})
    trial.check(f"{mib / 1024:g} GiB back, seconds", statistics.median(times) <= 0.5,
                {"bar": 0.5, "median": round(statistics.median(times), 3), "all": [round(each, 3) for each in times]})


def batch(trial, gpus):
    """Jobs of which one fits on a GPU."""
    jobs = trial.folder / "jobs.txt"
    line = " ".join(str(word) for word in [trial.example("pauses"), *trial.arguments.job])
    jobs.write_text(f"{line}\n" * trial.arguments.jobs * gpus)
    seconds = {}
    for name, options in (("evicting", []), ("--no-swap", ["--no-swap"])):
        trial.mgbd(options=options)
        ended = trial.run([trial.prefix / "bin/mgb", "batch", "--json", "-j", trial.arguments.jobs * gpus, jobs],
                          trial.environment(MGB="require"))
        counts = trial.status()["counts"]
        trial.stop_mgbd()
        report = json.loads(ended["stdout"] or "{}")
        failed = [job for job in report.get("jobs", []) if job["exit_code"] != 0]
        trial.check(f"{name}: every job is right", report and not failed, failed[:2] or ended["stderr"][-500:] if failed else None)
        seconds[name] = round(report.get("makespan_s", 0), 1)
        trial.result[name] = {"seconds": seconds[name], "counts": counts}
        trial.check(f"{name}: evictions", (counts["evicted"] > 0) == (name == "evicting"),
                    {what: counts[what] for what in ("evicted", "evicted_bytes", "evictions_failed", "swapped_out")})
    gain = seconds["--no-swap"] / max(seconds["evicting"], 0.1)
    trial.check("makespan without over with it", gain >= 1.8, {"bar": 1.8, "gain": round(gain, 2), "seconds": seconds})


def main():
    trial = Trial("eviction", __doc__, lambda parser: (
        parser.add_argument("--runs", type=int, default=3, help="measurements of the speed (default 3)"),
        parser.add_argument("--mib", type=int, default=16384, help="MiB that leave and come back (default 16384)"),
        parser.add_argument("--job", type=int, nargs=5, default=JOB, help="its MiB, rounds, ms of a pause, steps and blocks"),
        parser.add_argument("--jobs", type=int, default=6, help="jobs a GPU in the batch (default 6)"),
        parser.add_argument("--room", type=float, default=20.0, help="GiB of each GPU (default 20)")))
    gpus = len(Nvml().gpus)
    for gpu in range(gpus):
        trial.ballast(trial.arguments.room * GIB, gpu=gpu)
    if trial.arguments.runs > 0:
        speed(trial)
    if trial.arguments.jobs > 0:
        batch(trial, gpus)
    trial.finish()


main()

#!/usr/bin/env python3
"""An interactive program beside batch programs on one GPU, in every way of sharing it: the milliseconds from its launches until
it has synchronised (p50, p99, worst), and what the batch programs get done meanwhile. `--hardware` compares what the GPU and
MPS can do by themselves. `--launches` measures what launches of a batch program cost while a latency program is there."""

import json
import statistics
import subprocess
import sys
import time

from trial import Trial, kill_group

KINDS = {"products": ["products"], "training": ["training"], "sweeps": ["sweeps"], "short": ["short"],
         "blocks20": ["blocks20"], "blocks2000": ["blocks2000"], "long": ["long"], "tiny": ["tiny"],
         "all three": ["training", "products", "sweeps"]}


class Mps:
    """NVIDIA's MPS for programs that MGB has no part in."""

    def __init__(self, trial):
        self.folder = trial.folder / "mps"
        self.folder.mkdir()
        self.environment = trial.environment(CUDA_MPS_PIPE_DIRECTORY=self.folder, CUDA_MPS_LOG_DIRECTORY=self.folder)
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=self.environment, check=True, timeout=30)

    def stop(self):
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=self.environment, timeout=60, check=False)


def together(trial, programs, seconds):
    """Starts programs, each a command with its environment, lets them begin at one moment, and gives their results."""
    running = [trial.spawn(command, env, stdin=subprocess.PIPE) for command, env in programs]
    for process in running:
        if "ready" not in process.stdout.readline():
            sys.exit(f"{trial.name}: a program did not begin: {process.communicate()[1]}")
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    results = []
    for process in running:
        output, errors = process.communicate(timeout=seconds + 60)
        trial.running.remove(process)
        if process.returncode != 0:
            trial.check("a program ended right", False, {"code": process.returncode, "stderr": errors[-300:]})
        lines = [line for line in output.splitlines() if line.startswith("{")]
        results.append(json.loads(lines[-1]) if lines else None)
    return results


def hardware(trial, seconds):
    """What priorities and percentages of MPS give, beside plain MPS and time slices."""
    mps = Mps(trial)
    client = {"CUDA_MPS_PIPE_DIRECTORY": mps.folder}
    percent = lambda part: {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": part}
    low = {"CUDA_MPS_CLIENT_PRIORITY": 1}
    ways = {"slices": ({}, {}, []), "mps": (client, client, []), "low": (client, client | low, []),
            "stream": (client, client, ["--stream-priority", 1])}
    ways |= {f"{part} %": (client, client | percent(part), []) for part in (30, 50, 60, 70, 80, 90)}
    ways |= {f"low, {part} %": (client, client | low | percent(part), []) for part in (50, 60, 70, 80, 90)}
    plain = lambda name: trial.prefix / "benches/plain" / name
    rows = {}

    def cell(row, way, kinds, interactive=True):
        own, others, options = ways[way]
        time_s = ["--seconds", seconds]
        programs = [([plain("saturate"), kind, *time_s], trial.environment(**others)) for kind in kinds]
        if interactive:
            programs.append(([plain("interactive"), *time_s, *options], trial.environment(**own)))
        results = together(trial, programs, seconds)
        units = {r["kind"]: round(r["units"] / r["seconds"], 1) for r in results if r and "kind" in r}
        waits = next(([r["p50_ms"], r["p99_ms"], r["worst_ms"]] for r in results if r and "p50_ms" in r), None)
        rows.setdefault(row, {})[way] = {"ms": waits, "units_per_s": units}
        print(f"{row:28} {way:12} {waits} {units}", flush=True)

    for way in ("slices", "mps"):
        cell("interactive alone", way, [])
    wanted = {row: kinds for row, kinds in KINDS.items() if row in trial.arguments.kinds}
    for kind in (row for row, kinds in wanted.items() if len(kinds) == 1):
        for way in ("mps", "60 %", "80 %"):
            cell(f"{kind} without", way, [kind], interactive=False)
    for way in ("slices", "mps", "60 %", "80 %"):
        if "all three" in wanted:
            cell("all three without", way, KINDS["all three"], interactive=False)
    for row, kinds in wanted.items():
        for way in ways:
            if time.monotonic() - trial.start < trial.arguments.limit - 20:
                cell(row, way, kinds)
    mps.stop()
    trial.result["rows"] = rows


def classes(trial, seconds):
    """The interactive program as one that others wait for, beside batch programs under MGB."""
    rows = {}

    programs_of = {"front": ("benches/plain", trial.front()), "rebuilt": ("benches/mgb", trial.environment(MGB="require")),
                   "parts": ("twins/benches", trial.environment(MGB="require"))}

    def cell(row, way, kinds, built, latency, interactive=True, seconds=seconds):
        folder, environment = trial.prefix / programs_of[built][0], programs_of[built][1]
        time_s = ["--seconds", seconds]
        own = environment | ({"MGB_CLASS": "latency"} if latency else {})
        programs = [([folder / "interactive", *time_s], own)] if interactive else []
        programs += [([folder / "saturate", kind, *time_s], environment) for kind in kinds]
        results = together(trial, programs, seconds)
        units = {r["kind"]: round(r["units"] / r["seconds"], 1) for r in results if r and "kind" in r}
        waits = next(([r["p50_ms"], r["p99_ms"], r["worst_ms"]] for r in results if r and "p50_ms" in r), None)
        rows.setdefault(row, {})[way] = {"ms": waits, "units_per_s": units}
        print(f"{row:28} {way:24} {waits} {units}", flush=True)

    for reserve in trial.arguments.reserves:
        trial.mgbd(options=["--latency-reserve", str(reserve)])
        for built in trial.arguments.built:
            name = f"{built}, {reserve} %"
            cell("interactive alone", name, [], built, True)
            wanted = {row: kinds for row, kinds in KINDS.items() if row in trial.arguments.kinds}
            if reserve == trial.arguments.reserves[0]:
                for row, kinds in wanted.items():
                    # Shares are probed for some seconds before they are mended.
                    cell(f"{row} without", name, kinds, built, False, interactive=False,
                         seconds=max(seconds, 11) if len(kinds) > 1 else seconds)
            for row, kinds in wanted.items():
                if time.monotonic() - trial.start < trial.arguments.limit - 20:
                    cell(row, name, kinds, built, True)
        trial.stop_mgbd()
    trial.result["rows"] = rows


def launches(trial):
    """What 100,000 launches of a batch program cost beside a latency program that has next to no work, over what they cost
    alone, in turns."""
    trial.mgbd()
    for name, folder, environment in (("rebuilt", "mgb", trial.environment(MGB="require")), ("front", "plain", trial.front())):
        program = trial.prefix / "benches" / folder
        seen = {False: [], True: []}
        for turn in range(2 * trial.arguments.runs):
            is_beside = turn % 4 in (1, 2)
            if is_beside:
                other = trial.spawn([program / "interactive", "--seconds", 60, "--period", 500],
                                    environment | {"MGB_CLASS": "latency"}, stdin=subprocess.PIPE)
                other.stdout.readline()
                other.stdin.write("\n")
                other.stdin.flush()
            done = trial.run([program / "overhead", "launches"], environment)
            if is_beside:
                kill_group(other)
                other.wait()
                trial.running.remove(other)
                trial.until(lambda: not trial.status()["tasks"])
            if done["code"] != 0:
                trial.check(f"{name}: launches", False, done)
                return
            seen[is_beside].append(int(done["stdout"].split()[1]) / 1e6)
        alone, beside = statistics.median(seen[False]), statistics.median(seen[True])
        trial.check(f"{name}: launches beside a latency program over those alone", beside / alone <= 1.03,
                    {"bar": 1.03, "ratio": round(beside / alone, 3), "ms": [round(each, 1) for each in (beside, alone)]})
    trial.stop_mgbd()


def main():
    trial = Trial("latency", __doc__, lambda parser: (
        parser.add_argument("--hardware", action="store_true", help="what GPU and MPS do by themselves"),
        parser.add_argument("--launches", action="store_true", help="what launches cost beside a latency program"),
        parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="batch programs (default: all)"),
        parser.add_argument("--built", nargs="*", default=["front", "rebuilt"],
                            help="how programs are built: front (not), rebuilt, or parts (with twins that are run; make twins)"),
        parser.add_argument("--runs", type=int, default=7, help="pairs of measurements of launches (default 7)"),
        parser.add_argument("--reserves", type=int, nargs="*", default=[10, 0], help="values of --latency-reserve"),
        parser.add_argument("--seconds", type=float, default=2.5, help="how long each is measured")))
    if trial.arguments.hardware:
        trial.name = "latency-hardware"
        hardware(trial, trial.arguments.seconds)
    elif trial.arguments.launches:
        trial.name = "latency-launches"
        launches(trial)
    else:
        classes(trial, trial.arguments.seconds)
    trial.finish()


main()

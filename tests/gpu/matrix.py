#!/usr/bin/env python3
"""The matrix on real GPUs: a closed program, one that may load libraries and one linked with a library, each on one and on
two GPUs, with one thread and a thread per device, in default streams, streams of its own and graphs, with pinned, pageable
and managed memory. Under MGB each prints what it prints natively, and takes no GPU twice for two devices."""

import itertools
import json

from trial import Nvml, Trial

PROGRAMS = ["matrix", "matrix_loads", "matrix_linked"]
ARRANGEMENTS = [["one", "each"], ["default", "streams", "graphs"], ["pinned", "pageable", "managed"]]


def main():
    trial = Trial("matrix", __doc__)
    gpus = len(Nvml().gpus)
    trial.result["gpus"] = gpus
    counts = [devices for devices in (1, 2) if devices <= gpus]
    cases = list(itertools.product(PROGRAMS, itertools.product(*ARRANGEMENTS), counts))
    natively = {}
    for program, words, devices in cases:
        ended = trial.run([trial.prefix / "matrix/plain" / program, *words, devices])
        natively[program, words, devices] = ended["stdout"] if ended["code"] == 0 else None
        if ended["code"] != 0:
            trial.check(f"{program} {' '.join(words)} on {devices}, plain", False, ended["stderr"][-300:])
    trial.mgbd()
    for program in PROGRAMS:
        wrong, shared, seconds = [], [], 0.0
        for words, devices in [case[1:] for case in cases if case[0] == program]:
            trace = trial.folder / "trace"
            trace.unlink(missing_ok=True)
            environment = trial.environment(MGB="require", MGB_TRACE=trace)
            ended = trial.run([trial.prefix / "matrix/mgb" / program, *words, devices], environment)
            seconds += ended["seconds"]
            name = f"{' '.join(words)} on {devices}"
            if ended["code"] != 0 or ended["stdout"] != natively[program, words, devices]:
                wrong.append(f"{name}: exit code {ended['code']}: {ended['stdout']}{ended['stderr'][-200:]}")
            used = {task["gpu"] for line in trace.read_text().splitlines() for task in json.loads(line)["tasks"]}
            if len(used - {None}) < devices:
                shared.append(name)
        trial.check(f"{program} prints under MGB what it prints natively", not wrong,
                    {"cases": len(cases) // len(PROGRAMS), "seconds": round(seconds, 1), "wrong": wrong[:20]})
        trial.check(f"{program} has a GPU for each device", not shared, shared[:20] or None)
    trial.finish()


main()

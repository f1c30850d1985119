#!/usr/bin/env python3
"""What PyTorch computes, plain and under `mgb run`: one sample of every operator in PyTorch's own test database, and 20
steps of models of torchvision and transformers. What a plain program does not give twice alike is left out, and counted."""

import importlib.util
import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

from trial import Trial

FOLDER = pathlib.Path(__file__).resolve().parent / "frameworks"
PROGRAMS = {"operators": ("operators.py", []), "models": ("models.py", []), "models, compiled": ("models.py", ["compile"])}


def main():
    trial = Trial("operators", __doc__)
    if importlib.util.find_spec("torch") is None:
        trial.check("PyTorch: not on this machine, left out", True)
        trial.finish()
    trial.mgbd()
    def play(way, name):
        script, arguments = PROGRAMS[name]
        caches = trial.folder / f"caches-{way}-{name.split(',')[-1].strip()}"
        more = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TORCHINDUCTOR_CACHE_DIR": caches / "inductor",
                "TRITON_CACHE_DIR": caches / "triton", "OMP_NUM_THREADS": max(1, (os.cpu_count() or 4) // 6)}
        command = [sys.executable, FOLDER / script, *arguments]
        if way == "mgb":
            return trial.run([trial.prefix / "bin/mgb", "run", "--", *command], trial.environment(MGB="require", **more))
        return trial.run(command, trial.environment(MGB="off", **more))
    # All at once: what is compared is what they compute.
    ways = ("plain", "again", "mgb")
    with ThreadPoolExecutor(len(PROGRAMS) * len(ways)) as pool:
        played = {(way, name): pool.submit(play, way, name) for name in PROGRAMS for way in ways}
    for name in PROGRAMS:
        said = {}
        for way in ways:
            ended = played[way, name].result()
            if ended["code"] != 0:
                trial.check(f"{name}, {way}: ends with 0", False,
                            {"code": ended["code"], "last": ended["stdout"][-300:], "errors": ended["stderr"][-3000:]})
            said[way] = dict(line.rsplit(" ", 1) for line in ended["stdout"].splitlines() if " " in line)
        steady = [case for case, what in said["plain"].items() if said["again"].get(case) == what]
        differing = {case: [said["plain"][case], said["mgb"].get(case)] for case in steady
                     if said["mgb"].get(case) != said["plain"][case]}
        raised = {case: what for case, what in said["plain"].items() if what.startswith("raised:")}
        figure = {"cases": len(said["plain"]), "steady": len(steady), "raised": raised,
                  "unsteady": [case for case in said["plain"] if case not in steady][:60], "differing": differing}
        trial.check(f"{name}: the same under MGB", steady and not differing and len(said["mgb"]) == len(said["plain"]), figure)
        # Operators may be beyond the machine; models are not.
        trial.check(f"{name}: they give results", len(raised) <= (len(said["plain"]) // 50 if name == "operators" else 0), raised)
    trial.finish()


main()

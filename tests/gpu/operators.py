#!/usr/bin/env python3
"""What PyTorch computes, plain and under `mgb run`: one sample of every operator in PyTorch's own test database, and 20
steps of models of torchvision and transformers. What a plain program does not give twice alike is left out, and counted."""

import importlib.util
import os
import pathlib
import sys

from trial import Trial

FOLDER = pathlib.Path(__file__).resolve().parent / "frameworks"
PROGRAMS = {"operators": ("operators.py", []), "models": ("models.py", []), "models, compiled": ("models.py", ["compile"])}


def main():
    trial = Trial("operators", __doc__)
    if importlib.util.find_spec("torch") is None:
        trial.check("PyTorch: not on this machine, left out", True)
        trial.finish()
    trial.mgbd()
    def start(way, name):
        script, arguments = PROGRAMS[name]
        caches = trial.folder / f"caches-{way}-{name.split(',')[-1].strip()}"
        more = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TORCHINDUCTOR_CACHE_DIR": caches / "inductor",
                "TRITON_CACHE_DIR": caches / "triton", "OMP_NUM_THREADS": max(1, (os.cpu_count() or 4) // 6)}
        command = [sys.executable, FOLDER / script, *arguments]
        if way == "mgb":
            return trial.spawn([trial.prefix / "bin/mgb", "run", "--", *command], trial.environment(MGB="require", **more))
        return trial.spawn(command, trial.environment(MGB="off", **more))
    # All at once: what is compared is what they compute.
    running = {(way, name): start(way, name) for name in PROGRAMS for way in ("plain", "again", "mgb")}
    ended = {key: (*process.communicate(timeout=trial.left()), process.returncode) for key, process in running.items()}
    trial.running = [process for process in trial.running if process not in running.values()]
    for name in PROGRAMS:
        said = {}
        for way in ("plain", "again", "mgb"):
            output, errors, code = ended[way, name]
            if code != 0:
                trial.check(f"{name}, {way}: ends with 0", False, {"code": code, "last": output[-300:], "errors": errors[-3000:]})
            said[way] = dict(line.split(" ", 1) if name == "operators" else line.rsplit(" ", 1)
                             for line in output.splitlines() if " " in line)
        steady = [case for case, what in said["plain"].items() if said["again"].get(case) == what]
        differing = {case: [said["plain"][case], said["mgb"].get(case)] for case in steady
                     if said["mgb"].get(case) != said["plain"][case]}
        plain = said["plain"].values()
        figure = {"cases": len(said["plain"]), "steady": len(steady), "exceptions": sum(what.endswith("Error") for what in plain),
                  "unsteady": [case for case in said["plain"] if case not in steady][:60], "differing": differing}
        trial.check(f"{name}: the same under MGB", steady and not differing and len(said["mgb"]) == len(said["plain"]), figure)
    trial.finish()


main()

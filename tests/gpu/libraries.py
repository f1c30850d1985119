#!/usr/bin/env python3
"""Programs that use CUDA's libraries, plain and under MGB, alone and all at once: the same output, each held against a model
on the host. The libraries come from the machine's own CUDA."""

import json
from concurrent.futures import ThreadPoolExecutor

from trial import Trial

PROGRAMS = ["blas", "fft", "rand", "solver", "sparse", "thrust", "cub"]
ROUNDS = 3


def main():
    trial = Trial("libraries", __doc__)
    folder = trial.prefix / "libraries"
    there = [name for name in PROGRAMS if (folder / "mgb" / name).exists()]
    trial.result["left out"] = [name for name in PROGRAMS if name not in there]
    if trial.result["left out"]:
        print("left out, as the bundle was built without these libraries:", *trial.result["left out"])
    trial.mgbd()
    libraries = trial.environment()["LD_LIBRARY_PATH"] + ":/usr/local/cuda/lib64"

    def play(name, kind, trace=None):
        more = {"MGB": "off"} if kind == "plain" else {"MGB": "require", **({"MGB_TRACE": trace} if trace else {})}
        return trial.run([folder / kind / name], timeout=90,
                         env=trial.environment(LD_LIBRARY_PATH=libraries, **more))

    plain = {}
    for name in there:
        trace = trial.folder / f"{name}.trace"
        plain[name], shared = play(name, "plain"), play(name, "mgb", trace)
        same = plain[name]["code"] == shared["code"] == 0 and plain[name]["stdout"] == shared["stdout"]
        lines = [json.loads(line) for line in trace.read_text().splitlines()] if trace.exists() else []
        trial.check(f"{name}: same output plain and under MGB", same,
                    {"output": plain[name]["stdout"].strip(), "codes": [plain[name]["code"], shared["code"]],
                     "seconds": [round(run["seconds"], 2) for run in (plain[name], shared)],
                     "open": [line.get("open") for line in lines],
                     "errors": (plain[name]["stderr"] + shared["stderr"])[-1500:]})
    jobs = there * ROUNDS
    with ThreadPoolExecutor(len(jobs) or 1) as pool:
        together = list(pool.map(lambda name: play(name, "mgb"), jobs))
    wrong = [f"{name}: {ended['code']} {ended['stderr'][-300:]}" for name, ended in zip(jobs, together)
             if ended["code"] != 0 or ended["stdout"] != plain[name]["stdout"]]
    trial.check(f"{len(jobs)} at once under MGB", bool(jobs) and not wrong, wrong or None)
    trial.finish()


main()

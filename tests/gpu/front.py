#!/usr/bin/env python3
"""The driver front on a real GPU: frameworks without it, with the front before the driver, and under mgbd with it. The same
results in every bit, everything reaches the front, and what it costs. Frameworks that this machine lacks are named."""

import importlib.util
import pathlib
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from trial import Trial

FOLDER = pathlib.Path(__file__).resolve().parent / "frameworks"
# A program, its arguments, more variables, and the module that it needs.
PROGRAMS = {
    "torch": ("torch_work.py", [], {}, "torch"),
    "torch, expandable segments": ("torch_work.py", [], {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "torch"),
    "torch, cudaMallocAsync": ("torch_work.py", ["ASYNC"], {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, "torch"),
    "jax": ("jax_work.py", [], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                                "XLA_FLAGS": "--xla_gpu_autotune_level=0"}, "jax"),
    "cupy": ("cupy_work.py", [], {}, "cupy"),
    "triton": ("triton_work.py", [], {}, "triton"),
}
# A program, its module, and what the ratio of each time must not exceed.
COSTS = {
    "torch_work.py": ("torch", {"launches": 1.03, "step": 1.01}),
    "cupy_work.py": (None, {"allocations": 1.05}),
}


def play(trial, way, script, arguments, more):
    more = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", **more}
    environment = trial.environment(MGB="off", **more) if way == "plain" else trial.front(**more)
    if way == "front":
        environment["MGB"] = "off"
    return trial.run([sys.executable, FOLDER / script, *arguments], environment)


def loaded(trial, way):
    """Which libraries of that name a program has, which loads the driver by its soname."""
    code = ("import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0); "
            "print(*sorted({line.split()[-1] for line in open('/proc/self/maps') if 'libcuda.so' in line}))")
    environment = trial.environment()
    if way == "front":
        environment["LD_LIBRARY_PATH"] = f"{trial.prefix / 'lib/front'}:{environment['LD_LIBRARY_PATH']}"
    return trial.run([sys.executable, "-c", code], environment)["stdout"].split()


def times(ended):
    lines = (line.split() for line in ended["stderr"].splitlines())
    return {words[1]: float(words[2]) for words in lines if len(words) == 3 and words[0] == "time"}


def main():
    trial = Trial("front", __doc__, lambda parser: (
        parser.add_argument("--runs", type=int, default=5, help="runs of each cost (default 5)"),
        parser.add_argument("--costs", action="store_true", help="only what it costs")))
    there = lambda module: module is None or importlib.util.find_spec(module) is not None
    libraries = {way: loaded(trial, way) for way in ("plain", "front")}
    front = str(trial.prefix / "lib/front/libcuda.so.1")
    trial.mgbd()
    trial.check("the front is loaded before the driver", len(libraries["plain"]) == 1 and
                sorted(libraries["front"]) == sorted([*libraries["plain"], front]), libraries)
    programs = {} if trial.arguments.costs else PROGRAMS
    # All at once: what is compared is what they compute.
    with ThreadPoolExecutor(8) as pool:
        played = {name: [pool.submit(play, trial, way, script, arguments, more) for way in ("plain", "front", "mgb", "plain")]
                  for name, (script, arguments, more, module) in programs.items() if there(module)}
    for name in programs:
        if name not in played:
            trial.check(f"{name}: not on this machine, left out", True)
            continue
        plain, front, mgb, again = (ended.result() for ended in played[name])
        if plain["stdout"] != again["stdout"]:
            trial.check(f"{name}: the same twice without the front", False, [plain["stdout"], again["stdout"]])
            continue
        for way, ended in (("front", front), ("mgb", mgb)):
            same = plain["code"] == ended["code"] == 0 and plain["stdout"] == ended["stdout"]
            figure = {"lines": len(plain["stdout"].splitlines())} if same else {"plain": plain, way: ended}
            trial.check(f"{name}: the same in every bit, {way}", same and plain["stdout"], figure)
    for script, (module, bars) in COSTS.items():
        if not there(module):
            continue
        seen = {way: [] for way in ("plain", "front", "mgb")}
        for turn in range(trial.arguments.runs):
            for way in sorted(seen, reverse=turn % 2 == 1):
                ended = play(trial, way, script, ["cost"], {})
                if ended["code"] != 0:
                    trial.check(f"{script}: ends with 0, {way}", False, ended)
                    trial.finish()
                seen[way].append(times(ended))
        for what, bar in bars.items():
            median = {way: statistics.median(run[what] for run in runs) for way, runs in seen.items()}
            spread = {way: [round(f(run[what] for run in runs), 4) for f in (min, max)] for way, runs in seen.items()}
            for way in ("front", "mgb"):
                ratio = round(median[way] / median["plain"], 4)
                figure = {"ratio": ratio, "bar": bar, "seconds": median, "spread": spread}
                trial.check(f"{what}: cost, {way}", ratio <= bar, figure)
    trial.finish()


main()

#!/usr/bin/env python3
"""The driver front on a real GPU: frameworks without it, with the front before the driver, and under mgbd with it. The same
results in every bit, and everything reaches the front. Frameworks that this machine lacks are named."""

import importlib.util
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

from trial import Trial

FOLDER = pathlib.Path(__file__).resolve().parent / "frameworks"
# The exit code of a program whose package cannot use a GPU.
NOT_HERE = 77
# A program, its arguments, more variables, and the module that it needs.
PROGRAMS = {
    "torch": ("torch_work.py", [], {}, "torch"),
    "torch, expandable segments": ("torch_work.py", [], {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "torch"),
    "torch, cudaMallocAsync": ("torch_work.py", ["ASYNC"], {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, "torch"),
    "jax": ("jax_work.py", [], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                                "XLA_FLAGS": "--xla_gpu_autotune_level=0"}, "jax"),
    "cupy": ("cupy_work.py", [], {}, "cupy"),
    "triton": ("triton_work.py", [], {}, "triton"),
    "onnxruntime": ("onnx_work.py", [], {}, "onnxruntime"),
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


def main():
    trial = Trial("front", __doc__)
    there = lambda module: module is None or importlib.util.find_spec(module) is not None
    libraries = {way: loaded(trial, way) for way in ("plain", "front")}
    front = str(trial.prefix / "lib/front/libcuda.so.1")
    trial.mgbd()
    trial.check("the front is loaded before the driver", len(libraries["plain"]) == 1 and
                sorted(libraries["front"]) == sorted([*libraries["plain"], front]), libraries)
    # All at once: what is compared is what they compute.
    with ThreadPoolExecutor(8) as pool:
        played = {name: [pool.submit(play, trial, way, script, arguments, more) for way in ("plain", "front", "mgb", "plain")]
                  for name, (script, arguments, more, module) in PROGRAMS.items() if there(module)}
    for name in PROGRAMS:
        if name not in played:
            trial.check(f"{name}: not on this machine, left out", True)
            continue
        plain, front, mgb, again = (ended.result() for ended in played[name])
        if plain["code"] == NOT_HERE:
            trial.check(f"{name}: uses no GPU on this machine, left out", True)
            continue
        if plain["stdout"] != again["stdout"]:
            trial.check(f"{name}: the same twice without the front", False, [plain["stdout"], again["stdout"]])
            continue
        for way, ended in (("front", front), ("mgb", mgb)):
            same = plain["code"] == ended["code"] == 0 and plain["stdout"] == ended["stdout"]
            figure = {"lines": len(plain["stdout"].splitlines())} if same else {"plain": plain, way: ended}
            trial.check(f"{name}: the same in every bit, {way}", same and plain["stdout"], figure)
    trial.finish()


main()

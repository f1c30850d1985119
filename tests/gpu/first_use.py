#!/usr/bin/env python3
"""Code that libraries load when the GPU is full: natively the call fails, under MGB it waits for room. A PyTorch
program holds a tensor; another program takes what is left of the GPU; then PyTorch uses libraries for the first time."""

import importlib.util
import pathlib
import subprocess
import sys
import time

from trial import MIB, Nvml, Trial

PROGRAM = pathlib.Path(__file__).resolve().parent / "frameworks/first_use.py"
# What is left to PyTorch, and how long the other program stays.
LEFT, STAYS = 24 * MIB, 6.0


def play(trial, environment):
    """Whether the program ended right, whether it did so before the other one was gone, and what it printed."""
    program = trial.spawn([sys.executable, PROGRAM], environment, stdin=subprocess.PIPE)
    line = program.stdout.readline()
    if "holds" not in line:
        sys.exit(f"first_use: {line}{program.communicate()[1][-2000:]}")
    other = trial.ballast(LEFT, 0)
    free = Nvml().free(0)
    trial.check("the GPU is full", free < 2 * LEFT, f"{free / MIB:.0f} MiB free")
    began = time.monotonic()
    program.stdin.write("\n")
    program.stdin.flush()
    while program.poll() is None and time.monotonic() - began < STAYS:
        time.sleep(0.05)
    early = program.poll() is not None
    trial.running.remove(other)
    other.kill()
    other.wait()
    output, errors = program.communicate(timeout=60)
    trial.running.remove(program)
    return program.returncode == 0, early, [output.strip(), errors[-400:]]


def main():
    trial = Trial("first_use", __doc__)
    if importlib.util.find_spec("torch") is None:
        trial.check("PyTorch: not on this machine, left out", True)
        trial.finish()
    visible = {"CUDA_VISIBLE_DEVICES": "0"}
    right, _, said = play(trial, trial.environment(**visible))
    trial.check("natively it fails, or this shows nothing", not right, said)
    trial.mgbd(**visible)
    right, early, said = play(trial, trial.front(**visible))
    trial.check("under MGB it waits", not early)
    trial.check("and ends right once there is room", right, said)
    trial.finish()


main()

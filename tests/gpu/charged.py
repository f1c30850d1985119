#!/usr/bin/env python3
"""What programs that were not built with MGB hold, as the driver says and as mgbd has it charged: no more than 64 MiB apart in
each framework. And the kernels that they launched, as they count them and as the driver front does."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import time

from trial import MIB, Nvml, Trial

HOLDS = pathlib.Path(__file__).resolve().parent / "frameworks/holds.py"
# A way, its module, and more variables.
WAYS = {
    "driver": (None, {}),
    "torch": ("torch", {}),
    "torch-expandable": ("torch", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "torch-async": ("torch", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "jax": ("jax", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    "cupy": ("cupy", {}),
    "cupy-async": ("cupy", {}),
    "cupy-managed": ("cupy", {}),
}
# Beside the context. More may be charged than the driver says: it counts managed memory for no process.
BAR = 64 * MIB


def main():
    trial = Trial("charged", __doc__)
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    there = {way: more for way, (module, more) in WAYS.items() if module is None or importlib.util.find_spec(module)}
    for way in WAYS.keys() - there.keys():
        trial.check(f"{way}: not on this machine, left out", True)
    nvml = Nvml()

    def start(way):
        trace = trial.folder / f"{way}.jsonl"
        environment = trial.front(CUDA_VISIBLE_DEVICES="0", MGB_TRACE=trace, **there[way])
        process = trial.spawn([sys.executable, HOLDS, way], environment, stdin=subprocess.PIPE)
        return process, trace, process.stdout.readline()

    # One after another holds its memory, so that what the node has beside it is one program's.
    for way in there:
        process, trace, line = start(way)
        if not line.startswith("launched"):
            trial.check(f"{way}: holds memory", False, process.communicate()[1][-2000:])
            continue
        # mgbd looks at the driver's list once a second.
        time.sleep(3)
        status = trial.status()
        gpu = status["gpus"][0]
        held = sum(task["held_bytes"] for task in status["tasks"] if task["pid"] == process.pid)
        context = gpu["gpu"]["context_bytes"]
        taken = dict(nvml.processes(0)).get(process.pid)
        if taken is None:
            trial.check(f"{way}: the driver lists the process", False, nvml.processes(0))
            process.kill()
            continue
        beside = taken - context - held
        figure = {"MiB": {"driver": taken >> 20, "charged": held >> 20, "context": context >> 20,
                          "seen beside it": gpu["overhead_bytes"] >> 20, "difference": beside // MIB}}
        trial.check(f"{way}: what is held is charged, with what is seen beside it",
                    beside - gpu["overhead_bytes"] <= BAR, figure)
        process.stdin.close()
        code = process.wait(60)
        trial.running.remove(process)
        lines = [json.loads(text) for text in trace.read_text().splitlines()]
        counted = sum(task["launches"] or 0 for each in lines for task in each["tasks"])
        trial.check(f"{way}: ends with 0", code == 0, code)
        made = line.split()[1]
        # JAX does not say how many it makes.
        if made != "None":
            trial.check(f"{way}: launches counted are launches made", made == str(counted), {"made": made, "counted": counted})
    trial.finish()


main()

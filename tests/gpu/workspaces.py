#!/usr/bin/env python3
"""Memory that programs take past the runtime, as libraries do: the driver's list of processes says whose it is, under MPS as
well, and in the next run it is kept for them. Memory is short by a ballast."""

import statistics
import time

from trial import MIB, Nvml, Trial

OWN, WORKSPACE, NEIGHBOUR = 512, 2048, 2048


def main():
    trial = Trial("workspaces", __doc__)
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    # With the driver loaded first MGB's front is not there, and the workspace is not seen as it is taken.
    environment = trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0", LD_PRELOAD="libcuda.so.1")

    def start(turn):
        files = [trial.folder / f"{name}{turn}" for name in ("takes", "ends")]
        return trial.spawn([trial.example("workspace"), OWN, WORKSPACE, *files], environment), files

    def gpu():
        return trial.status()["gpus"][0]

    def ends(process):
        output, errors = process.communicate(timeout=trial.left())
        trial.running.remove(process)
        return process.returncode == 0 and "PASS" in output, errors[-300:] or None

    first, files = start(1)
    trial.check("before there is a workspace, nothing is taken for one",
                trial.until(lambda: gpu()["resident_bytes"] >= OWN * MIB)
                and not trial.until(lambda: gpu()["overhead_bytes"] > 64 * MIB, 3),
                gpu()["overhead_bytes"])
    files[0].touch()
    trial.check("the workspace is seen", trial.until(lambda: gpu()["overhead_bytes"] >= WORKSPACE * MIB - 64 * MIB),
                {name: gpu()[name] for name in ("overhead_bytes", "foreign_bytes", "contexts_bytes", "resident_bytes")})
    files[1].touch()
    trial.check("its program is right", *ends(first))

    # Both fit beside a small neighbour, and not beside another large one.
    context = gpu()["gpu"]["context_bytes"]
    trial.ballast(2 * context + (OWN + WORKSPACE + NEIGHBOUR - 256) * MIB, 0)
    second, files = start(2)
    trial.check("it is kept in the next run", trial.until(lambda: gpu()["headroom_bytes"] >= WORKSPACE * MIB - 64 * MIB),
                gpu()["headroom_bytes"])
    waits = trial.spawn([trial.example("phases"), NEIGHBOUR, 1, 0], environment)
    trial.check("the neighbour waits", trial.until(lambda: trial.status()["queue"]))
    files[0].touch()
    trial.check("what is taken is kept no more", trial.until(lambda: gpu()["headroom_bytes"] < 64 * MIB), gpu()["headroom_bytes"])
    files[1].touch()
    for what, process in (("the program", second), ("its neighbour", waits)):
        trial.check(f"{what} is right", *ends(process))

    # What a look costs mgbd, which makes one a second and GPU.
    nvml = Nvml()
    processes = [start(turn)[0] for turn in range(3, 7)]
    trial.until(lambda: gpu()["processes"] >= 1)
    seconds = []
    for _ in range(50):
        began = time.perf_counter()
        nvml.processes(0)
        seconds.append(time.perf_counter() - began)
    trial.check("a list of processes takes less than 5 ms", statistics.median(seconds) < 0.005,
                {"median_us": round(statistics.median(seconds) * 1e6), "most_us": round(max(seconds) * 1e6),
                 "listed": len(nvml.processes(0))})
    for process in processes:
        process.kill()
    trial.finish()


main()

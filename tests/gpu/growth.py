#!/usr/bin/env python3
"""Growing at once: four processes on one GPU, 12 GiB left after their contexts, hold 3.61, 1.36, 1.88, 3.88 GiB and
then ask for 3.36, 3.09, 3.51, 2.51 GiB more at the same moment. All must finish with the right result. With --plain
the programs were not built with MGB."""

import time

from trial import GIB, MIB, Nvml, Trial

PROGRAMS = [("3.61GiB", "3.36GiB"), ("1.36GiB", "3.09GiB"), ("1.88GiB", "3.51GiB"), ("3.88GiB", "2.51GiB")]
# A context of each, and the MPS server's own.
CONTEXT, SERVER = 526 * MIB, 66 * MIB


def main():
    trial = Trial("growth", __doc__, lambda parser: (
        parser.add_argument("--room", default=12.0, type=float, help="GiB left after the contexts"),
        parser.add_argument("--plain", action="store_true", help="programs that were not built with MGB")))
    plain = trial.arguments.plain
    nvml = Nvml()
    leave = int(trial.arguments.room * GIB) + 4 * CONTEXT + SERVER
    visible = {"CUDA_VISIBLE_DEVICES": "0"}
    trial.ballast(leave, gpu=0)
    trial.mgbd(**visible)
    free = nvml.free(0)
    trial.check("ballast left what was asked for", abs(free - leave) < 64 * MIB, f"{free / GIB:.2f} GiB free")
    barrier = trial.folder / "barrier"
    barrier.mkdir()

    began = time.monotonic()
    environment = trial.front(**visible) if plain else trial.environment(MGB="require", **visible)
    processes = [trial.spawn([trial.example("grow", plain), hold, more, "--barrier", barrier, "4"], environment)
                 for hold, more in PROGRAMS]
    lowest = free
    ended = {}
    while len(ended) < len(processes) and trial.left() > 5:
        lowest = min(lowest, nvml.free(0))
        for index, process in enumerate(processes):
            if index not in ended and process.poll() is not None:
                ended[index] = time.monotonic() - began
        time.sleep(0.005)
    for index, process in enumerate(processes):
        if index not in ended:
            trial.check(f"grow {' '.join(PROGRAMS[index])} ended", False, "still runs: " + str(trial.status())[:2000])
            continue
        output, errors = process.communicate()
        trial.running.remove(process)
        trial.check(f"grow {' '.join(PROGRAMS[index])}", process.returncode == 0 and "PASS" in output,
                    {"seconds": round(ended[index], 2), "output": output.strip(), "errors": errors[-1000:]})
    trial.check("lowest free memory seen", True, f"{lowest / MIB:.0f} MiB")
    trial.finish()


main()

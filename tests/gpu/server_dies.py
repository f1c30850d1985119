#!/usr/bin/env python3
"""MPS's server is killed (SIGKILL) under programs at work: all on the GPU are hit, are told so, and a batch runs them again; a newcomer
is served within seconds. A program whose kernel never ends is killed beside others, who go on."""

import json
import os
import pathlib
import signal
import time

from trial import Trial

JOBS = 4
LINE = "mgb: the GPU failed under this program"


def servers():
    """Pids of MPS servers: the control daemon's children of that name."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        if name.startswith("nvidia-cuda-mps") and "server" in (folder / "cmdline").read_bytes().decode(errors="replace"):
            found.append(int(folder.name))
    return found


def main():
    trial = Trial("server_dies", __doc__)
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    environment = trial.environment(MGB="require")
    words = [256, 200, 15, "wait", 200, 8]
    programs = [trial.spawn([trial.example("phases", plain=at % 2 == 1), *words],
                            trial.front() if at % 2 else environment) for at in range(JOBS)]
    deadline = time.monotonic() + 30
    while len([task for task in trial.status()["tasks"] if task["held_bytes"]]) < JOBS and time.monotonic() < deadline:
        time.sleep(0.05)
    killed = servers()
    trial.check("there is one server", len(killed) == 1, killed)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    # Who asks for a context while the server dies hangs in the driver, with and without MGB; soon after nobody does.
    time.sleep(1)
    began = time.monotonic()
    served = None
    while served is None and time.monotonic() < began + 30:
        newcomer = trial.run([trial.example("phases"), 1, 2, 0, "wait", 10, 8], environment, timeout=30)
        if newcomer["code"] == 0 and "PASS" in newcomer["stdout"]:
            served = time.monotonic() - began
    trial.check("a newcomer is served within 5 s", served is not None and served <= 5, served and round(served, 2))
    ends = []
    for program in programs:
        output, errors = program.communicate(timeout=trial.left())
        trial.running.remove(program)
        ends.append({"code": program.returncode, "told": LINE in errors, "pass": "PASS" in output, "said": errors[-200:]})
    told = all(end["told"] or end["code"] != 0 for end in ends)
    trial.check("who was on the GPU is told, or fails", told, ends)
    jobs = trial.folder / "jobs.txt"
    jobs.write_text("".join(f"{trial.example('phases', plain=at % 2 == 1)} 256 200 15 wait 200 8\n" for at in range(JOBS)))
    batch = trial.spawn([trial.prefix / "bin/mgb", "batch", jobs, "-j", JOBS, "--json", "--again", "--logs",
                         trial.folder / "logs"], environment)
    deadline = time.monotonic() + 30
    while len([task for task in trial.status()["tasks"] if task["held_bytes"]]) < JOBS and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in servers():
        os.kill(pid, signal.SIGKILL)
    output, errors = batch.communicate(timeout=trial.left())
    trial.running.remove(batch)
    came = json.loads(output)["jobs"] if output else []
    right = batch.returncode == 0 and all(job["state"] == "done" for job in came)
    trial.check("a batch runs again what it has failed", right and any(job["again"] for job in came),
                [(job["state"], job["again"], (job["cause"] or {}).get("kind")) for job in came] or errors[-300:])
    # A kernel without an end: hours of work in one launch, killed after a second.
    neighbours = [trial.spawn([trial.example("phases"), 64, 60, 15, "wait", 200, 8], environment) for _ in range(2)]
    hangs = trial.spawn([trial.example("phases"), 64, 1, 0, "wait", 2000000000, 8], environment)
    time.sleep(4)
    os.killpg(hangs.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    hangs.communicate(timeout=30)
    trial.running.remove(hangs)
    ends = []
    for program in neighbours:
        output, errors = program.communicate(timeout=trial.left())
        trial.running.remove(program)
        ends.append(program.returncode == 0 and "PASS" in output)
    trial.check("neighbours of a killed endless kernel end right", all(ends), ends)
    newcomer = trial.run([trial.example("phases"), 1, 2, 0, "wait", 10, 8], environment, timeout=60)
    trial.check("and a newcomer is right after it", newcomer["code"] == 0 and "PASS" in newcomer["stdout"],
                round(time.monotonic() - killed_at, 1))
    trial.stop_mgbd()
    trial.finish()


main()

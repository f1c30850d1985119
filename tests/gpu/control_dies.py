#!/usr/bin/env python3
"""MPS's control daemon is killed (SIGKILL) again and again under programs at work: mgbd's holder starts another one, newcomers are
served within seconds, and whoever was on the GPU ends right or is told. At the end nothing of MPS is left."""

import os
import pathlib
import signal
import statistics
import time

from trial import Trial

AT_ONCE = 4
# Seconds.
MOST = 5
# One that has lived for longer is started again at once (STEADY_INTERVAL of mgbd's holder).
STEADY = 6
LINE = "mgb: the GPU failed under this program"


def processes(folder):
    """Pids of all that belongs to this trial's MPS, by the pipe directory in their environment."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text().strip()
            mine = str(folder).encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if name.startswith("nvidia-cuda-mps") and mine:
            found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return found


def main():
    trial = Trial("control_dies", __doc__, lambda parser: parser.add_argument(
        "--kills", type=int, default=20, help="kills of MPS's control daemon (default 20)"))
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    environment = trial.environment(MGB="require")
    pid_file = pathlib.Path(trial.status()["mps_pipe"]) / "nvidia-cuda-mps-control.pid"
    control = lambda: int(pid_file.read_text()) if pid_file.exists() else None
    words = [64, 20, 15, "wait", 100, 8]
    programs, ends, started = [], [], 0

    def fill():
        nonlocal started
        while len(programs) < AT_ONCE:
            plain = started % 2 == 1
            programs.append(trial.spawn([trial.example("phases", plain=plain), *words], trial.front() if plain else environment))
            started += 1

    def reap(everything=False):
        for program in list(programs):
            if everything or program.poll() is not None:
                output, errors = program.communicate(timeout=trial.left())
                programs.remove(program)
                trial.running.remove(program)
                ends.append({"code": program.returncode, "pass": "PASS" in output, "told": LINE in errors,
                             "said": errors[-300:]})

    newcomer = lambda: trial.run([trial.example("phases"), 1, 2, 0, "wait", 10, 8], environment, timeout=30)
    trial.check("a first program is right", "PASS" in newcomer()["stdout"])
    again, served, lost = [], [], []
    steady = time.monotonic() + STEADY
    for _ in range(trial.arguments.kills):
        reap()
        fill()
        trial.until(lambda: len([task for task in trial.status()["tasks"] if task["held_bytes"]]) >= 2, 10)
        trial.until(lambda: time.monotonic() >= steady, STEADY)
        old = control()
        began = time.monotonic()
        os.kill(old, signal.SIGKILL)
        came = trial.until(lambda: control() not in (None, old), 30)
        steady = time.monotonic() + STEADY
        again.append(round(time.monotonic() - began, 2))
        if not came:
            lost.append("no other control daemon came")
            break
        said = newcomer()
        # A program that came while there was none may fail as one that was at work.
        while said["code"] != 0 and time.monotonic() < began + 30:
            said = newcomer()
        served.append(round(time.monotonic() - began, 2))
        if said["code"] != 0 or "PASS" not in said["stdout"]:
            lost.append(said["stderr"][-300:])
    reap(True)
    trial.check(f"killed {trial.arguments.kills} times, it is there again each time", not lost,
                {"lost": lost[:3], "median_s": statistics.median(again), "most_s": max(again)})
    trial.check(f"a newcomer is right within {MOST} s", served and max(served) <= MOST,
                {"median_s": statistics.median(served), "most_s": max(served)} if served else None)
    right = [end for end in ends if end["code"] == 0 and end["pass"]]
    silent = [end for end in ends if end not in right and not end["told"]]
    trial.check("whoever was at work is right or is told", not silent,
                {"programs": len(ends), "right": len(right), "silent": silent[:3]})
    trial.check("nobody holds memory", trial.until(lambda: not trial.status()["tasks"], 10))
    trial.stop_mgbd()
    trial.check("and nothing of MPS is left", trial.until(lambda: not processes(trial.folder), 20), processes(trial.folder))
    trial.finish()


main()

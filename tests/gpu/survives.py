#!/usr/bin/env python3
"""mgbd ends under programs at work, and they do not notice: one runs on when mgbd gets SIGTERM, one when it gets SIGKILL and
another mgbd follows by itself, one when the holder is killed. All results are right, MPS is the same one throughout, and afterwards
neither an MPS process nor a holder is left."""

import os
import pathlib
import signal
import time

from trial import Trial

# About 20 s of short kernels and host phases (phases.cu, 64 MiB).
LONG = (64, 1100, 15, "wait", 200, 8)
SHORT = (64, 20, 15, "wait", 200, 8)


def processes(trial, *words):
    """Pids of processes whose command line has all of these, and this trial's folder in line or environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (folder / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in words) and str(trial.folder) in line + environment:
            found.append(int(folder.name))
    return sorted(found)


def settled(check, seconds=30):
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def phases(trial, arguments):
    return trial.spawn([trial.example("phases"), *(str(word) for word in arguments)], trial.environment(MGB="require"))


def ends(trial, what, program):
    output, errors = program.communicate(timeout=trial.left())
    trial.running.remove(program)
    trial.check(f"{what}: right", program.returncode == 0 and "PASS" in output, errors[-400:] or None)


def holds(trial, program):
    return settled(lambda: any(task["pid"] == program.pid for task in trial.status()["tasks"]))


def end_mgbd(trial, number):
    daemon, trial.daemon = trial.daemon, None
    began = time.monotonic()
    daemon.send_signal(number)
    daemon.wait(30)
    trial.running.remove(daemon)
    return round(time.monotonic() - began, 2)


def main():
    trial = Trial("survives", __doc__)
    holder = lambda: processes(trial, "mgbd", " hold ")
    # The holder's own command line names the control program as well.
    control = lambda: sorted(set(processes(trial, "nvidia-cuda-mps-control")) - set(holder()))

    trial.mgbd()
    first = phases(trial, LONG)
    trial.check("a program holds room", holds(trial, first))
    mps, held = control(), holder()
    trial.check("an MPS and a holder run", len(mps) == 1 and len(held) == 1, {"mps": mps, "holder": held})
    trial.check("SIGTERM ends mgbd at once", end_mgbd(trial, signal.SIGTERM) < 5)
    time.sleep(5)
    trial.check("the program runs on", first.poll() is None)
    trial.check("its MPS runs on", control() == mps, control())

    trial.mgbd()
    trial.check("the next mgbd goes on with both", control() == mps and holder() == held, {"mps": control(), "holder": holder()})
    second = phases(trial, LONG)
    trial.check("another program holds room", holds(trial, second))
    end_mgbd(trial, signal.SIGKILL)
    # As a user goes on.
    run = trial.run([trial.prefix / "bin/mgb", "run", trial.example("phases"), *(str(word) for word in SHORT)])
    trial.check("after a SIGKILL mgb run works", run["code"] == 0 and "PASS" in run["stdout"], run["stderr"][-400:] or None)
    trial.check("under the same MPS", control() == mps and holder() == held, {"mps": control(), "holder": holder()})
    ends(trial, "the program under whom mgbd was stopped", first)

    os.kill(held[0], signal.SIGKILL)
    trial.check("a killed holder is replaced", settled(lambda: len(holder()) == 1 and holder() != held), holder())
    ends(trial, "the program under whom mgbd and the holder were killed", second)

    said = trial.run([trial.prefix / "bin/mgb", "stop"])
    trial.check("mgb stop", said["code"] == 0 and "has ended" in said["stdout"], said["stdout"] + said["stderr"])
    trial.check("no MPS is left", settled(lambda: not processes(trial, "nvidia-cuda-mps")), processes(trial, "nvidia-cuda-mps"))
    trial.check("no holder is left", settled(lambda: not holder()), holder())

    # The last program stops what mgbd left to it.
    trial.mgbd(options=["--no-restart"])
    third = phases(trial, LONG)
    trial.check("a third program holds room", holds(trial, third))
    end_mgbd(trial, signal.SIGKILL)
    ends(trial, "the program whose mgbd was killed and not replaced", third)
    trial.check("MPS ends with the last program", settled(lambda: not processes(trial, "nvidia-cuda-mps") and not holder()),
                {"mps": processes(trial, "nvidia-cuda-mps"), "holder": holder()})
    trial.finish()


main()

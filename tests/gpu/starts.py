#!/usr/bin/env python3
"""Many processes that start together. The driver makes one after another ready, on the whole node: those that wait for room do
not touch it, and those that have room take turns, so that they are not all as late as the last."""

import os
import statistics
import time

from trial import MIB, Trial

# Times as many processes as have room.
CROWD = 4
DELAY = 1.5
# Processes that all have room, and how late they may be on average, of plain ones.
TOGETHER = 24
SOONER = 0.8


def touches_driver(pid):
    """Whether the process has a file of the driver open."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{name}").startswith("/dev/nvidia") for name in os.listdir(folder))
    except OSError:
        return False


def main():
    trial = Trial("starts", __doc__, lambda parser: (
        parser.add_argument("--left", type=int, default=2560, help="MiB left on each GPU"),
        parser.add_argument("--own", type=int, default=64, help="MiB that a process allocates, on the host as well")))
    own = trial.arguments.own
    ballast = trial.ballast(trial.arguments.left * MIB)
    trial.mgbd()
    environment = trial.environment(MGB="require")
    gpus = trial.status()["gpus"]
    # One context is the MPS server's.
    context = gpus[0]["gpu"]["context_bytes"]
    fit = int((trial.arguments.left * MIB - context) // (own * MIB + context)) * len(gpus)

    def ends(count, look=lambda pids: None, task=(own, 3, 200), plain=False, environment=environment):
        """The times at which so many processes end that start together, in order; none of them may fail."""
        command = [trial.example("phases", plain), *task, "wait", 10, 8]
        began = time.monotonic()
        processes = [trial.spawn(command, environment) for _ in range(count)]
        left, times = list(processes), []
        while left and trial.left() > 5:
            look({process.pid for process in left})
            for process in [process for process in left if process.poll() is not None]:
                left.remove(process)
                times.append(time.monotonic() - began)
            time.sleep(0.02)
        right = 0
        for process in processes:
            if process not in left:
                output, _ = process.communicate()
                trial.running.remove(process)
                right += process.returncode == 0 and "PASS" in output
        trial.check(f"{count} {'plain ' if plain else ''}processes are right", right == count, right)
        return times

    # The first client starts MPS's server.
    ends(1)
    alone = ends(fit)
    seen = []

    def look(pids):
        waiting = {entry["pid"] for entry in trial.status()["queue"]} & pids
        seen.append((len(waiting), sum(touches_driver(pid) for pid in waiting)))

    crowd = ends(CROWD * fit, look)
    most = max(seen)
    trial.check("many wait", most[0] >= fit, most[0])
    trial.check("nobody who waits touches the driver", not any(touch for _, touch in seen), max(touch for _, touch in seen))
    first, of_crowd = alone[-1], crowd[fit - 1]
    trial.check(f"those with room take at most {DELAY} times as long", of_crowd <= DELAY * first,
                {"alone_s": round(first, 2), "in the crowd_s": round(of_crowd, 2), "all_s": round(crowd[-1], 2), "fit": fit})
    # It ends with its input.
    ballast.communicate()
    trial.running.remove(ballast)
    plain = trial.environment(CUDA_MPS_PIPE_DIRECTORY=trial.status()["mps_pipe"])
    small = (16, 1, 10)
    of_plain = statistics.mean(ends(TOGETHER, task=small, plain=True, environment=plain))
    in_turn = ends(TOGETHER, task=small)
    trial.check(f"{TOGETHER} with room end on average after at most {SOONER} of what plain ones take",
                statistics.mean(in_turn) <= SOONER * of_plain,
                {"plain_s": round(of_plain, 2), "mgb_s": round(statistics.mean(in_turn), 2),
                 "first_s": round(in_turn[0], 2), "last_s": round(in_turn[-1], 2)})
    trial.finish()


main()

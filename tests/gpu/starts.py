#!/usr/bin/env python3
"""Many processes that start together, of which a quarter has room: those that wait do not touch the driver, which serves one
process after another on the whole node, and hardly delay those that were granted a GPU."""

import os
import time

from trial import MIB, Trial

# Times as many processes as have room.
CROWD = 4
DELAY = 1.5


def touches_driver(pid):
    """Whether the process has a file of the driver open."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{name}").startswith("/dev/nvidia") for name in os.listdir(folder))
    except OSError:
        return False


def main():
    trial = Trial("starts", __doc__, lambda parser: (
        parser.add_argument("--left", type=int, default=8192, help="MiB left on each GPU"),
        parser.add_argument("--own", type=int, default=1536, help="MiB that a process allocates")))
    own = trial.arguments.own
    trial.ballast(trial.arguments.left * MIB)
    trial.mgbd()
    environment = trial.environment(MGB="require")
    gpus = trial.status()["gpus"]
    # One context is the MPS server's.
    context = gpus[0]["gpu"]["context_bytes"]
    fit = int((trial.arguments.left * MIB - context) // (own * MIB + context)) * len(gpus)

    def ends(count, look=lambda pids: None):
        """The times at which so many processes end that start together, in order; none of them may fail."""
        began = time.monotonic()
        processes = [trial.spawn([trial.example("phases"), own, 3, 200, "wait", 10, 8], environment) for _ in range(count)]
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
        trial.check(f"{count} processes are right", right == count, right)
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
    trial.finish()


main()

#!/usr/bin/env python3
"""mgbd under a real systemd, with the units of this repository, on software GPUs: started and stopped, started by
its socket, killed, hung, restarted and reloaded under programs of two users at work. Needs root. The Debian that it
runs in is made by --make-root (debootstrap, 300 MiB)."""

import argparse
import os
import pathlib
import signal
import sys
import time

import lifecycle
import page
import sharing
import unit_files
from machine import Missing, make_root
from service_trial import REPOSITORY, Trial

PARTS = (unit_files.units, lifecycle.starts_and_stops, lifecycle.started_by_its_socket, lifecycle.kills,
         lifecycle.restarts, lifecycle.hangs, lifecycle.reload, sharing.users, sharing.logs_out, sharing.a_group,
         lifecycle.stopped_under_programs, page.page, unit_files.cannot_start, lifecycle.switched_off)


def main():
    parser = argparse.ArgumentParser(prog="service.py", description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=REPOSITORY / "build/systemd-root",
                        help="folder of the Debian (default: build/systemd-root)")
    parser.add_argument("--make-root", action="store_true", help="make it if it is not there")
    prefix = pathlib.Path(os.environ.get("MGB_PREFIX", REPOSITORY / "build"))
    parser.add_argument("--prefix", type=pathlib.Path, default=prefix, help="folder with bin/mgbd and examples/")
    parser.add_argument("--rounds", type=int, default=100, help="starts and stops (default 100)")
    parser.add_argument("--some", type=int, default=20, help="rounds of anything else (default 20)")
    parser.add_argument("--watchdog", type=int, default=2, help="WatchdogSec= where mgbd hangs (default 2)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    trial = Trial(arguments)
    try:
        if os.geteuid() != 0:
            raise Missing("this is not root")
        if not arguments.root.exists():
            if not arguments.make_root:
                raise Missing(f"there is no {arguments.root}; --make-root makes it")
            make_root(arguments.root)
        trial.install()
        state = trial.machine.boot()
        trial.check("systemd is up", state == "running", state)
        trial.add_users()
        for part in PARTS:
            part(trial)
    except Missing as missing:
        print(f"service.py: left out: {missing}")
        return 0
    finally:
        trial.machine.clean_up()
    print(f"service.py: {trial.wrong} wrong, {time.monotonic() - trial.began:.0f} s")
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""MGB under a real Slurm, on a cluster of three nodes with software GPUs that is set up as docs/SLURM.md says: jobs of
all kinds, accounting, suspension, nodes that fail and daemons that are killed. Needs root. The Debian that it runs in
is made by --make-root (debootstrap, 750 MiB)."""

import sys
import time
import traceback

import away
import daemons
import direct
import faults
import frame
import jobs
import learned
import part
from trial import Trial

PARTS = (*jobs.PARTS, *direct.PARTS, *learned.PARTS, *faults.PARTS, *daemons.PARTS, *away.PARTS,
         *learned.LAST)


def play(cluster, arguments):
    began = time.monotonic()
    trial = Trial(cluster, arguments)
    cluster.start(with_mgb=False)
    trial.check(f"Slurm {cluster.version} is up on {len(cluster.nodes)} nodes", True,
                f"{time.monotonic() - began:.1f} s")
    page = cluster.follow()
    trial.check("docs/SLURM.md is followed word by word", sum(seconds for *_, seconds in page) < 600,
                ", ".join(f"{number} ({where}) {seconds:.1f} s" for number, where, seconds in page))
    for one in part.PARTS if arguments.slice else PARTS:
        if arguments.parts and one.__name__ not in arguments.parts:
            continue
        try:
            one(trial)
        except Exception as error:
            trial.check(one.__name__, False, f"{error!r:.1500}")
            traceback.print_exc(limit=-3)
    print(f"slurm.py: {trial.wrong} wrong, {time.monotonic() - began:.0f} s")
    return 1 if trial.wrong else 0


def main():
    parser = frame.options("slurm.py", __doc__)
    parser.add_argument("--slice", action="store_true", help="play what make test plays, two minutes")
    parser.add_argument("--jobs", type=int, default=60, help="jobs of the load under which daemons are killed")
    names = ", ".join(dict.fromkeys(one.__name__ for one in (*PARTS, *part.PARTS)))
    parser.add_argument("parts", nargs="*", help=f"play these alone: {names}")
    return frame.run(parser, play)


if __name__ == "__main__":
    sys.exit(main())

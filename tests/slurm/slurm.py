#!/usr/bin/env python3
"""MGB under a real Slurm, on a cluster of three nodes with software GPUs that is set up as docs/SLURM.md says: jobs of
all kinds, accounting, suspension, nodes that fail and daemons that are killed. Needs root. The Debian that it runs in
is made by --make-root (debootstrap, 750 MiB)."""

import argparse
import os
import pathlib
import signal
import sys
import time
import traceback

import daemons
import faults
import jobs
import learned
from cluster import REPOSITORY, Cluster, Missing, make
from trial import Trial

PARTS = (*jobs.PARTS, *learned.PARTS, *faults.PARTS, *daemons.PARTS, *learned.LAST)


def main():
    parser = argparse.ArgumentParser(prog="slurm.py", description=__doc__)
    parser.add_argument("--release", default="bookworm", help="Debian of the cluster (default: bookworm)")
    parser.add_argument("--root", type=pathlib.Path, help="folder of that Debian (default: build/slurm-RELEASE)")
    parser.add_argument("--make-root", action="store_true", help="make it if it is not there")
    prefix = pathlib.Path(os.environ.get("MGB_PREFIX", REPOSITORY / "build"))
    parser.add_argument("--prefix", type=pathlib.Path, default=prefix, help="folder with bin/mgbd and examples/")
    parser.add_argument("--jobs", type=int, default=60, help="jobs of the load under which daemons are killed")
    parser.add_argument("parts", nargs="*", help="play these alone: " + ", ".join(part.__name__ for part in PARTS))
    arguments = parser.parse_args()
    root = arguments.root or REPOSITORY / f"build/slurm-{arguments.release}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cluster, began = None, time.monotonic()
    try:
        if os.geteuid() != 0:
            raise Missing("this is not root")
        if not root.exists():
            if not arguments.make_root:
                raise Missing(f"there is no {root}; --make-root makes it")
            make(root, arguments.release)
        cluster = Cluster(root, arguments.prefix)
        trial = Trial(cluster, arguments)
        cluster.start(with_mgb=False)
        trial.check(f"Slurm {cluster.version} is up on {len(cluster.nodes)} nodes", True,
                    f"{time.monotonic() - began:.1f} s")
        page = cluster.follow()
        trial.check("docs/SLURM.md is followed word by word", sum(seconds for *_, seconds in page) < 600,
                    ", ".join(f"{number} ({where}) {seconds:.1f} s" for number, where, seconds in page))
        for part in PARTS:
            if arguments.parts and part.__name__ not in arguments.parts:
                continue
            try:
                part(trial)
            except RuntimeError as error:
                trial.check(part.__name__, False, str(error)[-1500:])
                traceback.print_exc(limit=3)
        print(f"slurm.py: {trial.wrong} wrong, {time.monotonic() - began:.0f} s")
        return 1 if trial.wrong else 0
    except Missing as missing:
        print(f"slurm.py: left out: {missing}")
        return 0
    except RuntimeError as error:
        print(f"slurm.py: {error}\n{cluster.logs()}")
        return 1
    finally:
        if cluster is not None:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main())

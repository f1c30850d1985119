#!/usr/bin/env python3
"""Starts the Slurm cluster and leaves it to you: a shell on its head, or a command there. Needs root."""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

from cluster import HEAD, REPOSITORY, Cluster, Missing, make


def main():
    parser = argparse.ArgumentParser(prog="up.py", description=__doc__)
    parser.add_argument("--release", default="bookworm", help="Debian of the cluster (default: bookworm)")
    parser.add_argument("--root", type=pathlib.Path, help="folder of that Debian (default: build/slurm-RELEASE)")
    prefix = pathlib.Path(os.environ.get("MGB_PREFIX", REPOSITORY / "build"))
    parser.add_argument("--prefix", type=pathlib.Path, default=prefix, help="folder with bin/mgbd and examples/")
    parser.add_argument("--gpus", nargs="+", default=["2x64MiB"] * 3, help="SOFTGPU_DEVICES of each node")
    parser.add_argument("command", nargs="*", help="what to run on the head instead of a shell")
    arguments = parser.parse_args()
    root = arguments.root or REPOSITORY / f"build/slurm-{arguments.release}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if not root.exists():
        make(root, arguments.release)
    cluster = Cluster(root, arguments.prefix, arguments.gpus)
    began = time.monotonic()
    try:
        cluster.start()
        print(f"up.py: up after {time.monotonic() - began:.1f} s, Slurm {cluster.version}", file=sys.stderr)
        for name, machine in cluster.machines.items():
            print(f"up.py: {name}: nsenter -t {machine.pid} --all --root --wd", file=sys.stderr, flush=True)
        words = arguments.command or ["bash", "-l"]
        return subprocess.call(["nsenter", "-t", str(cluster.head.pid), "--all", "--root", "--wd",
                                "env", "-i", "HOME=/root", f"TERM={os.environ.get('TERM', 'dumb')}",
                                "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *words])
    except Missing as missing:
        print(f"up.py: left out: {missing}")
        return 0
    except RuntimeError as error:
        print(f"up.py: {error}\n{cluster.logs() if HEAD in cluster.machines else ''}", file=sys.stderr)
        return 1
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())

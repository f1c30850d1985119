#!/usr/bin/env python3
"""Starts the Slurm cluster and leaves it to you: a shell on its head, or a command there. Needs root."""

import os
import subprocess
import sys
import time

import frame


def play(cluster, arguments):
    began = time.monotonic()
    cluster.start()
    print(f"up.py: up after {time.monotonic() - began:.1f} s, Slurm {cluster.version}", file=sys.stderr)
    for name, machine in cluster.machines.items():
        print(f"up.py: {name}: nsenter -t {machine.pid} --all --root --wd", file=sys.stderr, flush=True)
    words = arguments.command or ["bash", "-l"]
    return subprocess.call(["nsenter", "-t", str(cluster.head.pid), "--all", "--root", "--wd",
                            "env", "-i", "HOME=/root", f"TERM={os.environ.get('TERM', 'dumb')}",
                            "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *words])


def main():
    parser = frame.options("up.py", __doc__, gpus=True)
    parser.add_argument("command", nargs="*", help="what to run on the head instead of a shell")
    return frame.run(parser, play)


if __name__ == "__main__":
    sys.exit(main())

"""How the scripts here begin and end: the options that they share, the Debian, and the cluster's end."""

import argparse
import os
import pathlib
import signal
import sys

from cluster import REPOSITORY, Cluster, Missing, make

GPUS = ["2x64MiB"] * 3


def options(name, about, gpus=False):
    """The parser that a script adds its own options to; with `gpus` its nodes may be others."""
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("--release", default="bookworm", help="Debian of the cluster (default: bookworm)")
    parser.add_argument("--root", type=pathlib.Path, help="folder of that Debian (default: build/slurm-RELEASE)")
    parser.add_argument("--make-root", action="store_true", help="make it if it is not there (debootstrap, 750 MiB)")
    parser.add_argument("--root-only", action="store_true", help="the same, and play nothing")
    prefix = pathlib.Path(os.environ.get("MGB_PREFIX", REPOSITORY / "build"))
    parser.add_argument("--prefix", type=pathlib.Path, default=prefix, help="folder with bin/mgbd")
    parser.add_argument("--examples", type=pathlib.Path, help="folder of programs built with MGB, instead of the "
                                                              "prefix's examples/mgb")
    if gpus:
        parser.add_argument("--gpus", nargs="+", default=GPUS, help="SOFTGPU_DEVICES of each node")
    return parser


def find_root(arguments):
    """The Debian's folder, made where that is asked for."""
    root = arguments.root or REPOSITORY / f"build/slurm-{arguments.release}"
    if os.geteuid() != 0:
        raise Missing("this is not root; it takes root to make namespaces")
    if not root.exists():
        if not (arguments.make_root or arguments.root_only):
            raise Missing(f"there is no Debian in {root}; `tests/slurm/slurm.py --root-only` makes it (750 MiB)")
        make(root, arguments.release)
    return root


def run(parser, play):
    """Calls `play` with a cluster that is not switched on yet and the arguments, and ends the cluster whatever comes;
    the script's exit code."""
    arguments, cluster = parser.parse_args(), None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        root = find_root(arguments)
        if arguments.root_only:
            return 0
        gpus = getattr(arguments, "gpus", GPUS)
        cluster = Cluster(root, arguments.prefix, gpus, examples=arguments.examples)
        return play(cluster, arguments)
    except Missing as missing:
        print(f"{parser.prog}: left out: {missing}")
        return 0
    except RuntimeError as error:
        print(f"{parser.prog}: {error}\n{cluster.logs() if cluster else ''}", file=sys.stderr)
        return 1
    finally:
        if cluster is not None:
            cluster.stop()

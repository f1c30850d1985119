#!/usr/bin/env python3
"""The tarball and the packages in small Debians of their own: installed, used, upgraded while jobs run, and removed. `make
package-test` makes them first. Needs root, and debootstrap the first time (200 MiB for each release)."""

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import debs
import tarball
from roots import RELEASES, REPOSITORY, UBUNTU, Missing, Root, Trial, root


def one(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise Missing(f"{folder} has {len(found)} files {pattern}: run `make tarball debs`")
    return found[0]


def play_tarball(trial, release, dist):
    with Root(release, dist) as system:
        tarball.play(trial, system, one(dist, "mgb-*-linux.tar.gz"))


@contextlib.contextmanager
def both(dist):
    """A folder with the packages, and with those of a next version of the same files."""
    with tempfile.TemporaryDirectory(prefix="mgb-packages-") as folder:
        folder = Path(folder)
        (folder / "now").mkdir()
        version = None
        for name in ("mgb", "mgb-clang", "mgb-slurm"):
            package = one(dist, f"{name}_*.deb")
            shutil.copy(package, folder / "now")
            version = package.name.split("_")[1]
        command = [REPOSITORY / "packaging/debs.sh", REPOSITORY / "build/dist", folder / "next", f"{version}+next"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield folder


def play_debs(trial, release, dist):
    with both(dist) as folder, Root(release, folder) as system:
        debs.play(trial, system)


PARTS = {"tarball": play_tarball, "debs": play_debs}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root-only", action="store_true", help="make the Debians, and end")
    parser.add_argument("--release", action="append", choices=RELEASES, help="try these alone")
    parser.add_argument("--dist", type=type(REPOSITORY), default=REPOSITORY / "dist", help="where the packages are")
    parser.add_argument("parts", nargs="*", help=f"play these alone: {', '.join(PARTS)}")
    arguments = parser.parse_args()
    trial, began = Trial(), time.monotonic()
    try:
        for release in arguments.release or RELEASES:
            try:
                root(release)
            except Missing as missing:
                if release != UBUNTU:
                    raise
                print(f"left out: {release}: {missing}")
                continue
            for name, part in PARTS.items():
                if not arguments.root_only and name in (arguments.parts or PARTS):
                    try:
                        part(trial, release, arguments.dist)
                    except Missing:
                        raise
                    except Exception as error:
                        trial.check(f"{release}: {name}", False, f"{error!r:.1500}")
                        traceback.print_exc(limit=-3)
    except Missing as missing:
        print(f"packages.py: {missing}", file=sys.stderr)
        return 2
    print(f"packages.py: {trial.wrong} wrong, {time.monotonic() - began:.0f} s")
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

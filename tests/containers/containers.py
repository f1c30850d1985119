#!/usr/bin/env python3
"""Containers that podman gives MGB by the file that `mgb container cdi` writes, on software GPUs: root's, a user's without
rights, and those of other engines that are there. `make containers-test` brings what it needs. Needs root; all of it happens
in namespaces of its own."""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import cdi_file
import rootless
import served
from place import Missing, Node, Trial, copy_of_mgb, enter, run
from podman import Images, Podman, put_programs


class Scene:
    """What all parts use: a node with an mgbd for all users, root's podman with its images, and a CDI file."""

    def __init__(self, folder, trial):
        self.folder, self.trial = folder, trial
        self.mgb = copy_of_mgb(folder / "mgb")
        self.node = Node(folder, self.mgb)
        self.node.start()
        self.node.programs = folder / "programs"
        put_programs(self.node.programs)
        self.images = Images(folder)
        self.images.cdi = pathlib.Path("/run/cdi/mgb.json")
        self.archives = {"debian": self.images.debian(), "shell-less": self.images.shell_less(),
                         "hostile": self.images.hostile()}
        self.podman = self.engine(Podman(folder / "podman"), *self.archives)
        self.write(self.node, "/run/cdi/mgb.json")

    def engine(self, podman, *names):
        own = ["ENV LD_LIBRARY_PATH=/opt/own/lib", "ENV PATH=/usr/local/bin:/usr/bin:/bin"]
        for name in names:
            podman.load(name, self.archives[name], own)
        found = podman.find_allowances("debian")
        print(f"       {'root' if podman.user is None else 'a user'}: {run(['podman', '--version'])[1].strip()}, with "
              f"{' '.join(found) or 'nothing that is not usual'}")
        return podman

    def write(self, node, place, *words):
        """Has mgb write a CDI file; those of users are laid where engines look by root, as it would be."""
        code, said = node.mgb_run("container", "cdi", *words)
        assert code == 0, said
        pathlib.Path(place).write_text(said)

    def end(self):
        self.node.stop()


PARTS = {
    "file": lambda scene: cdi_file.play(scene.trial, scene),
    "served": lambda scene: served.play(scene.trial, scene.node, scene.podman, scene.images),
    "rootless": lambda scene: rootless.play(scene.trial, scene),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="these alone")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    trial, began = Trial(), time.monotonic()
    folder = None
    try:
        if not arguments.inside:
            enter()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="mgb-containers-"))
        folder.chmod(0o755)
        scene = Scene(folder, trial)
        for name in arguments.parts or PARTS:
            try:
                PARTS[name](scene)
            except Missing as missing:
                trial.left_out(name, missing)
            except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
                trial.check(name, False, f"{error!r:.1500}")
                traceback.print_exc(limit=-3)
        scene.end()
    except Missing as missing:
        print(f"containers.py: {missing}", file=sys.stderr)
        return 2
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"containers.py: {trial.right} right, {trial.wrong} wrong, {time.monotonic() - began:.0f} s")
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The wheel in virtual environments of its own, on software GPUs: installed by pip (and uv, where there is one), used from a
shell and from Python, upgraded while programs run, and removed. `make wheel-test` makes it first."""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from places import HERE, SECONDS, Place

REPOSITORY = HERE.parent.parent
EXAMPLES = REPOSITORY / "build/examples/mgb"


def expect(said, wanted, what):
    if said != wanted:
        raise AssertionError(f"{what}: {said!r}, not {wanted!r}")


def expect_in(wanted, said, what):
    if wanted not in said:
        raise AssertionError(f"{what}: no {wanted!r} in {said!r}")


def exe(pid):
    return os.readlink(f"/proc/{pid}/exe")


def played(venv):
    """The programs of an environment do what they are for."""
    expect_in("mgb 0", venv.place.run(venv.mgb, "--version"), "the version")
    for command in ([venv.mgb], [venv.python, "-m", "mgb"]):
        expect_in("PASS", venv.place.run(*command, "run", "--", EXAMPLES / "vecadd", "1000"), f"an example by {command}")


def wait_until(is_so, what):
    deadline = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {SECONDS} s: {what}")
        time.sleep(0.05)


def status(venv):
    """What mgbd shows; None where none answers."""
    started = venv.place.start([venv.mgb, "status", "--json"])
    said, _ = started.communicate()
    return json.loads(said) if started.returncode == 0 else None


def one_gpu(venv):
    """The environment of programs that see the first GPU alone."""
    return {"CUDA_VISIBLE_DEVICES": status(venv)["gpus"][0]["gpu"]["uuid"]}


def install(place, wheels):
    """Installed, it works; removed, nothing is left of it."""
    venv = place.venv("venv")
    before = venv.files()
    venv.install(wheels.now)
    for name in ("mgb", "mgbd"):
        if not os.access(venv.folder / "bin" / name, os.X_OK):
            raise AssertionError(f"{name} cannot be executed")
    venv.pip("check")
    played(venv)
    expect(exe(status(venv)["mgbd_pid"]), str(venv.folder / "bin/mgbd"), "the mgbd that runs")
    place.run(venv.mgb, "stop")
    venv.pip("uninstall", "--yes", "mgb")
    expect(sorted(venv.files() ^ before), [], "files that are left, or lost")


def names(place, wheels):
    """A library that has several names is one library in a process."""
    venv = place.venv("venv")
    venv.install(wheels.now)
    venv.plays("scripts.py", "names", venv.folder)
    venv.plays("scripts.py", "names-under-front", run=[])


def api(place, wheels):
    """The functions of the package, with a real mgbd."""
    venv = place.venv("venv")
    venv.install(wheels.now)
    venv.plays("scripts.py", "no-mgbd")
    venv.plays("scripts.py", "api", EXAMPLES)


def needs(place, wheels):
    """Needs that a process declares, under `mgb run`."""
    venv = place.venv("venv")
    venv.install(wheels.now)
    for part in ("need", "need-early", "need-too-large", "need-threads", "need-fork"):
        venv.plays("needs.py", part, run=[])
    venv.plays("needs.py", "need-declared", run=["--need", "8M"])
    venv.plays("needs.py", "nested", EXAMPLES, run=[])
    venv.plays("needs.py", "need-evicted", run=[], environment=one_gpu(venv))
    extension = place.folder / "extension.so"
    place.run(wheels.staged / "bin/mgb-clang++", "-shared", "-fPIC", HERE / "extension.cu", "-o", extension)
    venv.plays("needs.py", "need-rebuilt", extension, run=[])


def interrupted(place, wheels):
    """Ctrl-C reaches the program that mgb.run waits for, and a wait for room."""
    venv = place.venv("venv")
    venv.install(wheels.now)
    venv.plays("scripts.py", "interrupted")
    place.run(venv.mgb, "run", "true")
    venv.plays("needs.py", "interrupted-need", run=[], environment=one_gpu(venv))


def upgrade(place, wheels):
    """A program goes on while the files that it runs from are replaced, and its mgbd serves the next version's."""
    venv = place.venv("venv")
    venv.install(wheels.now)
    runs = place.start([venv.mgb, "run", "--", EXAMPLES / "phases", "24", "40", "100", "wait", "10", "8"])
    wait_until(lambda: (status(venv) or {"tasks": []})["tasks"], "the program runs")
    before = status(venv)["mgbd_pid"]
    venv.install(wheels.next)
    expect_in("+next", venv.pip("list"), "the installed version")
    expect(status(venv)["mgbd_pid"], before, "mgbd")
    played(venv)
    # What starts mgbd again finds the next one.
    os.kill(before, 9)
    wait_until(lambda: (status(venv) or {"mgbd_pid": before})["mgbd_pid"] != before, "mgbd is started again")
    expect(exe(status(venv)["mgbd_pid"]), str(venv.folder / "bin/mgbd"), "the mgbd that runs")
    if runs.poll() is not None:
        raise AssertionError(f"the program ended too soon to show anything: {runs.communicate()}")
    said, _ = runs.communicate(timeout=SECONDS)
    expect_in("PASS", said, "the program that ran")


def two(place, wheels):
    """Two environments share the node's mgbd, and each may go."""
    one, other = place.venv("venv"), place.venv("another")
    one.install(wheels.now)
    other.install(wheels.next)
    played(one)
    pid = status(one)["mgbd_pid"]
    granted = status(one)["counts"]["granted"]
    played(other)
    expect(status(other)["mgbd_pid"], pid, "mgbd")
    if status(one)["counts"]["granted"] <= granted:
        raise AssertionError("the programs of the other environment were granted nothing")
    one.pip("uninstall", "--yes", "mgb")
    played(other)


def with_uv(place, wheels):
    """uv installs it as pip does, whichever way it brings files."""
    if not wheels.uv:
        print("left out: uv: there is none in PATH")
        return
    for mode in ("copy", "hardlink"):
        venv = place.venv(f"uv-{mode}", "--without-pip")
        before = venv.files()
        uv = (wheels.uv, "--offline", "--no-config", "--cache-dir", place.folder / "cache", "pip")
        place.run(*uv, "install", "--python", venv.python, "--link-mode", mode, wheels.now)
        played(venv)
        venv.plays("scripts.py", "api", EXAMPLES)
        place.run(venv.mgb, "stop")
        place.run(*uv, "uninstall", "--python", venv.python, "mgb")
        # uv leaves folders, and a lock of its own.
        left = [path for path in venv.files() ^ before if not (venv.folder / path).is_dir() and path != ".lock"]
        expect(left, [], f"files that are left, or lost ({mode})")


def types(place, wheels):
    """The package's types are those that a checker reads where it is installed."""
    mypy = shutil.which("mypy")
    if not mypy:
        print("left out: types: there is no mypy in PATH")
        return
    venv = place.venv("venv")
    venv.install(wheels.now)
    place.run(mypy, "--strict", REPOSITORY / "python/mgb")
    program = place.folder / "program.py"
    program.write_text("import mgb\n"
                       "with mgb.need('1GiB') as need:\n    free: int = mgb.status().gpus[0].free_bytes - need.bytes\n"
                       "code: str = mgb.run('true').returncode\n")
    said = place.run(mypy, "--strict", "--python-executable", venv.python, program, code=1)
    expect_in("program.py:4: error: Incompatible types", said, "a wrong program")
    expect_in("Found 1 error", said, "a wrong program")


PARTS = {"install": install, "names": names, "api": api, "needs": needs, "interrupted": interrupted, "upgrade": upgrade,
         "two": two, "types": types, "uv": with_uv}


class Wheels:
    """The wheel, one of a next version with the same files, and who installs them."""

    def __init__(self, dist, staged, folder):
        found = sorted(dist.glob("mgb-*.whl"))
        if len(found) != 1:
            sys.exit(f"wheel: {dist} has {len(found)} wheels mgb-*.whl: run `make wheel`")
        self.now, self.staged = found[0], staged
        version = self.now.name.split("-")[1]
        subprocess.run([REPOSITORY / "packaging/wheel.sh", staged, folder, f"{version}+next"], check=True,
                       stdout=subprocess.DEVNULL)
        self.next = next(folder.glob("mgb-*.whl"))
        self.uv = shutil.which("uv")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=REPOSITORY / "dist", help="where the wheel is")
    parser.add_argument("--staged", type=Path, default=REPOSITORY / "build/dist", help="what it was made of")
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python of the environments")
    parser.add_argument("parts", nargs="*", help=f"play these alone: {', '.join(PARTS)}")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mgb-wheel-") as scratch:
        wheels = Wheels(arguments.dist, arguments.staged, Path(scratch))
        for name in arguments.parts or PARTS:
            with tempfile.TemporaryDirectory(prefix="mgb-wheel-", ignore_cleanup_errors=True) as folder:
                place, began = Place(Path(folder), arguments.python), time.monotonic()
                try:
                    PARTS[name](place, wheels)
                    print(f"ok      {name}, {time.monotonic() - began:.1f} s", flush=True)
                except Exception:
                    failed += 1
                    print(f"FAILED  {name}: {traceback.format_exc()}", flush=True)
                finally:
                    with contextlib.suppress(OSError):
                        place.end()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

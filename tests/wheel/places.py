"""Virtual environments in a folder of their own, with software GPUs of their own."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 120


class Place:
    """A folder whose name people would not like, with software GPUs of its own, and environments."""

    def __init__(self, folder, python):
        self.folder = folder / "a place für tests"
        self.folder.mkdir()
        self.python = python
        private = self.folder / "socket"
        private.mkdir(mode=0o700)
        foreign = ("MGB", "SOFTGPU", "CUDA", "PYTHON", "LD_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        # As a system's: no environment of these is activated.
        self.environment = kept | {
            "PATH": "/usr/bin:/bin",
            "MGB_SOCKET": str(private / "mgbd.sock"),
            "SOFTGPU_DEVICES": "2x64MiB",
            "SOFTGPU_STATE": str(self.folder / "softgpu.state"),
            "HOME": str(self.folder),
        }

    def start(self, command, **more):
        environment = self.environment | more.pop("environment", {})
        return subprocess.Popen([str(word) for word in command], env=environment, cwd=self.folder, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)

    def run(self, *command, code=0, **more):
        """What a command prints, which ends with this code."""
        started = self.start(command, **more)
        try:
            said, _ = started.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            started.kill()
            said, _ = started.communicate()
            raise AssertionError(f"{command} does not end:\n{said}") from None
        if started.returncode != code:
            raise AssertionError(f"{command} ended with {started.returncode}, not {code}:\n{said[-3000:]}")
        return said

    def venv(self, name, *more):
        self.run(self.python, "-m", "venv", *more, self.folder / name)
        return Venv(self, self.folder / name)

    def end(self):
        for mgb in self.folder.glob("*/bin/mgb"):
            subprocess.run([mgb, "stop"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Venv:
    """A virtual environment."""

    def __init__(self, place, folder):
        self.place, self.folder = place, folder
        self.python, self.mgb = folder / "bin/python", folder / "bin/mgb"

    def pip(self, *words):
        return self.place.run(self.python, "-m", "pip", "--disable-pip-version-check", *words)

    def install(self, wheel, *words):
        return self.pip("install", "--no-index", "--no-compile", *words, wheel)

    def plays(self, script, *words, run=None, **more):
        """Has its Python play a part of a script beside this file: by itself, or under `mgb run` with these options."""
        under = [] if run is None else [self.mgb, "run", *run, "--"]
        said = self.place.run(*under, self.python, HERE / script, *words, **more)
        if not said.endswith("PASS\n"):
            raise AssertionError(f"{script} {words}: {said}")

    def files(self):
        """All files and folders, without what Python itself writes as it runs."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return {str(path) for path in found if "__pycache__" not in path.parts}

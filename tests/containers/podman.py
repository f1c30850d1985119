"""Podman, with what this machine makes it do without, and the images of the trial."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from place import BUILT, HERE, Missing, run, start

sys.path.insert(0, str(HERE.parent / "packages"))

from roots import root  # noqa: E402

# What a machine may take from its root: control groups of one version alone, and raising limits. Tried in this order.
LIMITS = [f"--ulimit={name}=1024:1024" for name in ("nofile", "nproc")]
ALLOWANCES = ([], ["--cgroups=disabled"], LIMITS, ["--cgroups=disabled", *LIMITS])
DEVICE = "mgb.dev/node"


class Podman:
    """Podman of a user's, with storage of its own. `user` None: root."""

    def __init__(self, folder, user=None):
        self.user = user
        folder.mkdir(parents=True, exist_ok=True)
        if user is not None:
            os.chown(folder, user, user)
        home = f"/run/user/{user}" if user is not None else "/root"
        self.environment = {"PATH": os.environ["PATH"], "HOME": home, "XDG_RUNTIME_DIR": f"/run/user/{user or 0}"}
        self.words = ["podman", "--root", folder / "root", "--runroot", folder / "run", "--cgroup-manager=cgroupfs",
                      "--events-backend=file"]
        self.allowances = None

    def run(self, *words, **more):
        return run([*self.words, *words], self.environment, self.user, **more)

    def load(self, name, archive, changes=()):
        """Makes an image of an archive of files."""
        changes = [word for change in changes for word in ("--change", change)]
        code, said = self.run("import", *changes, archive, name)
        assert code == 0, said

    def find_allowances(self, image):
        """What containers have to be started with here; what it says where nothing does."""
        said = ""
        for allowances in ALLOWANCES:
            code, said = self.run("run", "--rm", "--network=none", *allowances, image, "true")
            if code == 0:
                self.allowances = allowances
                return allowances
        raise Missing(f"podman runs no container here: {said[-300:]}")

    def command(self, image, *words, device="default", options=(), environment=(), network="none"):
        variables = [f"--env={variable}" for variable in ("MGB=require", *environment)]
        devices = [f"--device={DEVICE}={device}"] if device else []
        return [*self.words, "run", "--rm", f"--network={network}", *self.allowances, *devices, *variables, *options, image, *words]

    def contain(self, image, *words, limit=120, **more):
        """Runs a program in a container to its end; its code, and all that it said."""
        return run(self.command(image, *words, **more), self.environment, self.user, limit)

    def start(self, image, *words, **more):
        return start(self.command(image, *words, **more), self.environment, self.user)


def put_programs(folder):
    """`holds`, which was not built with MGB, and `phases`, which was."""
    folder.mkdir(parents=True, exist_ok=True)
    compile_c((HERE / "holds.c").read_text(), folder / "holds")
    phases = BUILT / "examples/mgb/phases"
    if not phases.exists():
        raise Missing(f"{phases} is missing: run `make examples`")
    shutil.copy2(phases, folder / "phases")


class Images:
    """Archives of files, of which both users make images: a Debian, and one with nothing but a program."""

    def __init__(self, folder):
        self.folder = folder

    def own_library(self, folder):
        """A program of the image's own, and a library that it finds by the image's own LD_LIBRARY_PATH alone."""
        (folder / "opt/own/lib").mkdir(parents=True)
        (folder / "opt/own/bin").mkdir()
        library, use = folder / "opt/own/lib/libown.so", folder / "opt/own/bin/own"
        compile_c("int own(void) { return 42; }", library, "-shared", "-fPIC")
        compile_c('#include <stdio.h>\nint own(void);\nint main(void) { printf("own %d\\n", own()); }', use,
                  f"-L{library.parent}", "-lown")

    def debian(self):
        """A Debian with the programs, as an image has them."""
        archive = self.folder / "debian.tar"
        with tempfile.TemporaryDirectory(dir=self.folder) as more:
            more = pathlib.Path(more)
            self.own_library(more)
            put_programs(more / "opt/programs")
            pack(archive, root("bookworm"), more)
        return archive

    def shell_less(self):
        """A program with its libraries and the dynamic linker, and no other file."""
        archive = self.folder / "shell-less.tar"
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            folder, debian = pathlib.Path(folder), root("bookworm")
            put_programs(folder)
            names = ["lib64/ld-linux-x86-64.so.2"]
            names += [f"lib/x86_64-linux-gnu/{name}" for name in ("libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2",
                                                                  "libpthread.so.0", "librt.so.1")]
            names += [str(found.relative_to(debian)) for found in debian.glob("usr/lib/x86_64-linux-gnu/libstdc++.so.6")]
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2((debian / name).resolve() if not name.startswith("lib64") else
                             debian / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", folder / name)
            pack(archive, folder)
        return archive

    def hostile(self):
        """What an image lays in MGB's way: a command and a driver of its own, and links that lead out of it."""
        archive = self.folder / "hostile.tar"
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            folder = pathlib.Path(folder)
            for name in ("usr/local/bin", "usr/lib/x86_64-linux-gnu", "run"):
                (folder / name).mkdir(parents=True)
            put_programs(folder / "opt/programs")
            (folder / "usr/local/bin/mgb").write_text("#!/bin/sh\necho HOSTILE command\n")
            (folder / "usr/local/bin/mgb").chmod(0o755)
            compile_c('#include <stdio.h>\n__attribute__((constructor)) static void own(void) { puts("HOSTILE driver"); }\n'
                      "int cuInit(unsigned flags) { return 100; }", folder / "usr/lib/x86_64-linux-gnu/libcuda.so.1",
                      "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
            # Where the folder for clients goes; the node's own is not to be changed.
            (folder / "run/mgb").symlink_to("../../../../../../etc")
            pack(archive, root("bookworm"), folder)
        return archive


def compile_c(text, to, *options):
    done = subprocess.run(["cc", "-x", "c", "-", "-o", str(to), *options], input=text, text=True, capture_output=True)
    if done.returncode != 0:
        raise Missing(f"cc: {done.stderr}")


def pack(archive, below, more=None):
    """An archive of a folder, without what programs do not need, and the files of another one, whose folders may be there."""
    archive.unlink(missing_ok=True)
    left_out = [f"--exclude=./{folder}" for folder in ("usr/share/doc", "usr/share/locale", "var/lib/apt", "var/cache", "dev")]
    tar = ["tar", "--owner=0", "--group=0"]
    subprocess.run([*tar, *left_out, "-C", str(below), "-cf", str(archive), "."], check=True)
    if more is not None:
        files = [f"./{path.relative_to(more)}" for path in sorted(more.rglob("*")) if path.is_symlink() or not path.is_dir()]
        subprocess.run([*tar, "-C", str(more), "-rf", str(archive), *files], check=True)
    archive.chmod(0o644)

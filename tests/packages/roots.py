"""Small Debians in folders, in which packages are tried: made once by debootstrap, and never written to. Each use has a
layer of its own above, and namespaces of its own: nothing outside sees its files or its processes. Needs root."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "systemd"))

from machine import Missing, make_root  # noqa: E402

# Made here, and kept from one run to the next.
ROOTS = REPOSITORY / "build/roots"
RELEASES = ("bookworm", "trixie", "jammy")
# Ubuntu 22.04, tried where it can be had.
UBUNTU, UBUNTU_MIRROR = "jammy", "http://archive.ubuntu.com/ubuntu"

# The first process of the namespaces. What the host has of /dev is enough for software GPUs.
ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    : >"dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mkdir put
mount --bind "$3" put
echo ready
exec sleep infinity
"""


def root(release):
    """The Debian of a release, made if it is not there."""
    folder = ROOTS / release
    if folder.exists():
        return folder
    if release == UBUNTU:
        make_root(folder, release, "ca-certificates", UBUNTU_MIRROR, [f"--keyring={keyring()}"])
    else:
        make_root(folder, release, "ca-certificates")
    return folder


def keyring():
    """Ubuntu's keys, which Debian 13 has as a package."""
    found = ROOTS / "ubuntu-archive-keyring.gpg"
    if not found.exists():
        with tempfile.TemporaryDirectory(dir=root("trixie") / "tmp") as folder:
            inner = f"/tmp/{os.path.basename(folder)}"
            get = f"cd {inner} && apt-get -qq -o APT::Sandbox::User=root download ubuntu-keyring && dpkg-deb -x *.deb ."
            ended = subprocess.run(["chroot", str(root("trixie")), "sh", "-c", get], capture_output=True, text=True)
            if ended.returncode != 0:
                raise Missing(f"Ubuntu's keys cannot be had: {ended.stderr[-300:]}")
            shutil.copy(f"{folder}/usr/share/keyrings/{found.name}", found)
    return found


class Root:
    """A Debian for one use. `put` is a folder of this machine that it has as /put."""

    def __init__(self, release, put):
        if os.geteuid() != 0:
            raise Missing("this is not root")
        self.release = release
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mgb-root-"))
        # If the script is killed, all of it ends as well.
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--net",
                   "sh", "-c", ENTER, "sh", str(root(release)), str(self.folder), str(put)]
        self.outer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self.outer.stdout.readline()
        if said != "ready\n":
            said += self.outer.stdout.read()
            self.__exit__()
            raise Missing(f"no root for {release}: {said}")
        children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
        self.first = children[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.outer.kill()
        self.outer.wait()
        # The mounts have ended with their namespace.
        shutil.rmtree(self.folder, ignore_errors=True)

    def words(self, command, environment=()):
        """What runs a shell's command in it."""
        inner = f"{self.folder}/root"
        own = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
               "DEBIAN_FRONTEND=noninteractive", *environment]
        return ["nsenter", f"--target={self.first}", "--mount", "--pid", "--ipc", "--uts", "--net", "chroot", inner,
                *own, "sh", "-c", command]

    def run(self, command, environment=(), limit=120):
        """Runs a shell's command; its code, and all that it said."""
        ended = subprocess.run(self.words(command, environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=limit)
        return ended.returncode, ended.stdout

    def start(self, command, environment=()):
        return subprocess.Popen(self.words(command, environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def files(self):
        """All files but those of the kernel, with their sizes and times: what an installation may change."""
        skip = " -o ".join(f"-path ./{one}" for one in ("proc", "dev", "put", "sys"))
        code, said = self.run(f"cd / && find . \\( {skip} \\) -prune -o -printf '%p %y %s %T@ %l\\n'")
        assert code == 0, said
        return {line.split(" ", 1)[0]: line for line in said.splitlines()}


class Trial:
    """What was checked, and how much of it was wrong."""

    def __init__(self):
        self.wrong = 0

    def check(self, what, is_right, more=""):
        print(f"{'ok' if is_right else 'WRONG':6} {what}{': ' if more else ''}{more}", flush=True)
        self.wrong += not is_right

    def must(self, where, command, **more):
        """Runs a command that is to succeed; what it said."""
        began = time.monotonic()
        code, said = where.run(command, **more)
        if code != 0:
            self.check(f"{where.release}: {command}", False, f"exit code {code}: {said[-2000:]}")
        self.seconds = time.monotonic() - began
        return said

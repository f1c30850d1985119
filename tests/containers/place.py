"""Where the trial takes place: namespaces of its own, so that no other user of the machine sees its /run, its users, its
processes or its control groups; a copy of MGB that every user can read; and mgbd on software GPUs."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
BUILT = pathlib.Path(os.environ.get("MGB_PREFIX", REPOSITORY / "build"))
# A user of the trial's own, with users of its own for containers.
USER, UID, FIRST_SUBORDINATE = "mgb-containers", 20001, 2000000
SECONDS = 120

ENTER = f"""
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p /run/user/{UID} /run/cdi /run/etc
chown {UID}:{UID} /run/user/{UID}
for file in passwd group subuid subgid; do
    cat /etc/$file >/run/etc/$file 2>/dev/null || :
done
echo "{USER}:x:{UID}:{UID}::/run/user/{UID}:/bin/sh" >>/run/etc/passwd
echo "{USER}:x:{UID}:" >>/run/etc/group
for file in subuid subgid; do
    echo "{USER}:{FIRST_SUBORDINATE}:65536" >>/run/etc/$file
    echo "containers:{FIRST_SUBORDINATE + 100000}:131072" >>/run/etc/$file
done
for file in passwd group subuid subgid; do
    [ -e /etc/$file ] || : >/etc/$file
    mount --bind /run/etc/$file /etc/$file
done
# Engines refuse to use both versions of control groups at once.
umount -R /sys/fs/cgroup 2>/dev/null || :
mount -t cgroup2 cgroup2 /sys/fs/cgroup || :
exec "$@"
"""


class Missing(Exception):
    """This machine cannot do it."""


def enter():
    """Starts this script anew in namespaces of its own, which end with it."""
    if os.geteuid() != 0:
        raise Missing("this is not root")
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "--ipc", "--pid", "--fork", "--kill-child",
                          "--mount-proc", "sh", "-c", ENTER, "sh", sys.executable, *sys.argv, "--inside"])


def run(command, environment=None, user=None, limit=SECONDS):
    """Runs a command; its code, and all that it said."""
    done = subprocess.run(as_user(command, user), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=limit, errors="replace")
    return done.returncode, done.stdout


def start(command, environment=None, user=None):
    return subprocess.Popen(as_user(command, user), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")


def as_user(command, user):
    words = [str(word) for word in command]
    return words if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *words]


def until(what, is_so, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not so in {seconds} s: {what}")


def copy_of_mgb(to):
    """MGB in a folder that every user can enter, and the programs that are played."""
    for part in ("bin/mgb", "bin/mgbd", "lib/libmgb_rt.so", "lib/front", "lib/softgpu"):
        source, copy = BUILT / part, to / part
        if not source.exists():
            raise Missing(f"{source} is missing: run `make examples`")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True)
        else:
            shutil.copy2(source, copy)
    return to


class Node:
    """An mgbd of software GPUs. `user`: whose; root's serves all users at /run/mgb, another's its own."""

    def __init__(self, folder, mgb, socket=None, user=None, devices="1x64MiB"):
        self.folder, self.mgb, self.user, self.mgbd, self.programs = folder, mgb, user, None, None
        self.socket = pathlib.Path(socket or "/run/mgb/mgbd.sock")
        state = folder / "softgpu"
        for made, mode in ((self.socket.parent, 0o755), (state, 0o777)):
            made.mkdir(parents=True, exist_ok=True)
            made.chmod(mode)
            if user is not None:
                os.chown(made, user, user)
        (state / "state").touch()
        (state / "state").chmod(0o666)
        if user is not None:
            os.chown(state / "state", user, user)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MGB", "SOFTGPU", "CUDA"))}
        self.environment = kept | {
            "PATH": f"{mgb}/bin:{kept['PATH']}", "MGB_PREFIX": str(mgb), "MGB_SOCKET": str(self.socket),
            "SOFTGPU_DEVICES": devices, "SOFTGPU_STATE": str(state / "state"), "LD_LIBRARY_PATH": f"{mgb}/lib/softgpu",
            "HOME": f"/run/user/{user}" if user else "/root", "XDG_RUNTIME_DIR": f"/run/user/{user or 0}",
        }

    def start(self):
        options = ["--serve", "all"] if self.user is None else []
        with open(self.folder / "mgbd.log", "a") as log:
            self.mgbd = subprocess.Popen(as_user(["mgbd", "--no-mps", "--no-restart", *options], self.user),
                                         env=self.environment, stdout=log, stderr=log)
        until("mgbd answers", lambda: self.mgb_run("status")[0] == 0)

    def kill(self):
        self.mgbd.kill()
        self.mgbd.wait()

    def stop(self):
        if self.mgbd is not None and self.mgbd.poll() is None:
            self.mgbd.terminate()
            self.mgbd.wait()

    def mgb_run(self, *words, **variables):
        """Runs `mgb` on the node."""
        return run(["mgb", *words], self.environment | variables, self.user)

    def start_program(self, arguments):
        """Starts `holds` on the node."""
        command = ["mgb", "run", self.programs / "holds", *arguments]
        return start(command, self.environment | {"MGB": "require"}, self.user)

    def view(self):
        code, said = self.mgb_run("status", "--json")
        assert code == 0, said
        return json.loads(said)

    def granted(self):
        return self.view()["counts"]["granted"]

    def holders(self):
        return [task["pid"] for task in self.view()["tasks"]]


class Trial:
    """What was checked, and how much of it was wrong."""

    def __init__(self):
        self.right, self.wrong = 0, 0

    def check(self, what, is_right, said=""):
        more = "" if is_right or not said else f":\n{said[-2000:]}"
        print(f"{'ok' if is_right else 'WRONG':6} {what}{more}", flush=True)
        self.right += bool(is_right)
        self.wrong += not is_right

    def left_out(self, what, why):
        print(f"left out: {what}: {why}", flush=True)

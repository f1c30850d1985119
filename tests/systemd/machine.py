"""A small Debian in a folder, with systemd as the first process of namespaces of its own: no virtual machine and
no container engine is needed, only root.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

PACKAGES = "systemd,systemd-sysv,dbus,libpam-systemd,procps"
MIRROR = "http://deb.debian.org/debian"

# Runs as the first process of the new namespaces. /proc/sys and /sys belong to the host's kernel and not to a
# namespace: they are not to be written.
BOOT = """
set -e
root=$1 overlay=$2 name=$3 shared=$4
mount --make-rprivate /
if [ -n "$overlay" ]; then
    mount -t overlay overlay -o "$overlay" "$root"
else
    mount --bind "$root" "$root"
fi
[ -z "$name" ] || hostname "$name"
[ -z "$shared" ] || mount --bind "$shared" "$root/home"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir "$root/run/before"
cd "$root"
pivot_root . run/before
umount -l run/before
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \\
    /lib/systemd/systemd --show-status=no --log-target=journal
"""


class Missing(Exception):
    """This machine cannot do it."""


def make_root(root, release="bookworm", packages=PACKAGES, mirror=MIRROR, options=()):
    """Installs the Debian. Takes half a minute, and 300 MiB."""
    if shutil.which("debootstrap") is None:
        raise Missing("there is no debootstrap here")
    new = root.with_name(root.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", *options, release, str(new), mirror]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        raise Missing(f"debootstrap failed: {ended.stdout[-300:]}{ended.stderr[-300:]}")
    new.rename(root)


class Machine:
    """The Debian, once it runs. Several share one: with `overlay`, the options of an overlay mount, what one writes
    is its own. `shared` is a folder that becomes its /home."""

    def __init__(self, root, overlay="", name="", shared=""):
        self.root, self.outer, self.pid, self.cgroup, self.freezer = root, None, None, None, None
        self.overlay, self.name, self.shared = overlay, name, shared

    def boot(self):
        """Starts systemd, and waits until all it starts has come."""
        if os.geteuid() != 0:
            raise Missing("this is not root")
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        hierarchy = next((pathlib.Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)
        if hierarchy is None:
            raise Missing("no cgroup2 is mounted here")
        group = "-".join(filter(None, ["mgb-systemd", str(os.getpid()), self.name]))
        self.cgroup = hierarchy / group
        # Where the host has the first version's hierarchies as well, Slurm takes only those.
        is_freezer = lambda mount: mount[2] == "cgroup" and "freezer" in mount[3].split(",")
        self.freezer = next((pathlib.Path(mount[1]) / group for mount in mounts if is_freezer(mount)), None)
        try:
            for group in self.groups():
                group.mkdir()
        except OSError as error:
            raise Missing(f"no control group can be made: {error}") from error
        shutil.rmtree(self.root / "var/log/journal", ignore_errors=True)
        log = tempfile.TemporaryFile("w+")
        enter = lambda: [(group / "cgroup.procs").write_text(str(os.getpid())) for group in self.groups()]
        self.outer = subprocess.Popen(
            # If the script is killed, the machine ends as well.
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--uts", "--ipc", "--net", "--cgroup",
             "--pid", "--fork", "--kill-child=KILL", "sh", "-c", BOOT, "boot", str(self.root), self.overlay,
             self.name, str(self.shared)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=enter)
        until = time.monotonic() + 120
        while time.monotonic() < until and self.outer.poll() is None:
            children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
            self.pid = int(children[0]) if children else None
            said = self.run(["systemctl", "is-system-running"])["stdout"].strip() if self.pid else ""
            if said in ("running", "degraded"):
                return said
            time.sleep(0.1)
        log.seek(0)
        raise Missing(f"systemd does not come up in namespaces: {log.read()[-300:]}")

    def groups(self):
        """Its control groups on the host."""
        return [group for group in (self.cgroup, self.freezer) if group is not None]

    def path(self, name):
        """Where the host sees a file of the machine, its mounts included."""
        return pathlib.Path(f"/proc/{self.pid}/root{name}")

    def spawn(self, command, user=None, environment=()):
        """Starts a program on the machine, outside all of its units."""
        own = ["env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *environment]
        if user is not None:
            own += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        words = ["nsenter", "-t", str(self.pid), "--all", "--root", "--wd", *own, *(str(word) for word in command)]
        return subprocess.Popen(words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run(self, command, user=None, environment=(), timeout=120):
        """Runs one to its end: its exit code, output, errors and seconds."""
        began = time.monotonic()
        process = self.spawn(command, user, environment)
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            try:
                output, errors = process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                # What it has started has its output open.
                output, errors = "", ""
            errors += f"\nkilled after {timeout} s"
        return {"code": process.returncode, "stdout": output, "stderr": errors, "seconds": time.monotonic() - began}

    def processes_of(self, unit):
        """Processes in a unit's control group, by their numbers on the host."""
        try:
            return (self.cgroup / "system.slice" / unit / "cgroup.procs").read_text().split()
        except OSError:
            return []

    def power_off(self):
        """Ends it as an administrator would: seconds until all is gone, or None."""
        began = time.monotonic()
        self.run(["systemctl", "poweroff"])
        try:
            self.outer.wait(60)
        except subprocess.TimeoutExpired:
            return None
        return time.monotonic() - began

    def clean_up(self):
        """Ends it at once."""
        # Not once more half-way.
        usual = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # What Slurm has frozen would outlive a kill.
        for state in sorted(self.freezer.rglob("freezer.state")) if self.freezer else []:
            try:
                state.write_text("THAWED")
            except OSError:
                pass
        if self.outer is not None and self.outer.poll() is None:
            # With the machine's first process all others end.
            os.kill(self.pid or self.outer.pid, signal.SIGKILL)
            self.outer.wait()
        for _ in range(50):
            files = [file for group in self.groups() for file in group.rglob("cgroup.procs")]
            groups = sorted((path.parent for path in files), reverse=True)
            for group in groups:
                try:
                    group.rmdir()
                except OSError:
                    pass
            if not groups:
                break
            time.sleep(0.05)
        signal.signal(signal.SIGTERM, usual)

"""The machine with MGB installed, what there is in it, and how checks are counted; and programs of two users at
work."""

import json
import pathlib
import re
import shutil
import statistics
import subprocess
import time

from machine import Machine

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
USERS = ("alice", "bob")
# On them two programs of `LOAD` run at once, one on each GPU, and others wait.
GPUS = ["SOFTGPU_DEVICES=2x16MiB", "SOFTGPU_STATE=/run/softgpu/state"]
LIBRARIES = "/opt/softgpu"
PROGRAMS = "/opt/programs"
UNITS = "/usr/local/lib/systemd/system"
# 9 MiB, for about 0.5 s; and for 3 s.
LOAD = ("phases", 9, 10, 30, "wait", 10, 8)
LONG = ("phases", 9, 60, 30, "wait", 10, 8)
DROP_IN = f"""[Service]
Environment=LD_LIBRARY_PATH={LIBRARIES} {' '.join(GPUS)}
ReadWritePaths=/run/softgpu
"""
# The state of the software GPUs, which a driver would have.
TMPFILES = "d /run/softgpu 0755 root root -\nf /run/softgpu/state 0666 root root -\n"
# What stays in /run/mgb: locks, folders, the holder's log, and what was learned of programs.
STAYS = {"mgbd.sock.lock", "mgbd.sock.private", "clients", "mgbd.sock.log", "mgbd.sock.past"}


class Trial:
    """The machine, with MGB installed as docs/SERVICE.md says, and the checks."""

    def __init__(self, arguments):
        self.arguments, self.machine = arguments, Machine(arguments.root)
        self.began, self.wrong, self.cursor = time.monotonic(), 0, None

    # Set-up.

    def install(self):
        """MGB by what `make install` runs, and the software GPUs; as if they had been there when the machine was switched
        on."""
        root, prefix = self.arguments.root, self.arguments.prefix
        etc, programs = root / "etc", root / PROGRAMS[1:]
        own = (programs, root / LIBRARIES[1:], etc / "mgb", etc / "systemd/system/mgbd.service.d")
        for folder in own:
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (*own, etc / "tmpfiles.d"):
            folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([REPOSITORY / "tools/install.py", "--destdir", root, "install", prefix, "/usr/local", "run"], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.copy(REPOSITORY / "systemd/mgbd.toml", etc / "mgb")
        for name in ("vecadd", "phases"):
            shutil.copy(prefix / "examples/mgb" / name, programs)
        shutil.copytree(prefix / "lib/softgpu", root / LIBRARIES[1:], symlinks=True, dirs_exist_ok=True)
        (etc / "tmpfiles.d/softgpu.conf").write_text(TMPFILES)
        # Whoever logs out is gone at once, not after 10 s.
        logind = etc / "systemd/logind.conf.d/trial.conf"
        logind.parent.mkdir(exist_ok=True)
        logind.write_text("[Login]\nRemoveIPC=yes\nUserStopDelaySec=0\n")
        (etc / "systemd/system/mgbd.service.d/softgpu.conf").write_text(DROP_IN)
        # What `systemctl enable` does.
        wanted = etc / "systemd/system/multi-user.target.wants/mgbd.service"
        wanted.parent.mkdir(exist_ok=True)
        wanted.unlink(missing_ok=True)
        wanted.symlink_to(f"{UNITS}/mgbd.service")

    def add_users(self):
        for user in USERS:
            self.machine.run(["useradd", "--create-home", user])

    def drop_in(self, text):
        """Further settings of the unit, until the next call; the machine's systemd reads them."""
        folder = self.machine.path("/run/systemd/system/mgbd.service.d")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trial.conf").write_text(f"[Service]\n{text}\n")
        self.systemctl("daemon-reload")

    # What there is.

    def systemctl(self, *words):
        return self.machine.run(["systemctl", *words])

    def show(self, *names):
        """Properties of the unit."""
        lines = self.systemctl("show", "mgbd", "-p", ",".join(names))["stdout"].splitlines()
        return dict(line.split("=", 1) for line in lines)

    def pid(self):
        return int(self.show("MainPID")["MainPID"])

    def words(self, program):
        """The command line of a program of MGB's examples."""
        return [f"{PROGRAMS}/{program[0]}", *(str(word) for word in program[1:])]

    def environment(self):
        """What programs need beside mgbd."""
        return [f"LD_LIBRARY_PATH={LIBRARIES}:/usr/local/lib/mgb/lib", "MGB=require", *GPUS]

    def spawn(self, program, user=None):
        return self.machine.spawn(self.words(program), user, self.environment())

    def status(self, user=None):
        said = self.machine.run(["mgb", "status", "--json"], user)
        return json.loads(said["stdout"]) if said["code"] == 0 else {"tasks": [], "queue": [], "said": said}

    def holders(self):
        """Processes of the unit but mgbd, by their numbers on the host."""
        own = lambda pid: b"hold" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return [pid for pid in self.machine.processes_of("mgbd.service") if own(pid)]

    def left(self):
        """What there is of mgbd that a stop should have taken away."""
        names = lambda folder: {path.name for path in self.machine.path(folder).iterdir()}
        return sorted((names("/run/mgb") - STAYS) | names("/dev/shm")) + self.machine.processes_of("mgbd.service")

    def said(self):
        """Lines of the unit in the journal since the last call that tell of an error."""
        after = [f"--after-cursor={self.cursor}"] if self.cursor else []
        # What systemd says of mgbd, and mgbd itself.
        command = ["journalctl", "--quiet", "--no-pager", "--show-cursor", "-o", "json", "-u", "mgbd", *after]
        errors = []
        for line in self.machine.run(command)["stdout"].splitlines():
            if line.startswith("-- cursor: "):
                self.cursor = line.split(": ", 1)[1]
                continue
            entry = json.loads(line)
            text = entry["MESSAGE"] if isinstance(entry["MESSAGE"], str) else repr(bytes(entry["MESSAGE"]))
            if int(entry["PRIORITY"]) <= 3 or re.search(r"\bERROR\b|panicked", text):
                errors.append(text)
        return errors

    # Checks.

    def check(self, what, right, figure=None):
        self.wrong += not right
        print(f"{'ok   ' if right else 'WRONG'} {what}" + ("" if figure is None else f": {figure}"), flush=True)

    def rounds(self, what, count, play, **also):
        """Plays rounds that say what is wrong with them, and tells of times by name."""
        times, wrong = {}, []
        for at in range(count):
            for thing in play(at, lambda name, seconds: times.setdefault(name, []).append(seconds)):
                wrong.append((at, thing))
        said = lambda of: f"median {1000 * statistics.median(of):.0f} ms, longest {1000 * max(of):.0f}"
        figure = {name: said(of) for name, of in times.items()}
        figure.update({name: value() for name, value in also.items()})
        if wrong:
            figure["wrong"], figure["first"] = len(wrong), wrong[:3]
        self.check(f"{what}, {count} rounds", not wrong, figure)

    def until(self, condition, seconds=30):
        """Waits; seconds until it holds, or None."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() > began + seconds:
                return None
            time.sleep(0.005)
        return time.monotonic() - began

    def is_right(self, process, timeout=120):
        """What is wrong with the end of a program, if anything."""
        output, errors = process.communicate(timeout=timeout)
        is_right = process.returncode == 0 and "PASS" in output
        return [] if is_right else [(process.returncode, output[-200:] + errors[-200:])]

    def next_mgbd(self, old):
        """Seconds until another mgbd is active."""
        is_there = lambda now: now["ActiveState"] == "active" and now["MainPID"] not in ("0", str(old))
        return self.until(lambda: is_there(self.show("ActiveState", "MainPID")))


class Load:
    """Programs of both users, more than fit, so that some wait; each that ends is followed by another."""

    def __init__(self, trial, count=6):
        self.trial, self.count, self.running, self.ended, self.wrong = trial, count, [], 0, []

    def fill(self):
        for process in [process for process in self.running if process.poll() is not None]:
            self.reap(process)
        while len(self.running) < self.count:
            self.running.append(self.trial.spawn(LOAD, USERS[len(self.running) % 2]))

    def reap(self, process):
        self.running.remove(process)
        self.wrong += self.trial.is_right(process)
        self.ended += 1

    def end(self):
        """What went wrong with any of them."""
        for process in list(self.running):
            self.reap(process)
        return self.wrong

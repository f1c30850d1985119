#!/usr/bin/env python3
"""mgbd under a real systemd, with the units of this repository, on software GPUs: started and stopped, started by
its socket, killed, hung, restarted and reloaded under programs of two users at work. Needs root. The Debian that it
runs in is made by --make-root (debootstrap, 300 MiB)."""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import sys
import time

from machine import Machine, Missing, make_root

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
USERS = ("alice", "bob")
# On them two programs of `LOAD` run at once, one on each GPU, and others wait.
GPUS = ["SOFTGPU_DEVICES=2x16MiB", "SOFTGPU_STATE=/run/softgpu/state"]
LIBRARIES = "/opt/softgpu"
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
        """Files of MGB and of the software GPUs; as if they had been there when the machine was switched on."""
        root, prefix = self.arguments.root, self.arguments.prefix
        local, etc = root / "usr/local", root / "etc"
        own = (local / "share/mgb", root / LIBRARIES[1:], etc / "mgb", etc / "systemd/system/mgbd.service.d")
        for folder in own:
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (*own, etc / "sysusers.d", etc / "tmpfiles.d"):
            folder.mkdir(parents=True, exist_ok=True)
        for name in ("mgbd", "mgb"):
            shutil.copy(prefix / "bin" / name, local / "bin")
        shutil.copy(prefix / "lib/libmgb_rt.so", local / "lib")
        for name in ("vecadd", "phases"):
            shutil.copy(prefix / "examples/mgb" / name, local / "share/mgb")
        shutil.copytree(prefix / "lib/softgpu", root / LIBRARIES[1:], symlinks=True, dirs_exist_ok=True)
        units = REPOSITORY / "systemd"
        for name in ("mgbd.service", "mgbd.socket", "mgb-driver.service"):
            shutil.copy(units / name, etc / "systemd/system")
        shutil.copy(units / "mgbd.toml", etc / "mgb")
        shutil.copy(units / "mgb.sysusers.conf", etc / "sysusers.d/mgb.conf")
        shutil.copy(units / "mgb.tmpfiles.conf", etc / "tmpfiles.d/mgb.conf")
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
        wanted.symlink_to("/etc/systemd/system/mgbd.service")

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
        return [f"/usr/local/share/mgb/{program[0]}", *(str(word) for word in program[1:])]

    def environment(self):
        """What programs need beside mgbd."""
        return [f"LD_LIBRARY_PATH={LIBRARIES}:/usr/local/lib", "MGB=require", *GPUS]

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


def starts_and_stops(trial):
    now = trial.show("ActiveState", "NRestarts")
    trial.check("it was started with the machine", now == {"ActiveState": "active", "NRestarts": "0"}, now)
    trial.systemctl("stop", "mgbd")

    def play(at, took):
        # More starts in 10 s than the unit allows.
        trial.systemctl("reset-failed", "mgbd")
        started = trial.systemctl("start", "mgbd")
        took("start", started["seconds"])
        now = trial.show("ActiveState", "SubState", "StatusText", "Result")
        # The text comes in one message with READY=1.
        if started["code"] != 0 or sorted(now.values()) != ["active", "running", "sharing 2 GPUs by mgb", "success"]:
            yield now
        program = trial.spawn(["vecadd"], USERS[at % 2])
        yield from trial.is_right(program)
        stopped = trial.systemctl("stop", "mgbd")
        took("stop", stopped["seconds"])
        now = trial.show("ActiveState", "Result", "ExecMainCode", "ExecMainStatus")
        # 1 is CLD_EXITED.
        if stopped["code"] != 0 or sorted(now.values()) != ["0", "1", "inactive", "success"]:
            yield now
        gone = trial.until(lambda: not trial.left(), 1)
        if gone is None:
            yield trial.left()
        else:
            took("nothing left after", gone)
        yield from trial.said()

    log = trial.machine.path("/run/mgb/mgbd.sock.log")
    trial.rounds("started, used and stopped", trial.arguments.rounds, play,
                 **{"holder's log, bytes": lambda: log.stat().st_size if log.exists() else 0})


def started_by_its_socket(trial):
    trial.systemctl("start", "mgbd.socket")
    STAYS.add("mgbd.sock")

    def play(at, took):
        trial.systemctl("reset-failed", "mgbd", "mgbd.socket")
        if trial.show("ActiveState")["ActiveState"] != "inactive":
            yield "mgbd runs already"
        began = time.monotonic()
        yield from trial.is_right(trial.spawn(["vecadd"], USERS[at % 2]))
        took("the program", time.monotonic() - began)
        if trial.show("ActiveState")["ActiveState"] != "active":
            yield "mgbd was not started"
        if at % 2:
            old = trial.pid()
            trial.systemctl("kill", "-s", "KILL", "--kill-who=main", "mgbd")
            if trial.next_mgbd(old) is None:
                yield "a killed one does not come again"
        trial.systemctl("stop", "mgbd")
        if trial.until(lambda: not trial.left(), 1) is None or not trial.machine.path("/run/mgb/mgbd.sock").is_socket():
            yield trial.left()

    trial.rounds("started by a program at the socket, half of them killed", trial.arguments.some, play)
    STAYS.remove("mgbd.sock")
    trial.systemctl("stop", "mgbd.socket")
    trial.machine.path("/run/mgb/mgbd.sock").unlink(missing_ok=True)
    trial.said()


def replaced(trial, what, count, end):
    """Another mgbd follows under programs that run and wait."""
    trial.systemctl("reset-failed", "mgbd")
    trial.systemctl("start", "mgbd")
    load, holder = Load(trial), trial.holders()
    restarts = int(trial.show("NRestarts")["NRestarts"])
    waiting = []

    def play(at, took):
        load.fill()
        trial.until(lambda: len(trial.status()["queue"]) >= 2, 5)
        waiting.append(len(trial.status()["queue"]))
        old = trial.pid()
        seconds = end(old)
        if seconds is None:
            yield trial.show("ActiveState", "SubState", "Result", "NRestarts")
            return
        took("until the next is ready", seconds)
        if trial.holders() != holder:
            yield {"holder": holder, "now": trial.holders()}

    trial.rounds(what, count, play, **{
        "waited at the time": lambda: sum(waiting),
        # Those that nobody asked for.
        "restarts by systemd": lambda: max(0, int(trial.show("NRestarts")["NRestarts"]) - restarts)})
    wrong = load.end()
    figure = {"programs": load.ended, "wrong": len(wrong), "first": wrong[:2]}
    trial.check("  all programs are right", not wrong, figure)
    empty = trial.until(lambda: not trial.status()["tasks"] and not trial.status()["queue"], 10)
    trial.check("  and the ledger is empty", empty is not None, None if empty is not None else trial.status())


def kills(trial):
    def kill(old):
        began = time.monotonic()
        trial.systemctl("kill", "-s", "KILL", "--kill-who=main", "mgbd")
        return None if trial.next_mgbd(old) is None else time.monotonic() - began

    replaced(trial, "killed under programs", trial.arguments.some, kill)
    # systemd itself says of a kill that it was one.
    trial.said()


def restarts(trial):
    def restart(_old):
        said = trial.systemctl("restart", "mgbd")
        return said["seconds"] if said["code"] == 0 else None

    replaced(trial, "restarted under programs", trial.arguments.some, restart)
    errors = trial.said()
    trial.check("  without an error in the journal", not errors, errors[:3] or None)


def hangs(trial):
    trial.drop_in(f"WatchdogSec={trial.arguments.watchdog}")
    trial.systemctl("restart", "mgbd")

    def stop(old):
        began = time.monotonic()
        trial.systemctl("kill", "-s", "STOP", "--kill-who=main", "mgbd")
        seconds = trial.until(lambda: trial.pid() not in (0, old), 2 * trial.arguments.watchdog + 30)
        return None if seconds is None or trial.next_mgbd(old) is None else time.monotonic() - began

    replaced(trial, f"stopped by SIGSTOP, with a watchdog of {trial.arguments.watchdog} s", 2, stop)
    said = trial.said()
    trial.check("  systemd says why", any("watchdog" in line.lower() for line in said), said[:2])
    trial.drop_in("")
    trial.systemctl("restart", "mgbd")


def reload(trial):
    if trial.show("CanReload")["CanReload"] != "yes":
        trial.check("the unit has no reload: left out", True)
        return
    program = trial.spawn(LONG)
    trial.until(lambda: trial.status()["tasks"], 10)
    old = trial.pid()
    said = [trial.systemctl("reload", "mgbd")["code"] for _ in range(5)]
    right = said == [0] * 5 and trial.pid() == old and trial.show("ActiveState")["ActiveState"] == "active"
    trial.check("reloaded under a program", right and not trial.is_right(program), said)


def users(trial):
    programs = {user: trial.spawn(LONG, user) for user in USERS}
    both = lambda: len({task["uid"] for task in trial.status()["tasks"] if task["held_bytes"]}) == 2
    trial.check("programs of two users hold memory at once", trial.until(both, 10) is not None)
    seen = trial.status(USERS[0])["tasks"]
    own = int(trial.machine.run(["id", "-u", USERS[0]])["stdout"])
    right = len(seen) == 2 and all(bool(task["label"]) == (task["uid"] == own) for task in seen)
    trial.check("a user sees labels of his own alone", right, None if right else seen)
    wrong = [thing for program in programs.values() for thing in trial.is_right(program)]
    trial.check("both are right", not wrong, wrong or None)


def logs_out(trial):
    program = trial.spawn(LONG, USERS[0])
    trial.until(lambda: trial.status()["tasks"], 10)
    seen = len(trial.status(USERS[0])["tasks"])
    session = ["systemd-run", "--wait", "-p", f"User={USERS[0]}", "-p", "PAMName=login"]
    trial.machine.run([*session, "loginctl", "list-users"])
    is_gone = lambda: not trial.machine.run(["loginctl", "list-users", "--no-legend"])["stdout"].strip()
    gone = trial.until(is_gone, 10)
    now = trial.status(USERS[0])
    right = gone is not None and seen == len(now["tasks"]) == 1
    trial.check("who logs out and in again sees the program that runs on", right, None if right else now)
    wrong = trial.is_right(program)
    trial.check("  which is right", not wrong, wrong or None)


def a_group(trial):
    settings = trial.machine.path("/etc/mgb/mgbd.toml")
    usual = settings.read_text()
    there = trial.machine.run(["getent", "group", "gpu"])
    trial.check("sysusers.d made the group", there["code"] == 0, there["stdout"].strip())
    trial.machine.run(["usermod", "--append", "--groups", "gpu", USERS[0]])
    settings.write_text('serve = "group:gpu"\n')
    trial.systemctl("restart", "mgbd")
    member, other = trial.spawn(["vecadd"], USERS[0]), trial.spawn(["vecadd"], USERS[1])
    wrong = trial.is_right(member)
    said = other.communicate()[1]
    trial.check("of a group its members are served", not wrong, wrong or None)
    trial.check("and no others", other.returncode != 0 and "no permission" in said, said.strip())
    settings.write_text(usual)
    trial.systemctl("restart", "mgbd")


def stopped_under_programs(trial):
    running = [trial.spawn(LONG, user) for user in USERS]
    trial.until(lambda: len([task for task in trial.status()["tasks"] if task["held_bytes"]]) == 2, 10)
    waits = trial.spawn(LONG, USERS[0])
    trial.until(lambda: trial.status()["queue"], 10)
    stopped = trial.systemctl("stop", "mgbd")
    output, errors = waits.communicate(timeout=20)
    trial.check("stopped under programs, who waits is told", waits.returncode != 0 and "mgbd" in errors,
                {"stop": f"{1000 * stopped['seconds']:.0f} ms", "said": errors.strip()[-120:]})
    again = trial.systemctl("start", "mgbd")
    used = again["code"] == 0 and not trial.is_right(trial.spawn(["vecadd"]))
    trial.check("  started again meanwhile, it is used", used)
    wrong = [thing for program in running for thing in trial.is_right(program)]
    trial.check("  who ran ends right", not wrong, wrong or None)
    trial.systemctl("stop", "mgbd")
    gone = trial.until(lambda: not trial.left(), 10)
    trial.check("  and nothing is left", gone is not None, trial.left() or None)
    trial.said()


def said_last(trial):
    return trial.machine.run(["journalctl", "-u", "mgbd", "-o", "cat", "-n", "12"])["stdout"].splitlines()


def cannot_start(trial):
    settings = trial.machine.path("/etc/mgb/mgbd.toml")
    usual = settings.read_text()
    settings.write_text('polcy = "mgb"\n')
    said = trial.systemctl("start", "mgbd")
    state = lambda: trial.show("ActiveState", "NRestarts")
    failed = trial.until(lambda: state()["ActiveState"] == "failed", 20)
    trial.check("with wrong settings it fails", said["code"] != 0 and failed is not None, state())
    trial.check("  and says why", any("polcy" in line for line in said_last(trial)))
    settings.write_text(usual)
    trial.systemctl("reset-failed", "mgbd")
    trial.drop_in("Environment=SOFTGPU_DEVICES=none")
    began = time.monotonic()
    trial.systemctl("start", "mgbd")
    failed = trial.until(lambda: state()["ActiveState"] == "failed", 40)
    figure = {**state(), "seconds": round(time.monotonic() - began, 1)}
    trial.check("without a GPU it is given up", failed is not None, figure)
    trial.drop_in("")
    trial.systemctl("reset-failed", "mgbd")
    trial.said()


def units(trial):
    paths = [f"/etc/systemd/system/mgbd.{kind}" for kind in ("service", "socket")]
    said = trial.machine.run(["systemd-analyze", "verify", *paths])
    errors = said["stderr"].strip()
    trial.check("systemd-analyze verify is content", said["code"] == 0 and not errors, errors or None)
    said = trial.machine.run(["systemd-analyze", "security", "--no-pager", "mgbd"])["stdout"]
    last = said.strip().splitlines()[-1]
    score = float(re.search(r"([\d.]+) [A-Z]", last).group(1))
    trial.check("systemd-analyze security says at most 2", score <= 2, score)
    trial.check("tmpfiles.d made /run/mgb before mgbd", trial.machine.path("/run/mgb/clients").is_dir())


def switched_off(trial):
    trial.systemctl("start", "mgbd")
    # In units of their own, as the programs of a machine are: systemd waits for what others have started.
    for user in USERS:
        settings = [f"--setenv={setting}" for setting in trial.environment()]
        trial.machine.run(["systemd-run", f"--uid={user}", *settings, *trial.words(LONG)])
    trial.until(lambda: len(trial.status()["tasks"]) == len(USERS), 10)
    held = len(trial.status()["tasks"])
    seconds = trial.machine.power_off()
    trial.check("the machine goes off under programs", seconds is not None and seconds < 5 and held == len(USERS),
                {"programs": held, "seconds": seconds and round(seconds, 1)})


PARTS = (units, starts_and_stops, started_by_its_socket, kills, restarts, hangs, reload, users, logs_out, a_group,
         stopped_under_programs, cannot_start, switched_off)


def main():
    parser = argparse.ArgumentParser(prog="service.py", description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=REPOSITORY / "build/systemd-root",
                        help="folder of the Debian (default: build/systemd-root)")
    parser.add_argument("--make-root", action="store_true", help="make it if it is not there")
    prefix = pathlib.Path(os.environ.get("MGB_PREFIX", REPOSITORY / "build"))
    parser.add_argument("--prefix", type=pathlib.Path, default=prefix, help="folder with bin/mgbd and examples/")
    parser.add_argument("--rounds", type=int, default=100, help="starts and stops (default 100)")
    parser.add_argument("--some", type=int, default=20, help="rounds of anything else (default 20)")
    parser.add_argument("--watchdog", type=int, default=2, help="WatchdogSec= where mgbd hangs (default 2)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    trial = Trial(arguments)
    try:
        if os.geteuid() != 0:
            raise Missing("this is not root")
        if not arguments.root.exists():
            if not arguments.make_root:
                raise Missing(f"there is no {arguments.root}; --make-root makes it")
            make_root(arguments.root)
        trial.install()
        state = trial.machine.boot()
        trial.check("systemd is up", state == "running", state)
        trial.add_users()
        for part in PARTS:
            part(trial)
    except Missing as missing:
        print(f"service.py: left out: {missing}")
        return 0
    finally:
        trial.machine.clean_up()
    print(f"service.py: {trial.wrong} wrong, {time.monotonic() - trial.began:.0f} s")
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

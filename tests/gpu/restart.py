#!/usr/bin/env python3
"""mgbd is killed again and again under programs at work with MPS, and comes back: no program fails, those that wait keep their
order, MPS is the same one throughout. Then it is replaced by the next build, which speaks the next version of the protocol,
and back (`make next bundle`): the programs run on."""

import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import time

from trial import GIB, Trial, kill_group


def pid_of_mgbd(trial):
    """The mgbd that listens, as its lock file says."""
    try:
        return json.loads((trial.folder / "mgbd.sock.lock").read_text())["pid"]
    except (OSError, ValueError, KeyError):
        return None


def status(trial):
    ended = trial.run([trial.prefix / "bin/mgb", "status", "--json"], timeout=30)
    return json.loads(ended["stdout"]) if ended["code"] == 0 else None


def replace(trial, number):
    """Ends mgbd by a signal; seconds until the next one has answered."""
    old = pid_of_mgbd(trial)
    began = time.monotonic()
    os.kill(old, number)
    while time.monotonic() < began + 30:
        view = status(trial)
        if view and view["mgbd_pid"] != old:
            return time.monotonic() - began
        time.sleep(0.005)
    return None


class Load:
    """So many programs at once, which begin and end; more than fit, so that some wait."""

    def __init__(self, trial, count):
        self.trial, self.count, self.running, self.ended, self.wrong = trial, count, [], 0, []
        self.environment = trial.environment(MGB="require")

    def fill(self):
        while len(self.running) < self.count:
            seconds = random.randint(2, 6)
            words = ["phases", 1024, seconds, 1, random.choice(("wait", "compute")), 400, 528]
            command = [self.trial.example(words[0]), *words[1:]]
            self.running.append(self.trial.spawn(command, self.environment))

    def reap(self, wait=False):
        for program in list(self.running):
            if wait or program.poll() is not None:
                output, errors = program.communicate(timeout=self.trial.left())
                self.running.remove(program)
                self.trial.running.remove(program)
                self.ended += 1
                if program.returncode != 0 or "PASS" not in output:
                    self.wrong.append({"code": program.returncode, "said": (output + errors)[-300:]})


def order_is_kept(before, after):
    """Whether those that wait in both views do so in the same order."""
    pids = lambda view: [waiting["pid"] for waiting in view["queue"]]
    then, now = pids(before), pids(after)
    both = [pid for pid in then if pid in now]
    return both == [pid for pid in now if pid in then], len(both)


def rounds(trial, load, count, end):
    times, waited, mixed = [], 0, 0
    for at in range(count):
        load.fill()
        time.sleep(random.uniform(0.05, 0.4))
        before = status(trial)
        seconds = end(at)
        if seconds is None:
            return None
        after = status(trial)
        times.append(seconds)
        kept, both = order_is_kept(before, after)
        mixed += not kept
        waited += both
        load.reap()
    return {"rounds": count, "until the next answers, median s": round(statistics.median(times), 3),
            "longest s": round(max(times), 3), "kept their places": waited, "mixed up": mixed}


def upgrade(trial, program, build):
    """Puts a build in the place of the one that runs, and has that end."""
    aside = program.with_suffix(".aside")
    shutil.copy2(build, aside)
    os.replace(aside, program)
    return replace(trial, signal.SIGUSR1)


def main():
    trial = Trial("restart", __doc__, lambda parser: (
        parser.add_argument("--kills", type=int, default=100, help="kills of mgbd (default 100)"),
        parser.add_argument("--upgrades", type=int, default=50, help="rounds to the next build and back (default 50)"),
        parser.add_argument("--programs", type=int, default=20, help="programs at once (default 20)"),
        parser.add_argument("--room", type=float, default=24.0, help="GiB of each GPU for them (default 24)")))
    random.seed(7)
    own = trial.folder / "mgbd"
    shutil.copy2(trial.prefix / "bin/mgbd", own)
    log = open(trial.folder / "mgbd.log", "a")
    options = ["--capacity", f"{int(trial.arguments.room * GIB)}"]
    daemon = trial.spawn([own, *options], trial.environment(CUDA_VISIBLE_DEVICES="0"), stdout=log, stderr=log)
    until = time.monotonic() + 60
    while status(trial) is None and time.monotonic() < until:
        time.sleep(0.05)
    begun = status(trial)
    trial.check("mgbd shares a GPU", begun is not None, (trial.folder / "mgbd.log").read_text()[-500:] if begun is None else None)
    pid_file = pathlib.Path(begun["mps_pipe"] or "") / "nvidia-cuda-mps-control.pid"
    control = lambda: pid_file.read_text().strip() if begun["mps_pipe"] else None
    mps, load = control(), Load(trial, trial.arguments.programs)
    figure = rounds(trial, load, trial.arguments.kills, lambda at: replace(trial, signal.SIGKILL))
    trial.check("killed, it comes back, and who waits keeps his place", figure and not figure["mixed up"], figure)
    following = trial.prefix / "next/mgbd"
    if following.exists():
        builds = [following, trial.prefix / "bin/mgbd"]
        figure = rounds(trial, load, 2 * trial.arguments.upgrades, lambda at: upgrade(trial, own, builds[at % 2]))
        trial.check("replaced by the next build and back, the same", figure and not figure["mixed up"], figure)
    else:
        trial.check("the next build is not in the bundle (`make next bundle`): left out", True)
    load.reap(wait=True)
    trial.check("no program fails", not load.wrong, {"ended": load.ended, "wrong": len(load.wrong), "first": load.wrong[:2]})
    trial.check("MPS is the same one", control() == mps, {"then": mps, "now": control()})
    deadline = time.monotonic() + 10
    empty = lambda view: view and not view["tasks"] and not view["queue"] and not any(
        gpu["reserved_bytes"] + gpu["contexts_bytes"] + gpu["reclaiming_bytes"] for gpu in view["gpus"])
    while not empty(status(trial)) and time.monotonic() < deadline:
        time.sleep(0.1)
    view = status(trial)
    trial.check("the ledger is empty", empty(view), None if empty(view) else view)
    kill_group(daemon)
    stopped = trial.run([trial.prefix / "bin/mgb", "stop"], timeout=60)
    trial.check("mgb stop", stopped["code"] == 0, stopped["stdout"] + stopped["stderr"])
    trial.finish()


main()

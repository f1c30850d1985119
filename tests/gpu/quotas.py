#!/usr/bin/env python3
"""Quotas of two users on one GPU under MPS: a user never has more memory or tasks than the file says, others go on, and a reload
counts at once. Needs root."""

import os
import signal
import time

from trial import GIB, Trial
from users import USERS, copy


def main():
    trial = Trial("quotas", __doc__)
    if os.geteuid() != 0:
        trial.check("this is not root: left out", True)
        trial.finish()
    folder = copy(trial)
    first, second = USERS
    file = trial.folder / "quotas.toml"
    file.write_text(f'[users.{first}]\nbytes = "4GiB"\n[users.{second}]\ntasks = 2\n')
    trial.mgbd(options=["--serve", "all", "--quotas", file])
    as_user = lambda uid: ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
    environment = trial.environment(MGB="require", LD_LIBRARY_PATH=folder / "lib")
    front = {**environment, "LD_LIBRARY_PATH": f"{folder / 'lib/front'}:{environment['LD_LIBRARY_PATH']}"}
    programs = []
    for uid in USERS:
        for at in range(6):
            name, where = (("phases", environment), ("plain", front))[at % 2]
            words = [1024, 4, 100, "wait", 50, 8]
            programs.append((uid, trial.spawn([*as_user(uid), folder / name, *words], where)))
    most = {"first's bytes": 0, "first's tasks": 0, "second's tasks": 0, "waiting for quotas": 0}
    while any(program.poll() is None for _, program in programs) and trial.left() > 30:
        view = trial.status()
        owners = {owner["id"]: owner for owner in view["quotas"]["owners"] if not owner["is_group"]}
        if first in owners:
            most["first's bytes"] = max(most["first's bytes"], owners[first]["bytes"])
            most["first's tasks"] = max(most["first's tasks"], owners[first]["tasks"])
        if second in owners:
            most["second's tasks"] = max(most["second's tasks"], owners[second]["tasks"])
        most["waiting for quotas"] = max(most["waiting for quotas"], sum(wait["over_quota"] for wait in view["queue"]))
        time.sleep(0.05)
    wrong = []
    for uid, process in programs:
        output, errors = process.communicate(timeout=trial.left())
        trial.running.remove(process)
        if process.returncode != 0 or "PASS" not in output:
            wrong.append((uid, process.returncode, (output + errors)[-300:]))
    trial.check("all twelve are right", not wrong, wrong[:3] or None)
    # A program that was not rebuilt begins with nothing, and one of those that grow may go beyond where all wait.
    trial.check("the first user has no more bytes than it may", 0 < most["first's bytes"] <= 4 * GIB, most)
    trial.check("the second user has no more tasks than it may", 0 < most["second's tasks"] <= 2, most)
    trial.check("some wait for their quota", most["waiting for quotas"] > 0, most)
    big = trial.run([*as_user(first), folder / "phases", 8192, 1, 10, "wait", 10, 8], environment)
    told = "its user may have 4.0 GiB at once" in big["stderr"]
    trial.check("what is beyond the quota by itself is told so", big["code"] != 0 and told, big["stderr"][-200:])
    file.write_text(f'[users.{first}]\nbytes = "20GiB"\n')
    pid = trial.status()["mgbd_pid"]
    os.kill(pid, signal.SIGHUP)
    time.sleep(0.5)
    big = trial.run([*as_user(first), folder / "phases", 8192, 1, 10, "wait", 10, 8], environment)
    trial.check("and may have it after a reload", big["code"] == 0 and "PASS" in big["stdout"], big["stderr"][-200:] or None)
    shown = trial.run([*as_user(first), folder / "mgb", "quota"], environment)
    trial.check("mgb quota shows it", shown["code"] == 0 and "quotas of" in shown["stdout"], shown["stdout"])
    trial.stop_mgbd()
    trial.finish()


main()

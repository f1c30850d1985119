#!/usr/bin/env python3
"""One mgbd for several users, under MPS: programs of two users and of root run at once on one GPU under one MPS server, all are
right, and no user sees the labels of another or orders his programs. With --as-unit mgbd and MPS have the rights alone that
mgbd's unit leaves them. Needs root."""

import json
import os
import shutil
import time

from trial import Trial

USERS = (20001, 20002)


def copy(trial):
    """What the users run, in a folder that they can enter."""
    folder = trial.folder / "users"
    (folder / "lib").mkdir(parents=True)
    for name in ("libmgb_rt.so", "libcudart.so.13"):
        shutil.copy(trial.prefix / "lib" / name, folder / "lib")
    shutil.copytree(trial.prefix / "lib/front", folder / "lib/front", symlinks=True)
    for program in (trial.example("phases"), trial.prefix / "bin/mgb"):
        shutil.copy(program, folder)
    shutil.copy(trial.example("phases", plain=True), folder / "plain")
    for path in [trial.folder, folder, *folder.rglob("*")]:
        os.chmod(path, 0o755)
    return folder


def main():
    trial = Trial("users", __doc__, lambda parser: parser.add_argument("--as-unit", action="store_true",
                                                                       help="start mgbd with the rights of its unit"))
    if trial.arguments.as_unit:
        trial.name = trial.result["trial"] = "users-as-unit"
    if os.geteuid() != 0:
        trial.check("this is not root: left out", True)
        trial.finish()
    folder = copy(trial)
    trial.mgbd(options=["--serve", "all"], before=trial.as_unit() if trial.arguments.as_unit else ())
    as_user = lambda uid: ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
    environment = trial.environment(MGB="require", LD_LIBRARY_PATH=folder / "lib")
    front = {**environment, "LD_LIBRARY_PATH": f"{folder / 'lib/front'}:{environment['LD_LIBRARY_PATH']}"}
    words = [512, 30, 200, "wait", 100, 8]
    began, programs = time.monotonic(), {}
    for uid in (*USERS, 0):
        for name, where in (("phases", environment), ("phases", environment), ("plain", front)):
            process = trial.spawn([*as_user(uid), folder / name, *words], where)
            programs[process.pid] = (uid, process)
    deadline = time.monotonic() + 30
    both = lambda: {task["uid"] for task in trial.status()["tasks"] if task["held_bytes"]} >= {*USERS, 0}
    while not both() and time.monotonic() < deadline:
        time.sleep(0.05)
    view = trial.status()
    trial.check("programs of three users hold memory at once", both(), sorted({task["uid"] for task in view["tasks"]}))
    servers = trial.run(["sh", "-c", "ps -C nvidia-cuda-mps-server -o args= "])["stdout"].split("\n")
    shared = [line for line in servers if line.startswith("nvidia-cuda-mps-server -multiuser-server")]
    trial.check("under one MPS server for several users", len(shared) == 1 and view["mps_pipe"], servers)
    own = next(pid for pid, (uid, _) in programs.items() if uid == USERS[0])
    said = trial.run([*as_user(USERS[0]), folder / "mgb", "status", "--json"], environment)
    seen = json.loads(said["stdout"])["tasks"] if said["code"] == 0 else []
    right = seen and all(bool(task["label"]) == (task["uid"] == USERS[0]) for task in seen)
    trial.check("a user sees the labels of his own programs alone", right, None if right else said)
    other = next(pid for pid, (uid, _) in programs.items() if uid == USERS[1])
    said = trial.run([*as_user(USERS[0]), folder / "mgb", "suspend", other], environment)
    trial.check("and suspends nobody else's", said["code"] != 0 and "another user" in said["stderr"], said["stderr"])
    said = trial.run([*as_user(USERS[0]), folder / "mgb", "suspend", own], environment)
    back = trial.run([*as_user(USERS[0]), folder / "mgb", "resume", own], environment)
    trial.check("but his own", said["code"] == 0 and back["code"] == 0, said["stdout"] + said["stderr"])
    wrong = []
    for uid, process in programs.values():
        output, errors = process.communicate(timeout=trial.left())
        trial.running.remove(process)
        if process.returncode != 0 or "PASS" not in output:
            wrong.append((uid, process.returncode, (output + errors)[-300:]))
    trial.check("all nine are right", not wrong, {"seconds": round(time.monotonic() - began, 1), "wrong": wrong[:3]})
    trial.stop_mgbd()
    trial.finish()


if __name__ == "__main__":
    main()

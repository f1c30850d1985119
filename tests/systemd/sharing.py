"""Checks of several users: who sees what, who is served, and what a log-out leaves."""

from service_trial import LONG, USERS


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

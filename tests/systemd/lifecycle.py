"""Checks of an mgbd that starts, ends, is killed or hangs and is followed by another one, by itself or under
programs."""

import time

from service_trial import LONG, STAYS, USERS, Load


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

#!/usr/bin/env python3
"""Killing on a real GPU under MPS: rounds of clients that fill a GPU, a task that waits for room, and one client killed
with SIGKILL at a random moment. Its room is marked at once, granted as soon as NVML shows it free and never before, the
neighbours' results are right, nobody runs out of memory, and the ledger is empty at the end."""

import datetime
import random
import re
import signal
import statistics
import threading
import time

from trial import MIB, Nvml, Trial

CONTEXT = 526 * MIB
MARKED_WITHIN = 0.100
# Between two looks at NVML here: a millisecond and the call itself.
POLL = 0.004
# Contexts take longer to make than from one of their allocations to the next.
SETTLED = 0.3


class Watch(threading.Thread):
    """Polls NVML every millisecond and keeps when the used memory of a GPU changed, and how. Times are of the clock that
    mgbd's log has."""

    def __init__(self, gpu):
        super().__init__(daemon=True)
        self.nvml, self.gpu = Nvml(), gpu
        self.changes = [(time.time(), self.nvml.used(gpu))]
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.001):
            used, now = self.nvml.used(self.gpu), time.time()
            if used != self.changes[-1][1]:
                self.changes.append((now, used))

    def settle(self, quiet, deadline):
        """Waits until the memory used has not changed for `quiet` seconds: nobody is making a context, whose memory
        would hide what comes free. False if that does not come about."""
        while time.time() - self.changes[-1][0] < quiet:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def stop(self):
        self.over.set()
        self.join()

    def first_drop(self, since, amount):
        """When the memory used was first lower by `amount` than at `since`."""
        before = [used for at, used in self.changes if at <= since][-1]
        for at, used in self.changes:
            if at > since and used <= before - amount:
                return at
        return None


def holders(status):
    """Process ids of tasks that hold room."""
    return {task["pid"] for task in status["tasks"]}


def waiters(status):
    return {waiting["pid"] for waiting in status["queue"]}


def charged(status):
    """Bytes that the ledger still charges, to whomever."""
    return sum(gpu["reserved_bytes"] + gpu["contexts_bytes"] + gpu["reclaiming_bytes"] for gpu in status["gpus"])


def log_times(trial, event, pid):
    """When mgbd's log says `event` of a process, in seconds since the epoch."""
    times = []
    for line in (trial.folder / "mgbd-mgb.log").read_text().splitlines():
        if event in line and re.search(rf"\bpid={pid}\b", line):
            stamp = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00"))
            times.append(stamp.timestamp())
    return times


def play(trial, number, dice, clients, size):
    """One round; the times are seconds from the kill."""
    # Each client holds `size` for some three seconds; the last one to come waits, because one place too few is left.
    job = ["phases", size // MIB, 10, 300, "wait", 4, 32]
    environment = trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0")
    command = [trial.example(job[0])] + job[1:]
    watch = Watch(0)
    running = [trial.spawn(command, environment) for _ in range(clients)]
    deadline = time.monotonic() + 8
    status = trial.status()
    while (len(holders(status)) < clients - 1 or not waiters(status)) and time.monotonic() < deadline:
        time.sleep(0.02)
        status = trial.status()
    settled = watch.settle(SETTLED, deadline)
    time.sleep(dice.uniform(0, 0.7))
    status = trial.status()
    holding, waiting = holders(status), waiters(status)
    victims = [p for p in running if p.pid in holding and p.poll() is None]
    outcome = {"round": number, "holding": len(holding), "waiting": len(waiting), "settled": settled}
    if victims and waiting:
        victim = dice.choice(victims)
        killed = time.time()
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        died = time.time()
        trial.running.remove(victim)
        running.remove(victim)
        granted = []
        while not granted and time.time() < killed + 10:
            granted = [at for pid in waiting for at in log_times(trial, "granted", pid)]
            time.sleep(0.01)
        # Contexts that others make meanwhile take some of what came free.
        free = watch.first_drop(killed, size * 9 // 10)
        times = {"marked": log_times(trial, "its room is reclaiming", victim.pid), "died": [died], "free": [free],
                 "room given back": log_times(trial, "the room is free again", victim.pid), "granted": granted}
        outcome.update({name: min(seen) - killed for name, seen in times.items() if seen and seen[0] is not None})
    wrong = []
    for process in running:
        output, errors = process.communicate(timeout=60)
        trial.running.remove(process)
        if process.returncode != 0 or "PASS" not in output:
            wrong.append({"code": process.returncode, "output": output, "errors": errors[-1000:]})
    watch.stop()
    outcome["wrong"] = wrong
    return outcome


def summary(outcomes, name):
    """Median and largest of a time, in milliseconds."""
    times = [1000 * o[name] for o in outcomes if o.get(name) is not None]
    return {"count": len(times), "median ms": round(statistics.median(times), 1), "max ms": round(max(times), 1)} \
        if times else {"count": 0}


def main():
    trial = Trial("kill", __doc__, lambda parser: (
        parser.add_argument("--rounds", type=int, default=50),
        parser.add_argument("--clients", type=int, default=5),
        parser.add_argument("--seed", type=int, default=1)))
    clients, size = trial.arguments.clients, 768 * MIB
    dice = random.Random(trial.arguments.seed)
    # Room for all clients but one, and half a client's more.
    trial.ballast((clients - 1) * (size + CONTEXT) + size // 2, gpu=0)
    trial.mgbd(CUDA_VISIBLE_DEVICES="0", MGBD_LOG="info,mgb_scheduler::broker=debug")
    outcomes = []
    while len(outcomes) < trial.arguments.rounds and trial.left() > 30:
        outcomes.append(play(trial, len(outcomes), dice, clients, size))
        print(outcomes[-1], flush=True)
    trial.result["rounds"] = outcomes
    killed = [o for o in outcomes if "died" in o]
    trial.check("rounds played, each with a task waiting for the room", len(killed) == trial.arguments.rounds, len(killed))
    trial.check("marked within 100 ms of the kill", all(o.get("marked", 9) <= MARKED_WITHIN for o in killed),
                summary(killed, "marked"))
    trial.check("process gone, by its parent", True, summary(killed, "died"))
    waited = [o for o in killed if "granted" in o and "free" in o]
    trial.check("NVML showed the room free, and the waiting task was granted",
                len(waited) == len(killed), {"free": summary(waited, "free"), "granted": summary(waited, "granted")})
    # The poll here may see the drop a poll later than mgbd did.
    early = [o for o in waited if o["granted"] < o["free"] - POLL]
    delays = [{"delay": o["granted"] - o["free"]} for o in waited]
    trial.check("granted never before NVML showed the room free", not early, early or summary(delays, "delay"))
    trial.check("neighbours' results right, nobody out of memory", all(not o["wrong"] for o in outcomes))
    deadline = time.monotonic() + 10
    while charged(trial.status()) and time.monotonic() < deadline:
        time.sleep(0.05)
    trial.check("ledger empty at the end", charged(trial.status()) == 0)
    trial.finish()


main()

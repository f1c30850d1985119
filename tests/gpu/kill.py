#!/usr/bin/env python3
"""Killing on a real GPU under MPS: rounds of clients that fill a GPU, a task that waits for room, and one client killed
with SIGKILL at a random moment. Its room is marked at once, granted as soon as NVML shows it free and never before, the
neighbours' results are right, nobody runs out of memory, and the ledger is empty at the end."""

import random
import signal
import statistics
import threading
import time

from trial import GIB, MIB, Nvml, Trial

CONTEXT = 526 * MIB
MARKED_WITHIN = 0.100


class Watch(threading.Thread):
    """Polls NVML every millisecond and keeps when the used memory of a GPU changed, and how."""

    def __init__(self, gpu):
        super().__init__(daemon=True)
        self.nvml, self.gpu = Nvml(), gpu
        self.changes = [(time.monotonic(), self.nvml.used(gpu))]
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.001):
            used, now = self.nvml.used(self.gpu), time.monotonic()
            if used != self.changes[-1][1]:
                self.changes.append((now, used))

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
    """Process ids that hold room, and those whose room is being reclaimed."""
    tasks = {state: {task["pid"] for task in status["tasks"] if (task["state"] == "reclaiming") == state}
             for state in (False, True)}
    return tasks[False], tasks[True]


def play(trial, number, dice, clients, size):
    """One round; the times are seconds from the kill."""
    # Each client holds `size`; the last one to come waits, because one place too few is left.
    job = ["phases", size // MIB, 3, 250, "wait", 4, 32]
    environment = trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0")
    command = [trial.example(job[0])] + job[1:]
    watch = Watch(0)
    running = [trial.spawn(command, environment) for _ in range(clients)]
    deadline = time.monotonic() + 30
    while len(holders(trial.status())[0]) < clients - 1 and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(dice.uniform(0, 0.5))
    holding, _ = holders(trial.status())
    victims = [p for p in running if p.pid in holding and p.poll() is None]
    waiters = {p.pid for p in running if p.pid not in holding and p.poll() is None}
    outcome = {"round": number, "holding": len(holding), "waiting": len(waiters)}
    if victims:
        victim = dice.choice(victims)
        killed = time.monotonic()
        victim.send_signal(signal.SIGKILL)
        marked = granted = None
        while (marked is None or (waiters and granted is None)) and time.monotonic() < killed + 10:
            holding, reclaiming = holders(trial.status())
            now = time.monotonic()
            if marked is None and victim.pid not in holding:
                marked = now - killed
                outcome["seen reclaiming"] = victim.pid in reclaiming
            if granted is None and waiters & holding:
                granted = now - killed
        outcome.update(marked=marked, granted=granted)
        victim.communicate()
        outcome["died"] = time.monotonic() - killed
        trial.running.remove(victim)
        running.remove(victim)
    wrong = []
    for process in running:
        output, errors = process.communicate(timeout=60)
        trial.running.remove(process)
        if process.returncode != 0 or "PASS" not in output:
            wrong.append({"code": process.returncode, "output": output, "errors": errors[-1000:]})
    watch.stop()
    if victims:
        free = watch.first_drop(killed, size * 9 // 10)
        outcome["free"] = None if free is None else free - killed
        outcome["by mgbd"] = [r for r in trial.status()["reclaims"] if r["pid"] == victim.pid]
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
    clients, size = trial.arguments.clients, 2 * GIB
    dice = random.Random(trial.arguments.seed)
    # Room for all clients but one, and half a client's more.
    trial.ballast((clients - 1) * (size + CONTEXT) + size // 2, gpu=0)
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    outcomes = []
    while len(outcomes) < trial.arguments.rounds and trial.left() > 30:
        outcomes.append(play(trial, len(outcomes), dice, clients, size))
        print(outcomes[-1], flush=True)
    trial.result["rounds"] = outcomes
    killed = [o for o in outcomes if o.get("marked") is not None]
    trial.check("rounds played", len(outcomes) == trial.arguments.rounds, len(outcomes))
    trial.check("marked within 100 ms of the death at the latest",
                all(o["marked"] <= max(o["died"], 0) + MARKED_WITHIN for o in killed),
                summary(killed, "marked"))
    waited = [o for o in killed if o.get("granted") is not None and o.get("free") is not None]
    trial.check("granted never before NVML showed the room free", all(o["granted"] >= o["free"] for o in waited),
                {"free": summary(waited, "free"), "granted": summary(waited, "granted")})
    trial.check("neighbours' results right, nobody out of memory", all(not o["wrong"] for o in outcomes))
    deadline = time.monotonic() + 10
    while any(holders(trial.status())) and time.monotonic() < deadline:
        time.sleep(0.05)
    trial.check("ledger empty at the end", not any(holders(trial.status())))
    trial.finish()


main()

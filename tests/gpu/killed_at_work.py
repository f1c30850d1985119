#!/usr/bin/env python3
"""A program killed while its kernel runs, beside one that goes on and before one that comes: under MPS, which plain programs
share as well, such a death ends every other program on the GPU. Under MGB, whether the programs were built with it or come
through the driver front, the neighbour's results are right, who comes next starts, and the dead one's memory comes back once
its kernel is over."""

import random
import signal
import statistics
import time

from trial import Nvml, Trial

# Milliseconds that the victim's kernels take, about, and how the victim ends.
KERNELS = [30, 300, 1500]
ENDS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
# Steps of a kernel of one block a millisecond (phases.cu, 1 MiB).
STEPS_A_MS = 75
# Beyond the kernel: the driver samples five times a second how busy the GPU is, and the first sample may be of before.
BACK_WITHIN = 0.8


def phases(trial, kind, *arguments):
    return [trial.example("phases", plain=kind != "mgb"), *(str(word) for word in arguments)]


def settle(check, seconds):
    """How long it takes until `check` holds; None if it does not."""
    began = time.monotonic()
    while not check():
        if time.monotonic() - began > seconds:
            return None
        time.sleep(0.005)
    return time.monotonic() - began


def play(trial, kind, environment, dice, kernel, end, busy):
    """One round: what became of the neighbour and of the newcomer, and how long the victim's memory stayed."""
    nvml = Nvml()
    # A light neighbour leaves the GPU pauses, a busy one does not.
    load = (0, "wait", 500, 400) if busy else (15, "wait", 200, 8)
    neighbour = trial.spawn(phases(trial, kind, 64, 10**6 if busy else 250, *load), environment)
    time.sleep(1.0)
    before = nvml.used(0)
    victim = trial.spawn(phases(trial, kind, 1, 10**6, 0, "wait", kernel * STEPS_A_MS, 1), environment)
    grown = settle(lambda: nvml.used(0) > before + (500 << 20), 5)
    time.sleep(0.4 + dice.uniform(0, kernel / 1000))
    full = nvml.used(0)
    victim.send_signal(end)
    victim.communicate()
    trial.running.remove(victim)
    newcomer = trial.run(phases(trial, kind, 1, 2, 0, "wait", 10, 8), environment, timeout=30)
    back = settle(lambda: nvml.used(0) < full - (400 << 20), 70)
    if busy:
        neighbour.terminate()
        output, errors = neighbour.communicate()
        right = neighbour.returncode == -signal.SIGTERM
    else:
        output, errors = neighbour.communicate(timeout=60)
        right = neighbour.returncode == 0 and "PASS" in output
    trial.running.remove(neighbour)
    return {"kernel": kernel, "end": end.name, "grown": grown is not None, "neighbour": right, "newcomer": newcomer["code"] == 0,
            "back": None if back is None else round(back + newcomer["seconds"], 3),
            "said": [] if right and newcomer["code"] == 0 else [errors[-300:], newcomer["stderr"][-300:]]}


def main():
    trial = Trial("killed_at_work", __doc__, lambda parser: (
        parser.add_argument("--rounds", type=int, default=2, help="rounds of each kind (default 2)"),
        parser.add_argument("--kinds", default="mgb,front,plain", help="which kinds (default mgb,front,plain)"),
        parser.add_argument("--seed", type=int, default=1)))
    dice = random.Random(trial.arguments.seed)
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    trial.run(phases(trial, "mgb", 1, 1, 0, "wait", 10, 8), trial.environment(MGB="require"))
    shared = trial.environment(CUDA_MPS_PIPE_DIRECTORY=trial.status().get("mps_pipe") or "", CUDA_VISIBLE_DEVICES="0")
    environments = {"mgb": trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0"),
                    "front": trial.front(CUDA_VISIBLE_DEVICES="0"), "plain": shared}
    rounds = {kind: [] for kind in environments if kind in trial.arguments.kinds.split(",")}
    for _ in range(trial.arguments.rounds):
        for kind in rounds:
            for kernel in KERNELS:
                for end in ENDS[:1] if kind == "plain" else ENDS:
                    rounds[kind].append(play(trial, kind, environments[kind], dice, kernel, end, busy=False))
                    print(kind, rounds[kind][-1], flush=True)
    crowded = play(trial, "mgb", environments["mgb"], dice, 300, signal.SIGKILL, busy=True)
    trial.result["rounds"], trial.result["crowded"] = rounds, crowded
    count = lambda kind, what: sum(not played[what] for played in rounds[kind])
    if "plain" in rounds:
        trial.check("plain programs under the same MPS", True, {
            "rounds": len(rounds["plain"]), "neighbours failed": count("plain", "neighbour"), "newcomers failed": count("plain", "newcomer")})
    for kind, played in rounds.items():
        if kind == "plain":
            continue
        trial.check(f"{kind}: neighbours go on, and are right", all(r["neighbour"] and r["grown"] for r in played),
                    {"rounds": len(played), "wrong": [r for r in played if not r["neighbour"]][:5]})
        trial.check(f"{kind}: who comes next starts", all(r["newcomer"] for r in played),
                    [r for r in played if not r["newcomer"]][:5] or None)
        late = [r for r in played if r["back"] is None or r["back"] > r["kernel"] / 1000 + BACK_WITHIN]
        median = {k: statistics.median(r["back"] or 99 for r in played if r["kernel"] == k) for k in KERNELS}
        trial.check(f"{kind}: the memory comes back once the kernel is over", not late, {"median s": median, "late": late[:5]})
    trial.check("a neighbour that leaves no pause goes on", crowded["neighbour"] and crowded["newcomer"], crowded)
    trial.finish()


main()

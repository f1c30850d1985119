"""A part of the trial for every day, of two minutes: what `make test` plays."""

import collections
import random
import shlex

import daemons
import jobs
from cluster import HEAD


def of_unknown_needs(trial):
    """All ask for the same, and take up to five times that."""
    dice = random.Random(30)
    needs = [dice.choice((4, 8, 12, 20, 30, 40)) for _ in range(30)]
    # Each a command line of its own, so that none is known from another.
    # Of two cores each eight fit on a node.
    options = "--parsable -c 2 -o /home/alice/%j.out --wrap"
    lines = [f"mgb sbatch {options} {shlex.quote(f': {at}; {trial.phases(mib, 4)}')}" for at, mib in enumerate(needs)]
    # All are there before the first begins.
    trial.cluster.must(HEAD, "scontrol update partition=main state=down")
    said = trial.cluster.run(HEAD, " && ".join(lines), "alice")
    numbers = [int(line) for line in said["stdout"].split()]
    unknown = said["stderr"].count("asks for 8 MiB of GPU memory: nothing is known of it yet")
    trial.cluster.must(HEAD, "scontrol update partition=main state=up")
    trial.check("30 jobs of unknown needs are submitted", len(numbers) == 30 and unknown == 30,
                None if unknown == 30 else said)
    wrong = trial.ends(numbers)
    nodes = collections.Counter(trial.cluster.job(job).get("NodeList") for job in numbers)
    trial.check(f"  take {sum(needs)} MiB instead of 240, and all are right", not wrong, wrong[:3] or None)
    trial.check("  on all nodes", set(nodes) == set(trial.cluster.nodes), dict(nodes))
    outputs = "".join(trial.output(job) for job in numbers)
    trial.check("  none out of memory", outputs.count("PASS") == 30 and "out of memory" not in outputs)
    # They are the first of a cluster that has just come up, whose slurmctld tells slurmdbd of jobs late.
    taken = {job: trial.records(job) or trial.late_records(job) for job in numbers}
    peaks = [max((record["peak_mib"] for record in records.values()), default=0) for records in taken.values()]
    right = all(need <= peak <= need + 4 for need, peak in zip(needs, peaks))
    trial.check("  and sacct has what each took", right, None if right else list(zip(needs, peaks)))
    trial.check_empty()


def mgbd_killed(trial):
    daemons.play(trial, "mgbd of a node", "n1", "mgbd", 1, daemons.load(trial, 10))


PARTS = (of_unknown_needs, jobs.are_cancelled_and_requeued, mgbd_killed, daemons.node_fails)

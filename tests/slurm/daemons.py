"""Daemons and nodes that are killed under load."""

import random
import time

from cluster import HEAD


def load(trial, count, rounds=4):
    """Jobs of unlike sizes, most of which take something else than they ask for."""
    draw = random.Random(7)
    jobs = []
    for _ in range(count):
        need = draw.choice((8, 16, 24, 40))
        asked = max(4, need + draw.choice((-8, 0, 0, 8)))
        jobs.append(trial.submit(trial.phases(need, rounds), f"--gres=mgb_mem:{asked} --requeue --open-mode=append"))
    return jobs


def play(trial, what, name, unit, kills, jobs, pause=1):
    """Kills a daemon some times under load, and looks at the jobs."""
    began = time.monotonic()
    for _ in range(kills):
        time.sleep(pause)
        trial.cluster.must(name, f"systemctl kill -s KILL --kill-who=main {unit}")
        time.sleep(0.3)
        trial.cluster.must(name, f"systemctl reset-failed {unit}; systemctl start {unit}")
    trial.until(lambda: "UP" in trial.cluster.run(HEAD, "scontrol ping")["stdout"])
    wrong = trial.ends(jobs, 240)
    trial.check(f"{what} killed {kills} times under {len(jobs)} jobs: all are right", not wrong,
                wrong[:3] or f"{time.monotonic() - began:.1f} s")
    trial.check_empty()


def mgbd_killed(trial):
    # It asks mgbd for nothing more after its beginning.
    lasting = trial.submit(trial.phases(30, 28), "--gres=mgb_mem:30 -w n1")
    trial.until(lambda: trial.tasks("n1"))
    play(trial, "mgbd of a node", "n1", "mgbd", 3, load(trial, trial.arguments.jobs // 3))
    wrong = trial.ends(lasting)
    record = trial.recorded(lasting).get("n1", {})
    right = not wrong and 30 <= record.get("peak_mib", 0) <= 34
    trial.check("  and what a job took that was there all the time is recorded", right, wrong or record)


def slurmd_killed(trial):
    play(trial, "slurmd of a node", "n1", "slurmd", 3, load(trial, trial.arguments.jobs // 3))


def slurmctld_killed(trial):
    # Slurm's state is on the disk five seconds later at most. A slurmctld that is killed before launches them once
    # more, drains the nodes for it ("Duplicate jobid") and holds the jobs back, with MGB or without: none is launched
    # here meanwhile.
    jobs = [trial.submit(trial.phases(40, 60), "--gres=mgb_mem:90") for _ in range(12)]
    trial.until(lambda: trial.cluster.states().get("RUNNING") == 6)
    play(trial, "slurmctld", HEAD, "slurmctld", 2, jobs, pause=6)


def node_fails(trial):
    cluster = trial.cluster
    jobs = load(trial, trial.arguments.jobs // 3, rounds=8)
    # Slurm fills the nodes one after the other.
    name = cluster.nodes[0]
    trial.until(lambda: len(trial.tasks(name)) >= 3)
    lost = cluster.must(HEAD, f"squeue -h -t running -w {name} -o %A").split()
    cluster.cut_power(name)
    began = time.monotonic()
    cluster.must(HEAD, f"scontrol update nodename={name} state=down reason='no power'")
    # With less than Slurm's two minutes they must not come to the same node: what Slurm still has to say about
    # their first run there would end the second. Whoever came to the node meanwhile is among those that wait.
    run = lambda job: job["JobState"] in ("RUNNING", "COMPLETED")
    trial.until(lambda: not trial.begin_now(f"ExcNodeList={name}") and all(run(cluster.job(job)) for job in lost), 60)
    cluster.boot_again(name)
    # Refused where it has come back by itself.
    cluster.run(HEAD, f"scontrol update nodename={name} state=resume")
    back = trial.until(lambda: f"{name} down" not in cluster.must(HEAD, "sinfo -h -N -o '%N %T'"), 60)
    wrong = trial.ends(jobs, 240)
    trial.check(f"a node fails under {len(jobs)} jobs, {len(lost)} of them on it, and comes back: all are right",
                back and not wrong and bool(lost), wrong[:3] or f"{time.monotonic() - began:.1f} s")
    trial.check_empty()


PARTS = (mgbd_killed, slurmd_killed, slurmctld_killed, node_fails)

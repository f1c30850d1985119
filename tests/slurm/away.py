"""Parts of Slurm that are away: slurmdbd, all accounting, a slurmctld that is killed as it starts jobs."""

import collections
import time

import learned
from cluster import HEAD
from faults import STACK, USUAL

# The same programs without MGB, on what stands in for NVIDIA's libraries.
NATIVE = "export MGB=off LD_LIBRARY_PATH=/home/mgb/usr/local/lib/mgb/lib; "


def slurmdbd_is(trial):
    """Down, and hanging: jobs of unknown needs are submitted, and end."""
    cluster = trial.cluster
    for what, ends, begins in (("down", "stop", "start"), ("hanging", "kill -s STOP", "kill -s CONT")):
        at_end = trial.submit(trial.phases(20, 12), "--gres=mgb_mem:20")
        trial.until(lambda: any(trial.tasks(name) for name in cluster.nodes))
        cluster.must(HEAD, f"systemctl {ends} slurmdbd")
        began = time.monotonic()
        # A command line of its own, of which nothing could be known.
        job, said = learned.submit(trial, f"--wrap ': {what}; {trial.phases(20, 2)}'")
        seconds = time.monotonic() - began
        right = "accounting does not answer" in said and learned.asked(trial, job) == 8 and seconds < 12
        trial.check(f"slurmdbd is {what}: mgb sbatch says so, and asks for the default", right,
                    f"{seconds:.1f} s: {said}")
        wrong = trial.ends([at_end, job])
        trial.check("  jobs end and are right", not wrong, wrong or None)
        trial.check_empty()
        # slurmd is through with them as well.
        trial.check("  and their nodes are free again", trial.until(cluster.is_idle, 30))
        cluster.must(HEAD, f"systemctl {begins} slurmdbd")
        state = lambda: cluster.run(HEAD, f"sacct -n -P -X -j {job} -o State")["stdout"].strip()
        known = trial.until(lambda: state() == "COMPLETED", 60)
        trial.check("  sacct has both later", known, state())
        # slurmctld tells slurmdbd of it seconds later.
        again = trial.submit(trial.phases(12, 2), "--gres=mgb_mem:12")
        wrong = trial.ends(again)
        right = not wrong and all([trial.recorded(number, seconds=90) for number in (at_end, job, again)])
        trial.check("  and what they and the next one took", right, None if right else wrong)


def there_is_no_accounting(trial):
    cluster = trial.cluster
    usual = cluster.must(HEAD, "grep ^AccountingStorage /etc/slurm/slurm.conf").splitlines()
    cluster.set([f"{line.split('=')[0]}=" for line in usual])
    job, said = learned.submit(trial, f"--wrap ': none; {trial.phases(20, 2)}'")
    right = "accounting does not answer" in said and learned.asked(trial, job) == 8
    trial.check("without any accounting mgb sbatch says so, and asks for the default", right, said)
    wrong = trial.ends(job)
    trial.check("  and the job is right", not wrong, wrong or None)
    kept = lambda: [cluster.run(name, "ls /var/spool/mgb | grep -v lock")["stdout"] for name in cluster.nodes]
    trial.check("  and nothing is kept for later", trial.until(lambda: not any(kept()), 10), kept())
    trial.check_empty()
    cluster.set(usual)


def under_kills(trial, before, kills=4, count=60):
    """What becomes of jobs, most of which wait, as slurmctld is killed while it starts them: how many are right,
    held back by Slurm, unknown to it, or wrong; and how many in the end, once those that are held are
    released."""
    cluster = trial.cluster
    cluster.must(HEAD, "scontrol update partition=main state=down")
    # By what they ask for five are on a node at once; all of them fit on one GPU, natively as well.
    jobs = [trial.submit(before + trial.phases(8, 8), "--gres=mgb_mem:38 --requeue --open-mode=append")
            for _ in range(count)]
    # Slurm's state is on the disk five seconds later at most.
    time.sleep(6)
    cluster.must(HEAD, "scontrol update partition=main state=up")
    answers = lambda: "UP" in cluster.run(HEAD, "scontrol ping")["stdout"]
    for at in range(kills):
        time.sleep(1 + 0.4 * at)
        cluster.must(HEAD, "systemctl kill -s KILL --kill-who=main slurmctld; sleep 0.3;"
                           "systemctl reset-failed slurmctld; systemctl start slurmctld")
        trial.until(answers)

    def how(job):
        said = cluster.job(job)
        state = said.get("JobState", "unknown")
        if state == "COMPLETED" and "PASS" in trial.output(job):
            return "right"
        if state == "PENDING":
            return "held" if "held" in said.get("Reason", "").lower() else "waits"
        return {"unknown": "lost", "RUNNING": "waits", "COMPLETING": "waits"}.get(state, "wrong")

    def settle():
        def settled():
            # What an administrator does about nodes with "Duplicate jobid".
            for name in cluster.nodes:
                cluster.run(HEAD, f"scontrol update nodename={name} state=resume")
            trial.begin_now()
            return not any(how(job) == "waits" for job in jobs)
        trial.until(settled, 120)
        return collections.Counter(map(how, jobs))

    first = settle()
    held = [job for job in jobs if how(job) == "held"]
    if held:
        cluster.must(HEAD, f"scontrol release {' '.join(map(str, held))}")
    return first, settle()


def slurmctld_is_killed_at_work(trial):
    """The same load without the plugin, and with it."""
    cluster, ends = trial.cluster, {}
    for what, before, stack in (("without MGB", NATIVE, ""), ("with MGB", "", USUAL)):
        for name in cluster.nodes:
            cluster.write(name, STACK, stack)
        ends[what] = under_kills(trial, before)
        words = lambda counts: " ".join(f"{count} {how}" for how, count in sorted(counts.items()))
        first, last = map(words, ends[what])
        print(f"      {what}: {first}; once released: {last}", flush=True)
    lost = {what: 60 - last["right"] for what, (_, last) in ends.items()}
    trial.check("slurmctld killed 4 times as it starts 60 jobs: MGB loses none that Slurm does not lose",
                lost["with MGB"] <= lost["without MGB"], lost)
    trial.check_empty()


PARTS = (slurmdbd_is, there_is_no_accounting, slurmctld_is_killed_at_work)

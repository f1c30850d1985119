"""Jobs of all kinds, as users have them."""

import time

from cluster import HEAD


def come_under_mgbd(trial):
    seen = trial.cluster.must(HEAD, "srun -Q env", "alice")
    variables = dict(line.split("=", 1) for line in seen.splitlines() if "=" in line)
    right = variables.get("MGB_JOB", "").startswith("534c") and "/usr/local/lib/mgb/lib/front" in variables["LD_LIBRARY_PATH"]
    trial.check("a task's environment is that of `mgb run`", right, None if right else seen[-500:])
    off = trial.cluster.must(HEAD, "MGB=off srun -Q env", "alice")
    trial.check("with MGB=off a job is left alone", "MGB_JOB" not in off)
    built, plain = (trial.submit(trial.program("vecadd", 100000, kind=kind), "--gres=mgb_mem:8")
                    for kind in ("mgb", "plain"))
    wrong = trial.ends(built)
    # Its kernel needs a real GPU.
    trial.cluster.wait_for(plain)
    seen = {view["job"] for name in trial.cluster.nodes for view in trial.cluster.status(name)["jobs"]}
    right = not wrong and {built, plain} <= seen
    trial.check("programs built with MGB and plain ones run under mgbd", right, None if right else (wrong, seen))


def are_packed(trial):
    began = time.monotonic()
    # By what they ask for three may be on a node, of which the third waits.
    jobs = [trial.submit(trial.phases(48, 4), "--gres=mgb_mem:60") for _ in range(9)]
    wrong = trial.ends(jobs)
    figure = f"{time.monotonic() - began:.1f} s"
    trial.check("nine jobs of 48 MiB on three nodes of 128 MiB", not wrong, wrong or figure)
    nodes = {job: trial.cluster.job(job)["NodeList"] for job in jobs}
    used = {name: sum(node == name for node in nodes.values()) for name in trial.cluster.nodes}
    trial.check("  come to all of them", all(used.values()), used)
    trial.check_empty()


def outgrow_what_they_asked_for(trial):
    jobs = [trial.submit(trial.phases(40, 4), "--gres=mgb_mem:10 -w n1") for _ in range(6)]
    wrong = trial.ends(jobs)
    taken = [trial.recorded(job).get("n1", {}) for job in jobs]
    waited = sum(record.get("waited", 0) for record in taken)
    trial.check("six jobs on one node that take four times what they asked for", not wrong, wrong or None)
    trial.check("  and wait instead of failing", waited > 1, f"{waited:.1f} s in all")


def are_accounted(trial):
    job = trial.submit(trial.phases(12, 8), "--gres=mgb_mem:16")
    wrong = trial.ends(job)
    record = next(iter(trial.recorded(job).values()), {})
    right = not wrong and 12 <= record.get("peak_mib", 0) <= 16 and 1.5 < record.get("held", 0) < 10
    trial.check("sacct has what a job took", right, record or wrong)
    script = f"srun {trial.phases(12, 4)}"
    job = trial.submit(script, "-N 3 --ntasks-per-node=2 --gres=mgb_mem:32")
    wrong = trial.ends(job)
    records = trial.recorded(job, 3)
    right = not wrong and sorted(records) == trial.cluster.nodes
    right = right and all(24 <= record["peak_mib"] <= 32 for record in records.values())
    trial.check("  on each of three nodes, with two tasks on each", right, records or wrong)
    plain = trial.submit("echo PASS")
    trial.check("  and nothing of one without GPUs", not trial.ends(plain) and not trial.records(plain))


def arrays_and_steps(trial):
    options = "-o /home/alice/%A_%a.out --array=1-12 --gres=mgb_mem:20"
    array = trial.cluster.submit(options, trial.phases(16, 2), "alice")
    trial.cluster.wait_for(array)
    outputs = trial.cluster.must(HEAD, f"cat /home/alice/{array}_*.out")
    trial.check("an array of twelve", outputs.count("PASS") == 12, None if outputs.count("PASS") == 12 else outputs)
    steps = "\n".join(f"srun -n1 --exact --gres=mgb_mem:20 {trial.phases(16, 2)} &" for _ in range(3)) + "\nwait"
    job = trial.submit(steps, "-n 3 -w n1 --gres=mgb_mem:60")
    trial.cluster.wait_for(job)
    outputs = trial.output(job)
    trial.check("three steps side by side", outputs.count("PASS") == 3, None if outputs.count("PASS") == 3 else outputs)
    job = trial.submit(f"srun {trial.phases(10, 2)}", "-n 6 -w n2 --gres=mgb_mem:80")
    trial.cluster.wait_for(job)
    outputs = trial.output(job)
    trial.check("six ranks of one step, on two GPUs", outputs.count("PASS") == 6,
                None if outputs.count("PASS") == 6 else outputs)
    trial.check_empty()


def are_cancelled_and_requeued(trial):
    jobs = [trial.submit(trial.phases(40, 200), "--gres=mgb_mem:40") for _ in range(6)]
    # Each holds memory, or waits beside two that do; one that grows is in both lists.
    views = lambda: [trial.cluster.status(name) for name in trial.cluster.nodes]
    there = lambda: [(len(view["tasks"]), len(view["queue"])) for view in views()]
    held = trial.until(lambda: sum(map(sum, there())) >= 6, 60)
    seen = None if held else there()
    trial.cluster.must(HEAD, f"scancel {' '.join(map(str, jobs))}", "alice")
    states = set(trial.cluster.wait_for(jobs).values())
    trial.check("scancel of six that hold memory", held and states == {"CANCELLED"}, seen or states)
    trial.check_empty()
    job = trial.submit(f"echo run $SLURM_RESTART_COUNT; {trial.phases(20, 16)}", "--gres=mgb_mem:20 --requeue "
                       "--open-mode=append")
    trial.until(lambda: any(trial.tasks(name) for name in trial.cluster.nodes))
    trial.cluster.must(HEAD, f"scontrol requeue {job}", "alice")
    trial.until(lambda: str(job) in trial.begin_now())
    wrong = trial.ends(job)
    trial.check("a job that is requeued runs again", not wrong and "run 1" in trial.output(job), wrong or None)
    trial.check_empty()


def are_suspended(trial):
    job = trial.submit(trial.phases(40, 16), "--gres=mgb_mem:40 -w n1")
    direct = trial.cluster.machines[HEAD].spawn(
        ["sh", "-c", f"cd /home/alice; srun -Q --gres=mgb_mem:40 -w n1 -J direct {trial.phases(40, 16)}"], "alice")
    held = lambda: sum(task["held_bytes"] for task in trial.tasks("n1"))
    both = trial.until(lambda: held() >= 80 << 20)
    numbers = trial.cluster.must(HEAD, "squeue -h -o %A").split()
    began = time.monotonic()
    trial.cluster.must(HEAD, f"scontrol suspend {','.join(numbers)}")
    left = trial.until(lambda: held() == 0, 5)
    seconds = time.monotonic() - began
    trial.check("scontrol suspend empties the GPUs, of a script's job and of srun's", both and left,
                f"{seconds:.2f} s" if left else trial.tasks("n1"))
    # Slurm keeps for the suspended what they have asked for: 80 of 192 MiB.
    other = trial.submit(trial.phases(60, 2), "--gres=mgb_mem:40 -w n1")
    wrong = trial.ends(other)
    trial.check("  another job has the room", not wrong, wrong or None)
    time.sleep(1)
    trial.cluster.must(HEAD, f"scontrol resume {','.join(numbers)}")
    back = trial.until(lambda: held() > 0)
    wrong = trial.ends(job)
    output, errors = direct.communicate(timeout=60)
    right = back and not wrong and direct.returncode == 0 and "PASS" in output
    trial.check("  and both go on and are right", right, None if right else (wrong, output, errors))
    trial.check_empty()


def are_suspended_without_groups(trial):
    """The same where Slurm finds a step's processes by their parents."""
    trial.cluster.set(["ProctrackType=proctrack/linuxproc"])
    are_suspended(trial)
    trial.cluster.set(["ProctrackType=proctrack/cgroup"])


# Of a process, in either version of control groups.
IS_FROZEN = """
second=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/{pid}/cgroup)
first=/run/cgroup/freezer$(sed -n 's/^[0-9]*:freezer://p' /proc/{pid}/cgroup)
grep -qs 'frozen 1' $second/cgroup.events || grep -qs FROZEN $first/freezer.state
"""


def take_long_to_leave(trial):
    """Memory that Slurm's two seconds are too short for."""
    cluster = trial.cluster

    def begins():
        # From its fourth second on a copy of 40 MiB takes seconds.
        job = trial.submit(f"SOFTGPU_FAIL=slow@factor=1000@4s {trial.phases(40, 30)}", "--gres=mgb_mem:40 -w n1")
        trial.until(lambda: any(task["held_bytes"] for task in trial.tasks("n1")))
        time.sleep(5)
        return job, trial.tasks("n1")[0]["pid"]

    held = lambda: sum(task["held_bytes"] for task in trial.tasks("n1"))
    is_frozen = lambda pid: cluster.run("n1", IS_FROZEN.format(pid=pid))["code"] == 0
    job, pid = begins()
    began = time.monotonic()
    cluster.must(HEAD, f"scontrol suspend {job}")
    left = trial.until(lambda: held() == 0, 40)
    seconds = time.monotonic() - began
    trial.check("memory that takes longer than Slurm waits leaves as well", left and seconds > 3,
                f"{seconds:.1f} s" if left else trial.tasks("n1"))
    frozen = trial.until(lambda: is_frozen(pid), 5)
    time.sleep(2)
    trial.check("  and the job is frozen again", frozen and is_frozen(pid))
    cluster.must(HEAD, f"scontrol resume {job}")
    wrong = trial.ends(job)
    trial.check("  goes on, and is right", not wrong, wrong or None)
    for what in ("resume", "cancel"):
        job, pid = begins()
        cluster.must(HEAD, f"scontrol suspend {job}")
        # By now Slurm has frozen it.
        time.sleep(3)
        thawed = held() > 0 and not is_frozen(pid)
        if what == "resume":
            cluster.must(HEAD, f"scontrol resume {job}")
            wrong = trial.ends(job)
            trial.check("  one that goes on meanwhile is right", thawed and not wrong, wrong or thawed)
        else:
            cluster.must(HEAD, f"scancel {job}")
            state = cluster.wait_for(job)[job]
            trial.check("  one that is cancelled meanwhile ends", thawed and state == "CANCELLED", state)
    trial.check_empty()


PARTS = (come_under_mgbd, are_packed, outgrow_what_they_asked_for, are_accounted, arrays_and_steps,
         are_cancelled_and_requeued, are_suspended, take_long_to_leave, are_suspended_without_groups)

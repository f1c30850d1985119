"""Jobs of which nobody says what they need: `mgb sbatch`."""

import re

from cluster import HEAD, Cluster


def asked(trial, job):
    """MiB of GPU memory that a job asked for."""
    found = re.search(r"gres[/:]mgb_mem[=:](\d+)", trial.cluster.must(HEAD, f"scontrol show job {job}"))
    return int(found.group(1)) if found else None


def submit(trial, command, user="alice"):
    """Its number, and what mgb says of it."""
    done = trial.cluster.run(HEAD, f"cd /home/{user} && mgb sbatch -o /home/{user}/%j.out {command}", user)
    found = re.search(r"Submitted batch job (\d+)", done["stdout"])
    if not found:
        raise RuntimeError(f"mgb sbatch {command}: {done}")
    return int(found.group(1)), done["stderr"].strip()


def remembered(trial, job):
    """Its record is there. A slurmctld that was started a moment ago tells slurmdbd of jobs seconds late, and lists of
    jobs have them later than sacct -j."""
    trial.recorded(job)
    listed = "sacct -n -P -X -a -S now-1hours -o JobID,AdminComment"
    trial.until(lambda: f"\n{job}|mgb{{" in "\n" + trial.cluster.run(HEAD, listed)["stdout"], 30)


def ended(trial, job):
    """What is wrong with its end; its record is there."""
    wrong = trial.ends(job)
    remembered(trial, job)
    return wrong


def are_learned(trial):
    trial.cluster.must(HEAD, f"""cat >/home/alice/job.sh <<'END'
#!/bin/sh
{trial.program("phases", '"$1"', 4, 100, "wait", 10, 8)}
END
chmod +x /home/alice/job.sh""", "alice")
    first, said = submit(trial, "job.sh 20")
    trial.check("a job that nobody knows asks for an eighth of a GPU", asked(trial, first) == 8, said)
    wrong = ended(trial, first)
    second, said = submit(trial, "job.sh 20")
    took = next(iter(trial.records(first).values()), {}).get("peak_mib", 0)
    right = not wrong and 20 <= took and asked(trial, second) == took + -(-took // 16)
    trial.check("  the next time for what it took, and a sixteenth more", right, (said, took))
    wrong = ended(trial, second)
    other, said = submit(trial, "--time=5 job.sh 12")
    trial.check("  with other arguments for the most of all", not wrong and "other arguments" in said, said)
    array, said = submit(trial, "--array=1-3 job.sh 20")
    ends = trial.cluster.wait_for([array]).values()
    wrong = ended(trial, other) + [end for end in ends if end != "COMPLETED"]
    trial.check("  and an array as well", not wrong and "2 earlier runs" in said, wrong or said)
    wrapped, said = submit(trial, f"--wrap '{trial.phases(30, 2)}'")
    wrong = ended(trial, wrapped)
    again, said = submit(trial, f"--wrap '{trial.phases(30, 2)}'")
    trial.check("  and what was wrapped", not wrong and "1 earlier run with the same" in said, wrong or said)
    wrong = trial.ends(again)
    trial.cluster.must(HEAD, "install -m 755 /home/alice/job.sh /home/all.sh")
    for_all, _ = submit(trial, "/home/all.sh 20")
    wrong += ended(trial, for_all)
    alice, bob = (learned_by(trial, user) for user in ("alice", "bob"))
    trial.check("users learn of their own jobs alone", not wrong and "1 earlier run" in alice and "nothing" in bob, bob)
    own, said = submit(trial, "--gres=mgb_mem:5 job.sh 20")
    trial.check("what a user asks for is asked for", not wrong and asked(trial, own) == 5 and not said, said)
    said = trial.cluster.run(HEAD, "mgb sbatch --need 1GiB --wrap true", "alice")
    right = said["code"] == 125 and "the most is" in said["stderr"]
    trial.check("more than any node has is refused", right, said["stderr"].strip())
    said = trial.cluster.must(HEAD, "mgb sbatch --print --need 9MiB -p x --wrap 'true; true' 2>&1", "alice")
    right = said.endswith("sbatch -p x --wrap 'true; true' --gres=mgb_mem:9,mgb_gpu:9\n")
    trial.check("--print submits nothing", right, said.strip())
    trial.ends([own])
    trial.check_empty()


def are_learned_of_srun(trial):
    cluster = trial.cluster
    run = lambda command: cluster.run(HEAD, command, "alice")
    number = lambda said: int((re.findall(r"job (\d+)", said["stdout"]) or [0])[-1])
    program = "/home/alice/direct"
    # Of a name of its own, which no other part has run.
    text = f"#!/bin/sh\\necho job $SLURM_JOB_ID\\nexec {trial.phases(24, 2)}\\n"
    cluster.must(HEAD, f"printf '{text}' >{program}; chmod +x {program}", "alice")
    said = run(f"mgb srun -w n1 {program}")
    right = said["code"] == 0 and "PASS" in said["stdout"] and "nothing is known of it" in said["stderr"]
    trial.check("mgb srun asks for an eighth of a GPU for what nobody knows", right, None if right else said)
    remembered(trial, number(said))
    said = run(f"mgb srun -lQ {program}")
    right = said["code"] == 0 and "PASS" in said["stdout"] and not said["stderr"]
    took = next(iter(trial.recorded(number(said)).values()), {}).get("peak_mib", 0)
    trial.check("  the next time for what it took", right and asked(trial, number(said)) == took + -(-took // 16),
                (asked(trial, number(said)), took, said["stderr"]))
    said = run(f"mgb salloc --need 30MiB -n 2 sh -c 'mgb srun -n 1 {program}; mgb srun -n 1 env'")
    right = said["code"] == 0 and "PASS" in said["stdout"] and said["stdout"].count("MGB_JOB=534c") == 1
    trial.check("mgb salloc asks once, and mgb srun in it is srun", right and asked(trial, number(said)) == 30
                and said["stderr"].count("asks for") == 1, None if right else said)
    trial.check_empty()


def ask_for_time(trial):
    """Two GPUs have time for two jobs that ask for all of one's, whatever memory there is."""
    line = "--print --need 9MiB -p x --gpu-share 50 --wrap true"
    said = trial.cluster.must(HEAD, f"mgb sbatch {line} 2>/dev/null", "alice")
    trial.check("--gpu-share asks for mgb_share", said.strip().endswith("mgb_gpu:9,mgb_share:50"), said.strip())
    options = "-w n1 --need 12MiB --gpu-share=100 --wrap"
    jobs = [submit(trial, f"{options} '{trial.phases(8, 12)}'")[0] for _ in range(3)]
    other = submit(trial, f"-w n1 --need 12MiB --wrap '{trial.phases(8, 2)}'")[0]
    state = lambda job: trial.cluster.job(job)["JobState"]
    two = trial.until(lambda: [state(job) for job in jobs] == ["RUNNING", "RUNNING", "PENDING"], 10)
    wrong = trial.ends(other)
    trial.check("  of three that want a whole GPU's time two run, and one that asks for none beside them",
                two and not wrong and state(jobs[2]) == "PENDING", [state(job) for job in jobs])
    wrong = trial.ends(jobs)
    trial.check("  and all are right", not wrong, wrong or None)
    for what, line in (("more than a node has", "--gpu-share 201 --wrap true"),
                       ("what is no number", "--gpu-share half --wrap true"),
                       ("both ways at once", "--gpu-share 50 --gres=mgb_mem:8 --wrap true")):
        said = trial.cluster.run(HEAD, f"mgb sbatch -Q {line}", "alice")
        trial.check(f"  {what} is refused", said["code"] not in (0, 127), said["stderr"].strip())


def learned_by(trial, user):
    said = trial.cluster.run(HEAD, "cd / && mgb sbatch --print /home/all.sh 20", user)
    return said["stderr"]


def go_where_a_gpu_is_large_enough(trial):
    """The last part: it starts a cluster of its own, of unequal nodes."""
    trial.cluster.stop()
    old = trial.cluster
    trial.cluster = Cluster(old.root, trial.arguments.prefix, ["2x64MiB", "4x32MiB", "1x256MiB"],
                            examples=trial.arguments.examples)
    try:
        trial.cluster.start(with_mgb=False)
        trial.cluster.follow()
        small = [submit(trial, f"--need 24MiB --wrap '{trial.phases(20, 4)}'")[0] for _ in range(6)]
        middle = [submit(trial, f"--need 50MiB --wrap '{trial.phases(44, 4)}'")[0] for _ in range(4)]
        large = [submit(trial, f"--need 150MiB --wrap '{trial.phases(140, 4)}'")[0] for _ in range(2)]
        wrong = trial.ends(small + middle + large)
        nodes = {job: trial.cluster.job(job)["NodeList"] for job in small + middle + large}
        right = not wrong and all(nodes[job] == "n3" for job in large) and all(nodes[job] != "n2" for job in middle)
        trial.check("jobs go to nodes with a GPU that is large enough", right, wrong or sorted(nodes.values()))
        unknown = f"--wrap '{trial.phases(45, 4)}'"
        failed, _ = submit(trial, f"-w n2 {unknown}")
        state = trial.cluster.wait_for(failed)[failed]
        remembered(trial, failed)
        again, said = submit(trial, unknown)
        wrong = trial.ends(again)
        node = trial.cluster.job(again)["NodeList"]
        right = state == "FAILED" and not wrong and node != "n2" and "failed where no GPU has" in said
        trial.check("one that failed where the GPUs are too small goes elsewhere next time", right, (said, node, wrong))
        trial.check_empty()
    finally:
        trial.cluster.stop()
        trial.cluster = old


PARTS = (are_learned, are_learned_of_srun, ask_for_time)
LAST = (go_where_a_gpu_is_large_enough,)

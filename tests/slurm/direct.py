"""Jobs that come by other ways than a script: srun, salloc, MPI, a partition that others give way to."""

import shutil
import subprocess

from cluster import HEAD, REPOSITORY

PRIORITY = ["PreemptType=preempt/partition_prio", "PreemptMode=SUSPEND,GANG"]
URGENT = "PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP"


def are_asked_for_directly(trial):
    cluster = trial.cluster
    run = lambda command: cluster.run(HEAD, command, "alice")
    said = run(f"srun -Q --gres=mgb_mem:8 -J one {trial.phases(8, 2)}")
    trial.check("srun of a program", said["code"] == 0 and "PASS" in said["stdout"],
                None if said["code"] == 0 else said)
    # Each takes a GPU's half, for as long as the others do.
    said = run(f"srun -Q -N 2 -n 4 --ntasks-per-node=2 --gres=mgb_mem:64 {trial.phases(32, 4)}")
    right = said["code"] == 0 and said["stdout"].count("PASS") == 4
    trial.check("  and of four tasks on two nodes", right, None if right else said)
    terminal = "srun -Q --pty --gres=mgb_mem:8 sh -c \"tty && " + trial.phases(8, 2) + "\""
    said = run(f"script -qec '{terminal}' /dev/null")
    right = said["code"] == 0 and "PASS" in said["stdout"] and "/dev/pts" in said["stdout"]
    trial.check("  and of one with a terminal", right, None if right else said)
    large, small = trial.phases(20, 2), trial.phases(12, 2)
    steps = f"echo $SLURM_JOB_ID; srun -Q {large}; srun -Q -n 1 env; srun -Q {small}"
    said = run(f"salloc -Q -n 2 --gres=mgb_mem:64 sh -c '{steps}'")
    right = said["code"] == 0 and said["stdout"].count("PASS") == 4 and "MGB_JOB=534c" in said["stdout"]
    trial.check("salloc, and three steps in it", right, None if right else said)
    job = int(said["stdout"].split()[0]) if right else 0
    taken = lambda: [record["peak_mib"] for record in trial.recorded(job).values()]
    peaks = trial.until(lambda: taken() and 40 <= taken()[0] <= 44, 10)
    trial.check("  whose record has both tasks of the larger step", right and peaks, taken())
    trial.check_empty()


def give_way(trial):
    """Preemption by suspension."""
    cluster = trial.cluster
    usual = cluster.must(HEAD, "cat /etc/slurm/slurm.conf")
    cluster.write(list(cluster.machines), "/etc/slurm/slurm.conf", f"{usual}{URGENT}\n")
    cluster.set(PRIORITY)
    held = lambda: sorted(task["held_bytes"] >> 20 for task in trial.tasks("n1"))
    # Both want all cores, and have room beside each other by what they ask for alone.
    options = "-w n1 -c 16 --gres=mgb_mem"
    low = trial.submit(trial.phases(60, 24), f"{options}:60")
    is_there = trial.until(lambda: held() == [60])
    high = trial.submit(trial.phases(60, 8), f"{options}:60 -p urgent")
    # The driver's own part of a suspended program stays.
    alone = trial.until(lambda: held() == [0, 60], 20)
    suspended = cluster.job(low)["JobState"]
    trial.check("a job of a lower partition is suspended, and its memory leaves", is_there and alone
                and suspended == "SUSPENDED", held() if not alone else suspended)
    wrong = trial.ends(high)
    trial.check("  the other is right", not wrong, wrong or None)
    back = trial.until(lambda: held() == [60], 20)
    wrong = trial.ends(low)
    trial.check("  its memory comes back, and it is right", back and not wrong, wrong or None)
    trial.check_empty()
    cluster.write(list(cluster.machines), "/etc/slurm/slurm.conf", usual)
    cluster.set([])


def are_ranks_of_mpi(trial):
    """Debian's MPICH, whose ranks are started by Slurm's mpi/pmi2; on one node, since its MPI_Finalize hangs now
    and then on several, without MGB as well."""
    cluster = trial.cluster
    library = cluster.root / "usr/lib/x86_64-linux-gnu/libmpich.so.12"
    headers = cluster.root / "opt/mpich/usr/include/x86_64-linux-gnu/mpich"
    if not library.exists() or not headers.is_dir():
        print("left out: ranks of MPI: this Debian has no MPICH (Debian 12 has)", flush=True)
        return
    if shutil.which("clang-22") is None:
        print("left out: ranks of MPI: there is no clang-22 here to build their program", flush=True)
        return
    program = cluster.work / "home/ranks"
    built = subprocess.run(
        [cluster.prefix / "bin/mgb-clang++", "--offload-arch=sm_90", "-O1", "-std=c++17", "-I", headers,
         REPOSITORY / "tests/slurm/ranks.cu", "-o", program, library, "-Wl,--allow-shlib-undefined"],
        capture_output=True, text=True)
    if built.returncode != 0:
        raise RuntimeError(built.stderr[-500:])
    for ranks, mib in ((2, 30), (4, 28), (2, 60)):
        options = f"-n {ranks} -w n1 --gres=mgb_mem:{ranks * mib}"
        job = trial.submit(f"srun --mpi=pmi2 /home/ranks {mib}", options)
        states = cluster.wait_for(job)
        said = trial.output(job)
        peak = trial.recorded(job).get("n1", {}).get("peak_mib", 0)
        right = states[job] == "COMPLETED" and said.count("PASS") == ranks and peak >= ranks * mib
        trial.check(f"{ranks} ranks of MPI, with {mib} MiB each at once", right,
                    peak if right else (states, said))
    trial.check_empty()


PARTS = (are_asked_for_directly, give_way, are_ranks_of_mpi)

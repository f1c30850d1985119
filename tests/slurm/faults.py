"""What is wrong with the set-up, or breaks: jobs go on, and slurmd does."""

import json
import time

from cluster import HEAD

STACK = "/etc/slurm/plugstack.conf"
USUAL = "optional /etc/slurm/mgb_spank.so prefix=/usr/local\n"


def slurmds(trial):
    """The processes of all slurmd."""
    return [trial.cluster.must(name, "systemctl show -P MainPID slurmd").strip() for name in trial.cluster.nodes]


def with_stack(trial, line, command="srun -Q -w n1 echo PASS"):
    """Runs a task on n1 with this plugstack.conf there; what came of it, in how many seconds."""
    trial.cluster.write("n1", STACK, line)
    try:
        return trial.cluster.run(HEAD, command, "alice")
    finally:
        trial.cluster.write("n1", STACK, USUAL)


def in_the_plugin(trial):
    cluster, before = trial.cluster, slurmds(trial)
    cluster.must("n1", "mkdir -p /opt/hangs/bin; printf '#!/bin/sh\\nexec sleep 1000\\n' >/opt/hangs/bin/mgb;"
                       "chmod 755 /opt/hangs/bin/mgb; echo nonsense >/etc/slurm/nonsense.so;"
                       "mgb cluster plugin --slurm 20.02.1 --out /etc/slurm/old_mgb_spank.so")
    own = "optional /etc/slurm/mgb_spank.so"
    for what, line, most in (
            ("a panic", f"{own} prefix=/usr/local fault=panic\n", 6),
            ("no bin/mgb", f"{own} prefix=/nowhere\n", 6),
            ("an mgb that hangs, with a limit of 2 s", f"{own} prefix=/opt/hangs timeout=2\n", 8),
            ("a word that it does not know", f"{own} prefix=/usr/local what=this\n", 6),
            ("the plugin's file is missing", "optional /etc/slurm/none.so\n", 6),
            ("it is no library", "optional /etc/slurm/nonsense.so\n", 6),
            ("it is of another version", "optional /etc/slurm/old_mgb_spank.so\n", 6)):
        said = with_stack(trial, line)
        right = said["code"] == 0 and "PASS" in said["stdout"] and said["seconds"] < most
        trial.check(f"{what}: the job runs", right, f"{said['seconds']:.2f} s" if right else said)
    said = with_stack(trial, f"{own} prefix=/nowhere required\n")
    trial.check("no bin/mgb, with `required`: the task does not start",
                said["code"] != 0 and "PASS" not in said["stdout"], said["code"])
    said = with_stack(trial, f"{own} prefix=/usr/local fault=crash\n")
    trial.check("a crash: that task alone fails", said["code"] != 0, said["code"])
    again = cluster.run(HEAD, "srun -Q -w n1 echo PASS", "alice")
    after = slurmds(trial)
    trial.check("  all slurmd have lived on", before == after and again["code"] == 0, (before, after))
    left = lambda: cluster.run("n1", "pgrep -x sleep")["stdout"]
    trial.check("  and nothing that hung is left", trial.until(lambda: not left(), 5), left() or None)


def without_the_plugin(trial):
    cluster = trial.cluster
    prolog = "#!/bin/sh\nsed 's/^/export /' /etc/softgpu.env\nexec /usr/local/bin/mgb-task-prolog\n"
    usual = cluster.must("n1", "cat /etc/slurm/softgpu-prolog")
    for name in cluster.nodes:
        cluster.write(name, STACK, "")
        cluster.write(name, "/etc/slurm/softgpu-prolog", prolog, 0o755)
    cluster.set(["Epilog=/usr/local/bin/mgb-epilog"])
    job = trial.submit(trial.phases(12, 4), "--gres=mgb_mem:16")
    wrong = trial.ends(job)
    records = trial.recorded(job)
    trial.check("without the plugin, TaskProlog and Epilog do it", not wrong and len(records) == 1, records or wrong)
    cluster.must(HEAD, "systemctl stop slurmdbd")
    wrong = trial.ends(trial.submit(trial.phases(12, 4), "--gres=mgb_mem:16"))
    # Slurm drains a node whose epilog fails.
    idle = trial.until(cluster.is_idle, 20)
    cluster.must(HEAD, "systemctl start slurmdbd")
    trial.check("  and drain no node where slurmdbd is down", not wrong and idle, wrong or None)
    for name in cluster.nodes:
        cluster.write(name, STACK, USUAL)
        cluster.write(name, "/etc/slurm/softgpu-prolog", usual, 0o755)
    cluster.set(["Epilog="])


def are_found_by_check(trial):
    cluster = trial.cluster
    problems = lambda name: {finding["name"] for finding in json.loads(cluster.run(name, "mgb cluster check --json")
                             ["stdout"]) if finding["state"] == "problem"}
    trial.check("mgb cluster check finds nothing", not problems("n1"), problems("n1") or None)
    cluster.must("n1", "mgb cluster plugin --slurm 20.02.1 --out /etc/slurm/mgb_spank.so")
    found = problems("n1")
    cluster.must("n1", "mgb cluster plugin --out /etc/slurm/mgb_spank.so")
    trial.check("  but a plugin of another version", found == {"plugin"}, found)
    cluster.must("n1", "systemctl stop mgbd")
    found = problems("n1")
    cluster.must("n1", "systemctl start mgbd")
    trial.check("  no mgbd", found == {"mgbd"}, found)
    cluster.set(["HealthCheckInterval=0"])
    found = problems("n1")
    cluster.set(["HealthCheckInterval=60"])
    trial.check("  a health check that is never made", found == {"HealthCheckProgram"}, found)


def cost(trial):
    def seconds(count=20):
        """Of a step, in an allocation that is there: without the time of slurmctld's rounds."""
        steps = f"for at in $(seq {count}); do srun -Q -n1 true; done"
        script = f"b=$(date +%s%N); {steps}; echo $(($(date +%s%N) - b))"
        job = trial.submit(script, "-w n1")
        trial.cluster.wait_for(job)
        trial.until(lambda: trial.output(job).strip(), 3)
        return int(trial.output(job)) / 1e9 / count

    with_it = min(seconds() for _ in range(2))
    trial.cluster.write("n1", STACK, "")
    without = min(seconds() for _ in range(2))
    trial.cluster.write("n1", STACK, USUAL)
    added = with_it - without
    job = trial.submit("sleep 20", "-w n1")
    watch = lambda: trial.cluster.run("n1", "pgrep -x mgb")["stdout"].split()
    trial.until(watch, 5)
    rollup = trial.cluster.run("n1", f"cat /proc/{watch()[0]}/smaps_rollup")["stdout"] if watch() else ""
    kib = {line.split()[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
    trial.cluster.must(HEAD, f"scancel {job}")
    figure = (f"a step takes {1000 * without:.0f} ms without, {1000 * added:.0f} ms more with; "
              f"the watcher has {kib.get('Pss:')} KiB, {kib.get('Anonymous:')} KiB of them its own")
    trial.check("the plugin's cost", added < 0.25 and 0 < kib.get("Anonymous:", 0) < 4096, figure)
    trial.cluster.wait_for(job)


def on_a_node(trial):
    """The health check."""
    cluster = trial.cluster
    state = lambda name: cluster.must(HEAD, f"scontrol show node -o {name}")
    cluster.must("n1", "mgb-health")
    cluster.must("n1", "systemctl stop mgbd")
    began = time.monotonic()
    code = cluster.run("n1", "mgb-health")["code"]
    right = code == 1 and "DRAIN" in state("n1") and "Reason=mgb: no mgbd runs" in state("n1")
    figure = f"after {time.monotonic() - began:.1f} s"
    trial.check("a node without mgbd is drained", right, figure if right else state("n1"))
    job = trial.submit("echo PASS", "-w n1")
    time.sleep(1)
    waits = cluster.job(job)["JobState"] == "PENDING"
    cluster.must("n1", "systemctl start mgbd; mgb-health")
    wrong = trial.ends(job)
    trial.check("  takes no job, and is resumed with mgbd", waits and not wrong, (waits, wrong))
    cluster.must(HEAD, "scontrol update nodename=n2 state=drain reason='new disk'")
    cluster.must("n2", "mgb-health; mgb-health")
    right = "Reason=new disk" in state("n2")
    trial.check("  another's drain is left alone", right, None if right else state("n2"))
    cluster.must(HEAD, "scontrol update nodename=n2 state=resume")
    job = trial.submit(trial.phases(40, 8), "--gres=mgb_mem:48 -w n3")
    trial.until(lambda: trial.tasks("n3"))
    cluster.must("n3", "mgb-health")
    nodes = json.loads(cluster.must(HEAD, "mgb status --cluster --json", "alice"))
    said = {node["node"]: node for node in nodes}
    right = said["n3"]["mgb_mem_asked"] == 48 and 40 <= said["n3"]["summary"]["reserved_mib"] <= 42
    right = right and said["n3"]["summary"]["tasks"] == 1 and len(said) == 3
    trial.check("mgb status --cluster shows a user all nodes", right, None if right else nodes)
    trial.ends(job)


PARTS = (in_the_plugin, are_found_by_check, on_a_node, without_the_plugin, cost)

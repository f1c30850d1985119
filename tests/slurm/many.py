#!/usr/bin/env python3
"""The same list of jobs on the same three nodes with software GPUs, under plain Slurm with whole GPUs and with shards,
under MGB with Slurm, and under one mgbd that has all GPUs: how long it takes, what fails, and how full the GPUs are.
Needs root, and the Debian that slurm.py makes."""

import collections
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import time

import frame
from cluster import HEAD, HERE
from trial import PROGRAMS

# Last: there is a trial.py as well.
sys.path.append(str(HERE.parent / "gpu"))

from joblist import SHARDS, TUNED, draw, ends, shards  # noqa: E402


def phases(job):
    return f"phases {job.need} {job.rounds} 500 wait 1 8"


def size_of(devices):
    """GPUs of a node, by its SOFTGPU_DEVICES."""
    return sum(int(group.split("x")[0]) for group in devices.split(","))


class Used:
    """Looks at GPUs' memory meanwhile."""

    def __init__(self, prefix, gpus):
        """`gpus`: SOFTGPU_DEVICES and SOFTGPU_STATE of each node."""
        library = prefix / "lib/softgpu/libnvidia-ml.so.1"
        self.began = time.monotonic()
        self.watchers = [subprocess.Popen(
            [sys.executable, HERE / "used.py", library], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "SOFTGPU_DEVICES": devices, "SOFTGPU_STATE": str(state)}) for devices, state in gpus]

    def end(self):
        """How full each node was in the mean, and all of them in the middle half of the time."""
        ended, means, middle = time.monotonic(), [], []
        for watcher in self.watchers:
            said, _ = watcher.communicate("\n")
            totals, *lines = [[float(word) for word in line.split()] for line in said.splitlines()]
            part = lambda begin, end, lines=lines, totals=totals: 100 * sum(
                sum(line[1:]) for line in lines if begin <= line[0] <= end) / sum(totals) / max(1, sum(
                    begin <= line[0] <= end for line in lines))
            means.append(part(self.began, ended))
            quarter = (ended - self.began) / 4
            middle.append(part(self.began + quarter, ended - quarter))
        return means, sum(middle) / len(middle)


class Many:
    """The cluster, the jobs, and what came of them."""

    def __init__(self, cluster, arguments):
        self.cluster, self.arguments = cluster, arguments
        self.jobs = draw(arguments.jobs, arguments.life)
        self.results, self.has_mgb = {}, False

    def note(self, name, seconds, ends, used, wrote):
        means, middle = used
        self.results[name] = {"seconds": seconds, **ends, "full": means, "middle": middle}
        packed = " ".join(f"{mean:.0f}" for mean in means)
        print(f"{name:24} {seconds:6.1f} s, {ends['passed']} right, {ends['oom']} out of memory, "
              f"{ends['other']} other; full {sum(means) / len(means):.1f} % ({packed}; middle half {middle:.1f}); "
              f"users write: {wrote}", flush=True)

    def play(self, name, options, wrote, before="", meanwhile=None, submit="sbatch"):
        """All jobs at once, as a user would submit them; they wait until the last is there. `meanwhile` is done beside
        them."""
        cluster = self.cluster
        folder = cluster.work / "home/alice" / name.replace(" ", "-").replace(",", "")
        lines = [f"mkdir {folder.name}"]
        for number, job in enumerate(self.jobs):
            words = f"-Q -t 1 -J j{number} -o {folder.name}/%j {options(job)}"
            command = shlex.quote(f"{before}exec {PROGRAMS}/mgb/{phases(job)}")
            lines.append(f"{submit} {words} --wrap {command} >/dev/null")
        cluster.write(HEAD, "/home/alice/submit", "set -e\n" + "\n".join(lines) + "\n")
        cluster.must(HEAD, "scontrol update partition=main state=down")
        cluster.must(HEAD, "sh submit", "alice")
        used = Used(cluster.prefix, [(devices, cluster.machines[node].path("/run/softgpu/state"))
                                     for node, devices in cluster.gpus.items()])
        began = time.monotonic()
        cluster.must(HEAD, "scontrol update partition=main state=up")

        seen = []
        beside = threading.Thread(target=meanwhile or (lambda: None))
        beside.start()

        def all_ended():
            time.sleep(0.2)
            said = cluster.run(HEAD, "squeue -h -o %T")
            seen.append(collections.Counter(said["stdout"].split()))
            return said["code"] == 0 and not said["stdout"].strip()

        try:
            cluster.wait(all_ended, self.arguments.limit, f"{name}: all end")
        except RuntimeError as error:
            print(f"{error}: {cluster.states()}", flush=True)
            cluster.must(HEAD, "scancel -u alice")
        seconds = time.monotonic() - began
        used = used.end()
        beside.join()
        # Their files come over /home, a moment after Slurm knows that they have ended.
        time.sleep(0.5)
        self.note(name, seconds, ends(folder, len(self.jobs)), used, wrote)
        mean = lambda state: sum(states[state] for states in seen) / len(seen)
        print(f"  jobs in the mean: {mean('PENDING'):.1f} wait in Slurm, {mean('RUNNING'):.1f} run, "
              f"{mean('COMPLETING'):.1f} are wound up{self.taken()}", flush=True)
        cluster.wait(cluster.is_idle, 30, "all nodes are idle")

    def comments(self):
        """What sacct has of the latest list's jobs."""
        return self.cluster.must(HEAD, f"sacct -n -P -X -u alice -o AdminComment | tail -n {len(self.jobs)}")

    def recorded(self):
        return self.comments().count("mgb{")

    def taken(self):
        """What sacct says of MGB's part in a list's jobs."""
        text = self.comments()
        total = lambda what: sum(map(float, re.findall(rf"{what}=([0-9.]+)s", text)))
        return f"; of a job's time {total('waited') / len(self.jobs):.2f} s are waits in mgbd, " \
               f"{total('held') / len(self.jobs):.2f} s with a GPU" if "mgb{" in text else ""

    def against(self):
        """What MGB with Slurm is beside one mgbd that has all GPUs."""
        best = min((result["seconds"] for name, result in self.results.items() if name.startswith("one")), default=0)
        for name, result in self.results.items():
            if best and name.startswith("mgb"):
                print(f"{name}: {100 * result['seconds'] / best - 100:+.0f} % of the time of one mgbd", flush=True)

    # Plain Slurm.

    def configure(self, gres, types, shards=0):
        """Slurm with these GRES of its own, `gres` for a node by its GPUs."""
        cluster = self.cluster
        cluster.more = f"GresTypes={types}" if types else ""
        cluster.configure()
        for name in cluster.machines:
            text = cluster.machines[name].path("/etc/slurm/slurm.conf").read_text()
            for node, devices in cluster.gpus.items():
                own = gres(size_of(devices))
                text = re.sub(f"(?m)^(NodeName={node} .*)$", rf"\1 Gres={own}" if own else r"\1", text)
            cluster.write(name, "/etc/slurm/slurm.conf", text)
        for node, devices in cluster.gpus.items():
            count = size_of(devices)
            # Slurm gives out the numbers of files that are devices.
            cluster.must(node, f"for at in $(seq 0 {count - 1}); do mknod -m 666 /dev/softgpu$at c 1 3 || true; done "
                               "2>/dev/null")
            own = f"Name=gpu File=/dev/softgpu[0-{count - 1}]\n" if types else ""
            own += f"Name=shard Count={shards * count}\n" if shards else ""
            cluster.write(node, "/etc/slurm/gres.conf", own)
        cluster.set([TUNED])

    def plain(self):
        """Without MGB the same programs run natively, on the GPU that Slurm has chosen."""
        # They find the library that they are linked with.
        before = "echo $(hostname) $CUDA_VISIBLE_DEVICES; export MGB=off LD_LIBRARY_PATH=/home/mgb/usr/local/lib/mgb/lib; "
        self.configure(lambda gpus: f"gpu:{gpus}", "gpu")
        self.empty("plain Slurm", "true")
        self.empty("plain Slurm", f"{PROGRAMS}/mgb/phases 4 1 1 wait 1 8", before)
        self.play("whole GPUs", lambda job: "--gres=gpu:1", "--gres=gpu:1", before)
        self.configure(lambda gpus: f"gpu:{gpus},shard:{SHARDS * gpus}", "gpu,shard", SHARDS)
        self.play("shards as believed", lambda job: f"--gres=shard:{shards(job)}", "--gres=shard:N for each", before)
        self.play("shards of nothing known", lambda job: "--gres=shard:1", "--gres=shard:1", before)
        self.configure(lambda gpus: "", "")

    def empty(self, what, program, before=""):
        """How fast Slurm is here: as many jobs that do next to nothing."""
        jobs, cluster = self.jobs, self.cluster
        lines = [f"sbatch -Q -t 1 -o /dev/null --wrap '{before}{program}' >/dev/null"] * len(jobs)
        cluster.must(HEAD, "scontrol update partition=main state=down")
        began = time.monotonic()
        cluster.must(HEAD, "\n".join(lines), "alice")
        submitted = time.monotonic() - began
        began = time.monotonic()
        cluster.must(HEAD, "scontrol update partition=main state=up")
        cluster.wait(lambda: not cluster.must(HEAD, "squeue -h -o %A").strip(), 120, "empty jobs end")
        print(f"{what}: {len(jobs)} of {program.split('/')[-1]} are submitted in {submitted:.1f} s and run in "
              f"{time.monotonic() - began:.1f} s", flush=True)

    # With MGB.

    def add_mgb(self):
        self.cluster.follow()
        self.has_mgb = True

    def with_mgb(self):
        self.add_mgb()
        self.empty("with MGB", "true")
        self.empty("with MGB", f"{PROGRAMS}/mgb/phases 4 1 1 wait 1 8")
        for name in ("mgb sbatch, nothing known", "mgb sbatch, known"):
            self.play(name, lambda job: "", "nothing", submit="mgb sbatch")
            self.cluster.wait(lambda: self.recorded() == len(self.jobs), 30, "all are recorded")
        self.play("mgb_mem as believed", lambda job: f"--gres=mgb_mem:{job.believed}", "--gres=mgb_mem:N for each")

    def killed(self):
        """Daemons end beside the jobs, one after the other: none is lost."""
        cluster, done = self.cluster, []
        if not self.has_mgb:
            self.add_mgb()

        def kill():
            for name, unit in [(node, unit) for node in cluster.nodes for unit in ("mgbd", "slurmd")]:
                time.sleep(1.5)
                cluster.must(name, f"systemctl kill -s KILL --kill-who=main {unit}; sleep 0.3;"
                                   f"systemctl reset-failed {unit}; systemctl start {unit}")
                done.append(unit)
            # Not both at once: a slurmctld that finds no slurmdbd cannot look its TRES up, and ends.
            cluster.must(HEAD, "systemctl kill -s KILL --kill-who=main slurmctld; sleep 0.3;"
                               "systemctl reset-failed slurmctld; systemctl start slurmctld")
            cluster.wait(lambda: "UP" in cluster.run(HEAD, "scontrol ping")["stdout"], 30, "slurmctld answers")
            cluster.must(HEAD, "systemctl stop slurmdbd; sleep 5; systemctl start slurmdbd")
            until, held = time.monotonic() + self.arguments.limit, 0
            while cluster.run(HEAD, "squeue -h -o %A")["stdout"].strip() and time.monotonic() < until:
                held += cluster.tidy()
                time.sleep(1)
            done.append(f"slurmctld ({held} jobs were held back by Slurm), slurmdbd")

        self.play("mgb_mem and kills", lambda job: f"--gres=mgb_mem:{job.believed} --requeue --open-mode=append",
                  "--gres=mgb_mem:N for each", meanwhile=kill)
        said = self.cluster.must(HEAD, "sacct -n -P -X -u alice -o State | sort | uniq -c")
        print(f"  ended beside them: {', '.join(done)}; states: {' '.join(said.split())}", flush=True)

    def bound(self):
        """One mgbd that has all GPUs, without Slurm."""
        prefix, folder = self.cluster.prefix, self.cluster.work / "bound"
        folder.mkdir()
        file = folder / "jobs"
        file.write_text("".join(f"{prefix}/examples/mgb/{phases(job)}\n" for job in self.jobs))
        devices, state = ",".join(self.cluster.gpus.values()), folder / "state"
        environment = {**os.environ, "SOFTGPU_DEVICES": devices, "SOFTGPU_STATE": str(state), "MGB_SOFTGPU": "1",
                       "MGB_SOCKET": str(folder / "mgbd.sock"), "MGB_PREFIX": str(prefix)}
        mgb = prefix / "bin/mgb"
        for at_once in self.arguments.at_once:
            logs = folder / f"logs-{at_once}"
            used = Used(prefix, [(devices, state)])
            began = time.monotonic()
            said = subprocess.run([mgb, "batch", file, "-j", at_once, "--json", "--logs", logs], env=environment,
                                  capture_output=True, text=True)
            seconds = time.monotonic() - began
            if said.returncode not in (0, 1):
                raise RuntimeError(f"mgb batch: {said.stderr[-500:]}")
            self.note(f"one mgbd, -j {at_once}", seconds, ends(logs, len(self.jobs)), used.end(), "a line for each")
        subprocess.run([mgb, "stop", "mgbd"], env=environment, capture_output=True)


def play(cluster, arguments):
    began = time.monotonic()
    many = Many(cluster, arguments)
    lives = sum(job.rounds for job in many.jobs) / 2
    need = sum(job.need * job.rounds for job in many.jobs) / 2
    print(f"{len(many.jobs)} jobs, {need:.0f} MiB s, lives of {lives:.0f} s in all")
    cluster.start(with_mgb=False)
    cluster.set([TUNED])
    for part in arguments.parts:
        getattr(many, part)()
    many.against()
    if arguments.json:
        arguments.json.write_text(json.dumps(many.results, indent=1))
    is_wrong = lambda name, result: "mgb" in name and result["oom"] + result["other"]
    wrong = [name for name, result in many.results.items() if is_wrong(name, result)]
    print(f"many.py: {len(wrong)} wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


def main():
    parser = frame.options("many.py", __doc__, gpus=True)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--life", type=float, default=1, help="a factor on the jobs' lives of 1 to 4 s")
    parser.add_argument("--at-once", nargs="+", default=["48"], help="-j of mgb batch, one after the other")
    parser.add_argument("--limit", type=float, default=300, help="seconds that each list may take")
    parser.add_argument("--parts", nargs="+", default=["bound", "plain", "with_mgb", "killed"])
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there too")
    return frame.run(parser, play)


if __name__ == "__main__":
    sys.exit(main())

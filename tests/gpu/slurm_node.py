#!/usr/bin/env python3
"""The same list of jobs on one node with two GPUs: under one mgbd without Slurm, under MGB with Slurm, and
under plain Slurm with shards and with whole GPUs: how long it takes, what fails, how full the GPUs are, and
what sacct has of it. Before, once each: a job's environment, accounting, suspension, cancellation, and jobs
that take four times what they asked for. Slurm comes from what pack_slurm.py has packed, and is unpacked
under /. Needs root, and a machine that is thrown away afterwards."""

import collections
import os
import pathlib
import shlex
import threading
import time
import traceback

from joblist import GPU, SHARDS, TUNED, draw, ends, shards
from one_node import HOME, MGB, USER, NodeTrial, OneNode
from trial import MIB, Nvml

# In this order: for the last two mgbd has gone.
PARTS = ("environment", "accounted", "suspended", "cancelled", "outgrown", "bound", "with_mgb", "as_believed", "with_shards",
         "whole")
# `pauses` makes its data on the GPU, so that neither host memory nor copies limit how many run at once.
# Steps of a kernel that take an H100 25 ms for 16 GiB, and blocks that fill it; software GPUs are slower.
STEPS, BLOCKS = (1, 8) if NodeTrial.software else (20, 264)
PAUSE_MS = 500
# MiB that leave an H100 in a second, of Slurm's two.
LEAVES = 16384
# Seconds that must be left for another list to begin.
LEAST = 45


class Used(threading.Thread):
    """How much of each GPU's memory is in use meanwhile, by NVML, ten times a second."""

    def __init__(self, nvml):
        super().__init__(daemon=True)
        self.nvml, self.seen, self.over = nvml, [], threading.Event()
        self.start()

    def run(self):
        while not self.over.is_set():
            self.seen.append([self.nvml.used(gpu) for gpu in range(len(self.nvml.gpus))])
            self.over.wait(0.1)

    def end(self):
        """Percent of each GPU in the mean, and of all in the middle half of the time."""
        self.over.set()
        self.join()
        totals = [self.nvml.used(gpu) + self.nvml.free(gpu) for gpu in range(len(self.nvml.gpus))]
        mean = lambda used: sum(used) / len(used)
        percent = lambda seen: [100 * mean(used) / total for used, total in zip(zip(*seen), totals)]
        quarter = len(self.seen) // 4
        middle = percent(self.seen[quarter:len(self.seen) - quarter])
        return [round(each, 1) for each in percent(self.seen)], round(mean(middle), 1)


def is_stopped(pid):
    """Whether Slurm has stopped a process: by a signal, or by its control group."""
    try:
        if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1][0] == "T":
            return True
        groups = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
        group = pathlib.Path("/sys/fs/cgroup", groups.rsplit("0::/")[-1].strip())
        frozen = [at / "cgroup.freeze" for at in (group, *group.parents)]
        return any(file.exists() and file.read_text().strip() == "1" for file in frozen)
    except (OSError, IndexError):
        return False


class Play:
    """The node, the jobs, and what came of them."""

    def __init__(self, trial, node):
        self.trial, self.node, self.nvml = trial, node, Nvml()
        self.gpus = len(self.nvml.gpus)
        # MiB of a unit of the list.
        self.unit = min(self.nvml.used(gpu) + self.nvml.free(gpu) for gpu in range(self.gpus)) // GPU // MIB
        # Beside its memory a job has a context.
        self.slack = max(self.unit, 4)
        self.jobs = draw(trial.arguments.jobs, trial.arguments.life)
        self.lists = trial.result["lists"] = {}

    def pauses(self, units, rounds, pause=PAUSE_MS, steps=STEPS, kind="mgb"):
        return f"{MGB}/examples/{kind}/pauses {int(units * self.unit)} {rounds} {pause} {steps} {BLOCKS}"

    def ask(self, units):
        return f"--gres=mgb_mem:{units * self.unit}"

    def held(self):
        """Units that tasks have on the GPUs, by mgbd."""
        return sum(task["held_bytes"] for task in self.node.status()["tasks"]) / MIB / self.unit

    def used(self):
        """Units of all GPUs that are in use, by NVML."""
        return sum(self.nvml.used(gpu) for gpu in range(self.gpus)) / MIB / self.unit

    def is_empty(self):
        view = self.node.status()
        return not view["tasks"] and not view["queue"]

    # Once each.

    def environment(self):
        """A job's environment is that of `mgb run`, and its programs are mgbd's clients."""
        node, check = self.node, self.trial.check
        seen = node.must("srun -Q env", USER)
        variables = dict(line.split("=", 1) for line in seen.splitlines() if "=" in line)
        right = variables.get("MGB_JOB", "").startswith("534c")
        right = right and f"{MGB}/lib/front" in variables.get("LD_LIBRARY_PATH", "").split(":")
        own = {name: value for name, value in variables.items() if name.startswith(("MGB", "CUDA", "LD_"))}
        check("a job's environment is that of `mgb run`", right, own)
        check("  and with MGB=off it is left alone", "MGB_JOB" not in node.must("MGB=off srun -Q env", USER))
        # A kernel of a program that was not rebuilt needs a real GPU.
        kinds = ["mgb"] if self.trial.software else ["mgb", "plain"]
        jobs = [node.submit(self.pauses(4, 2, kind=kind), self.ask(6)) for kind in kinds]
        wrong = node.wrong(jobs)
        under = {view["job"] for view in node.status()["jobs"]}
        right = not wrong and set(jobs) <= under
        check(f"programs run under mgbd: {', '.join(kinds)}", right,
              None if right else (wrong, sorted(under)))

    def accounted(self):
        node = self.node
        job = node.submit(self.pauses(12, 3), self.ask(14))
        wrong = node.wrong([job])
        node.until(lambda: job in node.records([job]), 10)
        record = node.records([job]).get(job, {})
        asked = node.must(f"sacct -n -P -X -j {job} -o AllocTRES").strip()
        right = not wrong and self.took(record, 12) and record["held"] > 1
        right = right and f"gres/mgb_mem={14 * self.unit}" in asked
        self.trial.check("sacct has what a job asked for and what it took", right,
                         {"needs MiB": 12 * self.unit, "asked": asked, "took": record, **wrong})

    def took(self, record, units):
        """Whether a record is that of a job which needs so much."""
        need = units * self.unit
        return need <= record.get("peak_mib", 0) <= need + self.slack and record.get("tasks") == 1

    def use_host_memory(self, units):
        """Has so much leave a GPU once: host memory of a virtual machine may be slow the first time. Returns the
        seconds."""
        node = self.node
        job = node.submit(self.pauses(units, 24, 150), self.ask(14))
        node.until(lambda: self.held() > 0.99 * units, 20)
        pid, began = node.status()["tasks"][0]["pid"], time.monotonic()
        node.must(f"{MGB}/bin/mgb suspend {pid}")
        node.until(lambda: self.held() == 0, 30, 0.01)
        seconds = time.monotonic() - began
        node.must(f"{MGB}/bin/mgb resume {pid}; scancel {job}")
        node.until(self.is_empty, 20)
        return seconds

    def suspended(self):
        """With control groups memory may take longer than Slurm waits."""
        self.is_suspended(min(13, LEAVES / self.unit), 2.3)
        if self.trial.arguments.groups:
            self.is_suspended(48, 60)

    def is_suspended(self, units, longest):
        """A job with so much is suspended, which may take so many seconds."""
        node, check = self.node, self.trial.check
        # On an H100 it is in a kernel for two thirds of its time.
        steps = STEPS if self.trial.software else 15 * STEPS
        first = self.use_host_memory(units) if longest < 3 else None
        job = node.submit(self.pauses(units, 24, 150, steps), self.ask(14))
        holds = node.until(lambda: self.held() > 0.99 * units, 20)
        time.sleep(0.7)
        before, began = self.used(), time.monotonic()
        node.must(f"scontrol suspend {job}")
        left = node.until(lambda: self.held() == 0, longest + 1, 0.01)
        seconds = time.monotonic() - began
        gone = node.until(lambda: before - self.used() > 0.9 * units, 2)
        pids = lambda: node.run("pgrep -x pauses")["stdout"].split()
        stopped = node.until(lambda: pids() and all(map(is_stopped, pids())), 4)
        right = holds and left and seconds < longest and gone and stopped
        figures = {"seconds": round(seconds, 2), "MiB": int(units * self.unit), "gone by mgbd": left, "by NVML": gone,
                   "stopped": stopped}
        if first is not None:
            figures["before, without Slurm"] = round(first, 2)
        check("scontrol suspend empties the GPU of a job at work", right, figures)
        # Slurm keeps what the suspended one has asked for: others ask for less than they need.
        others = [node.submit(self.pauses(58, 4), self.ask(50)) for _ in range(self.gpus)]
        both = node.until(lambda: self.held() > 57 * self.gpus, 20)
        wrong = node.wrong(others)
        check("  and each GPU has room for a job of nine tenths of it", both and not wrong, wrong or None)
        time.sleep(1)
        began = time.monotonic()
        node.must(f"scontrol resume {job}")
        back = node.until(lambda: self.held() > 0.99 * units, 30, 0.01)
        seconds = time.monotonic() - began
        wrong = node.wrong([job])
        check("  and after scontrol resume it goes on and is right", back and not wrong,
              wrong or f"back in {seconds:.2f} s")

    def cancelled(self):
        node = self.node
        node.until(self.is_empty, 10)
        before = self.used()
        jobs = [node.submit(self.pauses(25, 60), self.ask(25)) for _ in range(2 * self.gpus)]
        held = node.until(lambda: self.held() > 24.9 * len(jobs), 20)
        most, began = self.used(), time.monotonic()
        node.must(f"scancel {' '.join(map(str, jobs))}", USER)
        back = node.until(lambda: self.is_empty() and self.used() - before < 2, 20)
        seconds, after = time.monotonic() - began, self.used()
        states = lambda: {node.state(job) for job in jobs}
        cancelled = node.until(lambda: states() == {"CANCELLED"}, 10)
        gib = [round(units * self.unit / 1024, 1) for units in (before, most, after)]
        self.trial.check("scancel of jobs that hold memory gives the room back", held and back and cancelled,
                         {"seconds": round(seconds, 2), "GiB in use before, then, after": gib,
                          "states": sorted(states())})

    def outgrown(self):
        """One fits on a GPU at a time, and Slurm believes that all do."""
        node = self.node
        jobs = [node.submit(self.pauses(40, 3), self.ask(10)) for _ in range(3 * self.gpus)]
        wrong = node.wrong(jobs)
        node.until(lambda: len(node.records(jobs)) == len(jobs), 10)
        records = node.records(jobs)
        waited = sum(record["waited"] for record in records.values())
        right = not wrong and len(records) == len(jobs) and waited > 1
        self.trial.check("jobs that take four times what they asked for wait and end right", right,
                         wrong or f"{len(jobs)} jobs waited for {waited:.1f} s in all")

    # The list.

    def note(self, name, seconds, counts, used, wrote, **more):
        """Keeps and prints what came of the list; whether all jobs were right."""
        means, middle = used
        self.lists[name] = {"seconds": round(seconds, 1), **counts, "full": means, "middle": middle, **more}
        each = " ".join(f"{mean:.0f}" for mean in means)
        print(f"{name:24} {seconds:6.1f} s, {counts['passed']} right, {counts['oom']} out of memory, "
              f"{counts['other']} other; full {sum(means) / len(means):.1f} % ({each}; middle half "
              f"{middle:.1f}); users write: {wrote}", flush=True)
        if more:
            print("  " + ", ".join(f"{figure} {what}" for what, figure in more.items()), flush=True)
        self.trial.save()
        return counts["passed"] == len(self.jobs)

    def play(self, name, options, wrote, before="", submit="sbatch"):
        """All jobs at once, as a user would submit them, until the last is there: their numbers, and whether
        all were right."""
        node, seen = self.node, []
        if self.trial.left() < LEAST:
            raise RuntimeError(f"{name}: no time is left for it")
        folder = HOME / name.replace(",", "").replace(" ", "-")
        lines = ["set -e", f"mkdir {folder}"]
        for job in self.jobs:
            command = shlex.quote(f"{before}exec {self.pauses(job.need, job.rounds)}")
            lines.append(f"{submit} --parsable -t 5 -o {folder}/%j {options(job)} --wrap {command}")
        node.must("scontrol update partition=main state=down")
        numbers = [int(word) for word in node.must("\n".join(lines), USER).split()]
        used, began = Used(self.nvml), time.monotonic()
        node.must("scontrol update partition=main state=up")

        def all_ended():
            said = node.run("squeue -h -o %T")
            seen.append(collections.Counter(said["stdout"].split()))
            return said["code"] == 0 and not said["stdout"].strip()

        ended = node.until(all_ended, self.trial.left() - LEAST / 2, 0.2)
        seconds, used = time.monotonic() - began, used.end()
        if not ended:
            node.must(f"scancel -u {USER}")
            node.until(node.is_idle, 30)
        mean = lambda state: round(sum(states[state] for states in seen) / len(seen), 1)
        names = {"PENDING": "wait in Slurm", "RUNNING": "run", "COMPLETING": "are wound up"}
        states = {what: mean(state) for state, what in names.items()}
        right = self.note(name, seconds, ends(folder, len(self.jobs)), used, wrote, **states)
        return numbers, right and ended

    def play_with_mgb(self, name, options, wrote, submit="sbatch"):
        """None fails, and sacct has what each took."""
        node, check = self.node, self.trial.check
        numbers, right = self.play(name, options, wrote, submit=submit)
        check(f"{name}: all are right", right)
        node.until(lambda: len(node.records(numbers)) == len(numbers), 5)
        records = node.records(numbers)
        mean = lambda what: round(sum(record[what] for record in records.values()) / max(1, len(records)), 2)
        self.lists[name] |= {"waited": mean("waited"), "held": mean("held"), "records": len(records)}
        pairs = [(job, number, records.get(number, {})) for job, number in zip(self.jobs, numbers)]
        wrong = [(number, job.need * self.unit, record) for job, number, record in pairs
                 if not self.took(record, job.need)]
        check("  and sacct has what each of them took", not wrong,
              wrong[:3] or f"in the mean {mean('waited')} s are waits in mgbd, {mean('held')} s with a GPU")

    def bound(self):
        """The node's mgbd alone."""
        file, logs = self.trial.folder / "jobs", self.trial.folder / "logs"
        at_once = self.trial.arguments.at_once
        file.write_text("".join(f"{self.pauses(job.need, job.rounds)}\n" for job in self.jobs))
        used = Used(self.nvml)
        said = self.trial.run([MGB / "bin/mgb", "batch", file, "-j", at_once, "--json", "--logs", logs])
        used = used.end()
        if not logs.is_dir():
            raise RuntimeError(f"mgb batch: {said['stderr'][-500:]}")
        name = f"one mgbd, -j {at_once}"
        right = self.note(name, said["seconds"], ends(logs, len(self.jobs)), used, "a line for each")
        self.trial.check(f"{name}: all are right", right, None if right else said["stderr"][-500:])

    def with_mgb(self):
        for name in ("mgb sbatch, nothing known", "mgb sbatch, known"):
            self.play_with_mgb(name, lambda job: "", "nothing", f"{MGB}/bin/mgb sbatch")

    def as_believed(self):
        self.play_with_mgb("mgb_mem as believed", lambda job: self.ask(job.believed),
                           "--gres=mgb_mem:N for each")

    def natively(self, shards_of_each=0):
        """From now on programs run on the GPU that Slurm has chosen; what a job does for that."""
        # Before mgbd goes, so that no health check misses it.
        self.node.with_gpus(self.gpus, shards_of_each)
        self.trial.stop_mgbd()
        return "export MGB=off; "

    def with_shards(self):
        before = self.natively(SHARDS)
        self.play("shards as believed", lambda job: f"--gres=shard:{shards(job)}", "--gres=shard:N for each",
                  before)
        self.play("shards, nothing known", lambda job: "--gres=shard:1", "--gres=shard:1", before)

    def whole(self):
        _, right = self.play("whole GPUs", lambda job: "--gres=gpu:1", "--gres=gpu:1", self.natively())
        self.trial.check("whole GPUs: all are right", right)

    def against(self):
        """What the rows are beside one mgbd without Slurm."""
        best = next((row["seconds"] for name, row in self.lists.items() if name.startswith("one mgbd")), None)
        for name, row in self.lists.items():
            if best and not name.startswith("one mgbd"):
                more = 100 * row["seconds"] / best - 100
                print(f"{name}: {more:+.0f} % of the time of one mgbd", flush=True)


def arguments(parser):
    parser.add_argument("--slurm", type=pathlib.Path, required=True, help="what pack_slurm.py has packed")
    parser.add_argument("--jobs", type=int, default=80, help="jobs of the list (default 80)")
    parser.add_argument("--life", type=float, default=1, help="a factor on the jobs' lives of 1 to 4 s")
    parser.add_argument("--at-once", type=int, default=24, help="-j of mgb batch (default 24)")
    parser.add_argument("--groups", action="store_true", help="Slurm has control groups, of the second version")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="play these alone")


def main():
    trial = NodeTrial("slurm_node", __doc__, arguments)
    if os.geteuid() != 0:
        trial.check("this is not root: left out", True)
        trial.finish()
    node = OneNode(trial, trial.arguments.slurm.resolve(), TUNED, trial.arguments.groups)
    try:
        node.start()
        trial.mgbd(options=["--serve", "all"])
        said = node.with_mgb()
        play = Play(trial, node)
        trial.check(f"Slurm {node.version()} and MGB are up on a node with {play.gpus} GPUs",
                    said["code"] == 0, (said["stdout"] + said["stderr"]).splitlines())
        lives = sum(job.rounds for job in play.jobs) * PAUSE_MS / 1000
        print(f"{len(play.jobs)} jobs, lives of {lives:.0f} s in all, a unit of {play.unit} MiB; up after "
              f"{time.monotonic() - trial.start:.1f} s", flush=True)
        for part in PARTS:
            if part not in trial.arguments.parts:
                continue
            try:
                getattr(play, part)()
            except Exception as error:  # what one part meets does not keep the others from being played
                trial.check(part, False, str(error)[-1500:])
                traceback.print_exc(limit=3)
        play.against()
    except RuntimeError as error:
        trial.check("the node comes up", False, str(error)[-3000:])
    finally:
        trial.result["logs"] = node.logs(200).splitlines()
        node.stop()
    trial.finish()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""One list of 32 PyTorch jobs in queues that people use on one machine, on GPUs with 16 GiB each: task-spooler (one job
per GPU, as it finds them free), Pueue (four jobs per GPU, as its user guesses), gflow (memory of each job declared; once
rightly, once with every fifth job at half of what it takes), and `mgb submit`, to which nothing is declared. How long the
list takes, which jobs fail, and whether the results are those of the jobs alone. Queues that --tools lacks are left out."""

import collections
import importlib.util
import os
import pathlib
import shlex
import sys
import time

from trial import GIB, Nvml, Trial

JOB = pathlib.Path(__file__).resolve().parent / "frameworks/job.py"
# Kind, GiB, steps: the sizes of jobs.py, with shorter work. The list has each of them twice.
JOBS = [("train", 1, 24), ("infer", 2, 24), ("train", 4, 16), ("infer", 1, 32), ("train", 9.5, 8), ("infer", 5, 16),
        ("train", 2, 24), ("infer", 3, 24), ("train", 6, 12), ("infer", 8, 12), ("train", 3, 16), ("infer", 1, 32),
        ("train", 1, 24), ("infer", 4, 20), ("train", 7, 10), ("infer", 2, 24)]
# What a careful user declares: weights and moments, a context, and what training takes in its steps.
MARGIN = {"train": 1.3, "infer": 1.1}
CONTEXT_GIB = 1.0
ALL = ("task-spooler", "pueue", "gflow", "gflow-misjudged", "mgb", "mgb-again")

Played = collections.namedtuple("Played", "seconds lines failed")


def needs(index):
    kind, gib, _ = JOBS[index % len(JOBS)]
    return gib * MARGIN[kind] + CONTEXT_GIB


def whole():
    """The bytes of a GPU."""
    nvml = Nvml()
    return nvml.used(0) + nvml.free(0)


class Queue:
    """A queue of this trial's own: its folder, where its programs keep everything, and the jobs' scripts."""

    def __init__(self, trial, name, gpus):
        self.trial, self.name, self.gpus = trial, name, gpus
        self.folder = trial.folder / name
        (self.folder / "run").mkdir(parents=True)
        self.tools = trial.arguments.tools
        self.home = {"HOME": self.folder, "XDG_RUNTIME_DIR": self.folder / "run", "TMUX_TMPDIR": self.folder / "run",
                     "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
                     "PATH": f"{self.tools}:{trial.prefix / 'bin'}:{os.environ['PATH']}"}
        for part in ("CONFIG", "DATA", "STATE", "CACHE"):
            self.home[f"XDG_{part}_HOME"] = self.folder / part.lower()
            (self.folder / part.lower()).mkdir()

    def script(self, index):
        """A job as a file: what it prints goes beside it, and how it has ended."""
        kind, gib, steps = JOBS[index % len(JOBS)]
        at = self.folder / str(index)
        line = shlex.join([sys.executable, str(JOB), kind, str(gib), str(steps), str(index)])
        path = at.with_suffix(".sh")
        path.write_text(f"#!/bin/sh\n{line} > {at}.log 2>&1\necho $? > {at}.part\nmv {at}.part {at}.end\n")
        path.chmod(0o755)
        return path

    def order(self, *words):
        """Runs a command of the queue that must succeed; what it printed."""
        ended = self.trial.run(words, self.trial.environment(**self.home), timeout=30)
        if ended["code"] != 0:
            sys.exit(f"queues: {shlex.join(map(str, words))}: {ended['stdout'][-500:]} {ended['stderr'][-1500:]}")
        return ended["stdout"]

    def play(self, submit):
        """Submits all jobs and waits until all have ended, as long as the trial has time."""
        scripts = [self.script(index) for index in range(self.trial.arguments.jobs)]
        began = time.monotonic()
        for index, script in enumerate(scripts):
            submit(index, script)
        ends = [script.with_suffix(".end") for script in scripts]
        self.trial.until(lambda: all(end.exists() for end in ends), seconds=min(self.trial.left() - 10, 420))
        seconds = time.monotonic() - began
        lines, failed = [], []
        for index, end in enumerate(ends):
            log = end.with_suffix(".log").read_text() if end.with_suffix(".log").exists() else ""
            lines.append(next((line for line in log.splitlines() if line.startswith(("train", "infer"))), None))
            if not end.exists() or end.read_text().strip() != "0":
                failed.append("out of memory" if "out of memory" in log.lower() else log[-300:] or "did not begin")
        return Played(round(seconds, 1), lines, failed)


def task_spooler(queue):
    """One job per GPU, as soon as it finds one free."""
    queue.home["TS_SOCKET"] = str(queue.folder / "ts.sock")
    # The ballast is on the GPU: free is what has most of the rest.
    share = 0.9 * queue.trial.arguments.room * GIB / whole()
    queue.order("ts", "--set_gpu_free_perc", str(int(share * 100)))
    queue.order("ts", "-S", str(queue.trial.arguments.jobs))
    try:
        return queue.play(lambda _, script: queue.order("ts", "-G", "1", "sh", script))
    finally:
        queue.order("ts", "-K")


def pueue(queue):
    """Four jobs per GPU: it knows groups of so many places, and nothing of memory."""
    queue.trial.spawn(["pueued"], queue.trial.environment(**queue.home))
    queue.trial.until(lambda: queue.trial.run(["pueue", "status"], queue.trial.environment(**queue.home))["code"] == 0)
    for gpu in range(queue.gpus):
        queue.order("pueue", "group", "add", "--parallel", "4", f"gpu{gpu}")
    try:
        return queue.play(lambda index, script: queue.order(
            "pueue", "add", "--group", f"gpu{index % queue.gpus}",
            f"CUDA_VISIBLE_DEVICES={index % queue.gpus} sh {shlex.quote(str(script))}"))
    finally:
        queue.order("pueue", "shutdown")


def gflow(queue, ballasts, misjudged):
    """As many jobs per GPU as their declared memory lets. It reckons with the whole GPU: declared is the same part of it."""
    (queue.folder / "config/gflow").mkdir()
    (queue.folder / "config/gflow/gflow.toml").write_text(
        f'[daemon]\nport = {54000 + os.getpid() % 1000}\ngpu_poll_interval_secs = 1\n')
    # It types its jobs into shells of tmux, which are login shells.
    environment = queue.trial.environment(**queue.home)
    (queue.folder / ".profile").write_text("".join(
        f"export {name}={shlex.quote(environment[name])}\n" for name in ("PATH", "LD_LIBRARY_PATH", "CUBLAS_WORKSPACE_CONFIG")))
    queue.order("gflowd", "start")
    queue.trial.until(lambda: queue.trial.run(["ginfo"], queue.trial.environment(**queue.home))["code"] == 0)
    for gpu, process in enumerate(ballasts):
        queue.order("gctl", "gpu-process", "ignore", "--gpu", str(gpu), "--pid", str(process.pid))
    scale = whole() / (queue.trial.arguments.room * GIB)

    def submit(index, script):
        believed = needs(index) / 2 if misjudged and index % 5 == 2 else needs(index)
        declared = int(believed * scale * 1024)
        queue.order("gbatch", "--gpus", "1", "--shared", "--gpu-memory", f"{declared}M", "--name", f"job{index}", script)
    try:
        return queue.play(submit)
    finally:
        queue.order("gflowd", "stop")


def mgb(queue, again):
    """Nothing declared. The second time mgbd remembers what these programs take."""
    queue.home["MGB_QUEUE"] = str(queue.folder / "queue")
    if not again:
        queue.trial.mgbd()
    try:
        return queue.play(lambda index, script: queue.order("mgb", "submit", "--name", f"job{index}", "--", script))
    finally:
        queue.order("mgb", "queue", "stop")
        # Its MPS would count as somebody's program.
        if again:
            queue.trial.stop_mgbd()


def main():
    trial = Trial("queues", __doc__, lambda parser: (
        parser.add_argument("--tools", type=pathlib.Path, required=True, metavar="FOLDER",
                            help="ts, pueue, pueued, gflowd, gbatch, gctl and ginfo"),
        parser.add_argument("--only", nargs="*", choices=ALL, default=ALL, help="queues that are played (default: all)"),
        parser.add_argument("--jobs", type=int, default=2 * len(JOBS), help="the first so many jobs of the list (default: all 32)"),
        parser.add_argument("--room", type=float, default=16.0, help="GiB of each GPU (default 16)")))
    trial.arguments.tools = trial.arguments.tools.resolve()
    if importlib.util.find_spec("torch") is None:
        trial.check("PyTorch: not on this machine, left out", True)
        trial.finish()
    gpus = 1 if trial.arguments.gpu is not None else len(Nvml().gpus)
    ballasts = [trial.ballast(trial.arguments.room * GIB, gpu=gpu) for gpu in range(gpus)]
    kinds = {"task-spooler": ("ts", task_spooler), "pueue": ("pueue", pueue),
             "gflow": ("gbatch", lambda queue: gflow(queue, ballasts, False)),
             "gflow-misjudged": ("gbatch", lambda queue: gflow(queue, ballasts, True)),
             "mgb": (None, lambda queue: mgb(queue, False)), "mgb-again": (None, lambda queue: mgb(queue, True))}
    expected = {}
    for name in trial.arguments.only:
        tool, play = kinds[name]
        if tool and not (trial.arguments.tools / tool).exists():
            trial.check(f"{name}: --tools lacks {tool}, left out", True)
            continue
        played = play(Queue(trial, name, gpus))
        trial.result[name] = played._asdict()
        figure = {"seconds": played.seconds, "failed": len(played.failed), "why": collections.Counter(played.failed)}
        # The others may lose jobs: that is what is compared.
        trial.check(f"{name}: all jobs ended well" if name.startswith("mgb") else name,
                    not played.failed or not name.startswith("mgb"), figure)
        wrong = [line for index, line in enumerate(played.lines) if line and expected.setdefault(index, line) != line]
        trial.check(f"{name}: results as in the queues before", not wrong, wrong or None)
        trial.save()
    trial.finish()


main()

#!/usr/bin/env python3
"""Kernels with twins (`make twins`), stopped at random while they run: blocks that count, the conformance set and random
programs and chains of kernels, each as it must be, also while memory leaves the GPUs; and one kernel that goes on on another GPU. `--cost`: what a
twin takes that nobody stops, over the original, by ncu."""

import csv
import io
import json
import shutil
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from trial import Nvml, Trial

# A program of the conformance set with kernels that fault, and a case whose launch must not wait.
FAULTING = "control"
NOT_WAITING = "busy_stream_is_not_ready"
# Workloads whose kernels are measured.
COSTS = {name: ["256MiB", "--steps", "2"] for name in (
    "backprop", "diffusion_image", "diffusion_region", "boxes", "wavelet", "search", "nn_train", "nn_predict")}


def lines(text):
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


class Parts:
    def __init__(self, trial):
        self.trial = trial
        self.twins = trial.prefix / "twins"
        self.traces = 0

    def run(self, words, every, evict=None):
        """A program whose launches are stopped every so many ms; how often, behind its result."""
        self.traces += 1
        trace = self.trial.folder / f"{self.traces}.trace"
        more = {"MGB_EVICT_EVERY": evict} if evict else {}
        ended = self.trial.run(words, self.trial.environment(MGB="require", MGB_STOP_EVERY=every, MGB_TRACE=trace, **more))
        text = trace.read_text() if trace.exists() else ""
        parted = [json.loads(line).get("parted") or {} for line in text.splitlines()]
        return ended, {name: sum(each.get(name, 0) for each in parted) for name in ("launches", "parts")}

    def ranges(self, what, words, seeds, every, evict, stops=True, at_once=8):
        """Seeds of a program in ranges, several processes at once."""
        each = max(1, seeds // at_once)
        first = [1 + each * at for at in range(at_once)]
        began = time.monotonic()
        with ThreadPoolExecutor(at_once) as pool:
            ended = list(pool.map(lambda at: self.run(words(at, at + each), every, evict), first))
        wrong = [(one["code"], one["stdout"][-200:], one["stderr"][-300:]) for one, _ in ended if one["code"] != 0]
        counts = {name: sum(counts[name] for _, counts in ended) for name in ("launches", "parts")}
        stopped = counts["launches"] > 0 and (counts["parts"] > counts["launches"] or not stops)
        self.trial.check(what, not wrong and stopped,
                         counts | {"seconds": round(time.monotonic() - began, 1)} | ({"wrong": wrong[:4]} if wrong else {}))

    def conformance(self):
        """Each case as a GPU has recorded it, or as it says itself."""
        programs = sorted(path.stem for path in (self.trial.prefix / "conformance").glob("*.cu") if path.stem != FAULTING)
        with ThreadPoolExecutor(8) as pool:
            parted = list(pool.map(lambda one: self.run([self.twins / "conformance" / one], 0.05), programs))
        for program, (found, counts) in zip(programs, parted):
            kept = self.trial.prefix / "conformance/recorded" / f"{program}.txt"
            recorded, found, stderr = lines(kept.read_text()) if kept.exists() else {}, lines(found["stdout"]), found["stderr"]
            differing = [f"{case}: {recorded.get(case, 'nothing')[:100]} | {found.get(case, 'nothing')[:100]}"
                         for case in sorted((recorded.keys() | found.keys()) - {NOT_WAITING})
                         if not self.is_right(recorded.get(case), found.get(case, ""))]
            self.trial.check(f"{program}: as recorded", found and not differing,
                             counts | ({"differing": differing[:5], "stderr": stderr[-300:]} if differing else {}))

    @staticmethod
    def is_right(recorded, found):
        kind, *values = found.split() or [""]
        return found == recorded or (kind == "right" and set(values) == {"1"})

    def durations(self, words, environment):
        """By kernel: registers, and the microseconds of its launches."""
        ncu = [shutil.which("ncu") or "/usr/local/cuda/bin/ncu", "--csv", "--page", "raw", "--clock-control", "none",
               "--print-kernel-base", "mangled", "--launch-count", "150", "--metrics",
               "gpu__time_duration.sum,launch__registers_per_thread"]
        ended = self.trial.run([*ncu, *words], environment, timeout=60)
        text = ended["stdout"]
        rows = list(csv.DictReader(io.StringIO(text[text.find('"ID"'):] if '"ID"' in text else "")))
        found = {}
        # The first row has the units.
        for row in rows[1:]:
            scale = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[rows[0]["gpu__time_duration.sum"]]
            of = found.setdefault(row["Kernel Name"].removeprefix("__mgb_twin_"), ([], set(), set()))
            of[0].append(float(row["gpu__time_duration.sum"].replace(",", "")) * scale)
            of[1].add(int(row["launch__registers_per_thread"]))
            of[2].add(row["Kernel Name"].startswith("__mgb_twin_"))
        if not found:
            print(ended["code"], text[-500:], ended["stderr"][-500:], flush=True)
        return found

    def cost(self):
        """Whole kernels, as originals and as twins."""
        ratios = []
        for name, arguments in COSTS.items():
            program = self.twins / "benches" / name
            plain = self.durations([program, *arguments], self.trial.environment(MGB="off"))
            parted = self.durations([program, *arguments], self.trial.environment(MGB="require", MGB_STOP_EVERY=0))
            for kernel in sorted(plain.keys() & parted.keys()):
                (one, registers, _), (other, more, is_twin) = plain[kernel], parted[kernel]
                if is_twin != {True} or len(one) != len(other):
                    continue
                before, after = statistics.median(one), statistics.median(other)
                figure = {"launches": len(one), "us": round(before, 1), "as a twin": round(after / before, 3),
                          "registers": [*registers, *more]}
                self.trial.check(f"{name}: {kernel[:60]}", True, figure)
                if before >= 100:
                    ratios.append(after / before)
        if ratios:
            self.trial.check("kernels of 100 us or more, twin over original", statistics.mean(ratios) <= 1.05,
                             {"bar": 1.05, "kernels": len(ratios), "mean": round(statistics.mean(ratios), 3),
                              "worst": round(max(ratios), 3)})

    def begun(self, *words):
        """A program with a kernel of seconds, which runs by now, and its task."""
        trial = self.trial
        process = trial.spawn([self.twins / "blocks", "long", *words], trial.environment(MGB="require"))
        task = lambda: next((task for task in trial.status()["tasks"] if task["pid"] == process.pid and task["held_bytes"] > 0), None)
        if not trial.until(task):
            raise SystemExit(f"{trial.name}: a program did not begin: {process.communicate(timeout=60)}")
        time.sleep(1)
        return process, task() or {"gpu": 0}

    def timed(self, *words):
        began = time.monotonic()
        said = self.trial.run([self.trial.prefix / "bin/mgb", *words])
        return {" ".join(words[:1]): round(time.monotonic() - began, 3), "said": said["stdout"].strip() or said["stderr"].strip()}

    def ended(self, process, what, times, is_right):
        is_running = process.poll() is None
        output = process.communicate(timeout=120)[0]
        self.trial.running.remove(process)
        self.trial.check(what, is_running and output == "right\n" and is_right, {"times": times, "output": output})

    def half_way(self):
        """A kernel of seconds, whose memory is wanted while it runs."""
        trial = self.trial
        # Blocks of some milliseconds, of which a GPU runs some 4,000 at once.
        long = ["8000000", "4000000"]
        process, task = self.begun(*long)
        times = [self.timed("suspend", str(process.pid))]
        held = sum(gpu["resident_bytes"] for gpu in trial.status()["gpus"])
        times.append(self.timed("resume", str(process.pid)))
        self.ended(process, "a kernel is suspended half-way", times, held == 0)
        if len(Nvml().gpus) > 1:
            process, task = self.begun(*long)
            times = [self.timed("move", str(process.pid), str(gpu)) for gpu in (1 - task["gpu"], task["gpu"])]
            self.ended(process, "a kernel goes on on the other GPU and back", times, trial.status()["counts"]["moved"] >= 2)
        process, _ = self.begun(*long)
        began = time.monotonic()
        process.kill()
        process.wait()
        trial.running.remove(process)
        trial.until(lambda: not trial.status()["tasks"] and sum(gpu["resident_bytes"] for gpu in trial.status()["gpus"]) == 0, 70)
        took = time.monotonic() - began
        trial.check("the room of a program that was killed in the middle of a kernel is free", took <= 1, {"bar": 1, "seconds": round(took, 3)})


def main():
    trial = Trial("parts", __doc__, lambda parser: (
        parser.add_argument("--seeds", type=int, default=1000, help="of blocks that count (default 1,000)"),
        parser.add_argument("--cost", action="store_true", help="only what a twin costs by itself"),
        parser.add_argument("--half-way", action="store_true", help="only a kernel that is suspended, moved and killed"),
        parser.add_argument("--random", type=int, default=200, help="of random programs (default 200)")))
    parts = Parts(trial)
    if not parts.twins.exists():
        trial.check("no twins in this bundle (`make twins bundle`), left out", True)
        trial.finish()
    if trial.arguments.cost:
        # The profiler needs the GPU's counters for itself.
        trial.mgbd(mps=False)
        parts.cost()
        trial.finish()
    trial.mgbd()
    if trial.arguments.half_way:
        parts.half_way()
        trial.finish()
    blocks = parts.twins / "blocks"
    seeds = lambda first, last: [blocks, first, last]
    # Most are over before anything can stop them.
    parts.ranges("blocks that count, each once", seeds, trial.arguments.seeds, 0.01, None, stops=False)
    for evict in (None, 2):
        for every in (0.05, 0.3):
            parts.ranges(f"chains of kernels, stopped every {every} ms" + (", while memory leaves" if evict else ""),
                         lambda first, last: [parts.twins / "chains", first, last, "20000"], trial.arguments.seeds, every, evict)
    for evict in (None, 20):
        parts.ranges("random programs" + (", while memory leaves" if evict else ""), lambda first, last: [
            parts.twins / "random" / "random", f"{first}..{last - 1}", "--patience", "120", "--without", "devices"],
            trial.arguments.random, 0.05, evict)
    parts.conformance()
    parts.half_way()
    trial.finish()


main()

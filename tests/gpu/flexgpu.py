#!/usr/bin/env python3
"""What FlexGPU was shown to do, done with MGB on one GPU of which a ballast leaves 12 GiB beside the programs' contexts:
more instances than fit, programs that are busy for 30 % of their time, a mix, three kernels that must keep their order, the
four processes that wait for each other, and device pointers that no launch names. Where it makes a difference each row is
played plain, under an mgbd that evicts nothing (`wait-only`), by MGB's own rule of whom to evict (`ours`), and by FlexGPU's
(`flexgpu`). The programs check their results. A row that fails does not keep the others from being played."""

import json
import re
import statistics
import threading
import time
import traceback

from trial import GIB, MIB, Nvml, Trial, kill_group

# What a context takes on an H100 or H200, and MPS's server.
CONTEXT, SERVER = 526, 66
# The room for which the sizes below are meant; with another one they shrink or grow.
USUAL_ROOM = 12.0
OPTIONS = {"wait-only": ["--no-swap"], "ours": [], "flexgpu": ["--evict-by", "flexgpu"]}
SWAPPING = ["ours", "flexgpu"]
# GiB that FlexGPU's four processes hold, and then ask for, on a GPU with 12.
DEADLOCK = [(3.61, 3.36), (1.36, 3.09), (1.88, 3.51), (3.88, 2.51)]


class Instance(threading.Thread):
    """A program under way: when each line on its standard error came, and how it ended."""

    def __init__(self, trial, command, environment, began, limit):
        super().__init__(daemon=True)
        self.trial, self.began, self.lines = trial, began, []
        self.command = " ".join(str(word) for word in command)
        self.process = trial.spawn(command, environment)
        self.timer = threading.Timer(limit, kill_group, [self.process])
        self.timer.start()
        self.start()

    def run(self):
        for line in self.process.stderr:
            self.lines.append((time.monotonic() - self.began, line.rstrip()))
        self.output = self.process.stdout.read()
        self.code = self.process.wait()
        self.seconds = time.monotonic() - self.began
        self.timer.cancel()

    def is_right(self):
        return self.code == 0 and self.output.endswith("PASS\n")

    def is_out_of_memory(self):
        return self.code != 0 and any("out of memory" in line for _, line in self.lines)

    def rounds(self):
        """When each kernel of `pauses` ended."""
        return [at for at, line in self.lines if line.startswith("round ")]

    def what_went_wrong(self):
        return f"{self.command}: exit code {self.code}: {self.output}{' '.join(line for _, line in self.lines)[-400:]}"


class Bench:
    """The GPU with its ballast, and programs on it."""

    def __init__(self, trial):
        self.trial, self.nvml, self.weight, self.plays = trial, Nvml(), None, 0
        self.visible = {"CUDA_VISIBLE_DEVICES": "0"}
        self.known_steps = {}

    def bytes(self, gib):
        """So many GiB of the usual room, in bytes of this one."""
        return int(gib * GIB * self.trial.arguments.room / USUAL_ROOM)

    def mib(self, gib):
        """The same in whole MiB."""
        return max(1, self.bytes(gib) // MIB)

    def seconds(self, usual):
        return usual * self.trial.arguments.pace

    def ms(self, usual):
        return int(1000 * self.seconds(usual))

    def make_room(self, processes, share=1.0):
        """Leaves the room, and what the contexts of so many processes take."""
        asked = self.trial.arguments
        self.lift()
        leave = int(asked.room * share * GIB) + (processes * asked.context + asked.server) * MIB
        self.weight = self.trial.ballast(leave, gpu=0)
        free = self.nvml.free(0)
        if abs(free - leave) > 64 * MIB:
            raise RuntimeError(f"the ballast left {free / MIB:.0f} MiB instead of {leave / MIB:.0f}")

    def lift(self):
        if self.weight is not None:
            kill_group(self.weight)
            self.weight.wait()
            self.trial.running.remove(self.weight)
            self.weight = None

    def clear(self):
        """Whatever a row has left."""
        self.lift()
        self.trial.clean_up()

    def steps(self, mib, blocks, seconds):
        """Steps with which a kernel of `pauses` takes that long, when alone."""
        key = (mib, blocks)
        if key not in self.known_steps:
            few = self.trial.arguments.probe_steps
            program = self.trial.example("pauses", plain=True)
            ended = self.trial.run([program, mib, 2, 1, few, blocks], self.trial.environment(MGB="off", **self.visible))
            rounds = re.findall(r"round \d+: ([\d.]+) s", ended["stderr"])
            if ended["code"] != 0 or len(rounds) != 2:
                raise RuntimeError(f"a kernel's time cannot be measured: {ended}")
            self.known_steps[key] = few / max(float(rounds[-1]), 1e-3)
        return max(1, round(self.known_steps[key] * seconds))

    def pauses(self, mib, rounds, pause, kernel, blocks):
        """Arguments of `pauses`: a pause and a kernel of so many seconds in each round."""
        return ["pauses", mib, rounds, self.ms(pause), self.steps(mib, blocks, self.seconds(kernel)), blocks]

    def play(self, way, programs, apart=0.0, **more):
        """Starts the programs at once, or so many seconds apart, and waits for all: what came of it."""
        trial = self.trial
        self.plays += 1
        if way == "plain":
            environment = trial.environment(MGB="off", **self.visible, **more)
        else:
            # What an earlier play has taught mgbd is not for the next one.
            past = ["--past", trial.folder / f"past-{self.plays}"]
            trial.mgbd(options=OPTIONS[way] + past, **self.visible)
            environment = trial.environment(MGB="require", **self.visible, **more)
        commands = [[trial.example(name, way == "plain"), *arguments] for name, *arguments in programs]
        began = time.monotonic()
        instances = []
        for command in commands:
            instances.append(Instance(trial, command, environment, began, min(trial.arguments.row_limit, trial.left())))
            time.sleep(apart)
        for instance in instances:
            instance.join()
            trial.running.remove(instance.process)
        counts = {}
        if way != "plain":
            counts = trial.status()["counts"]
            trial.stop_mgbd()
        return Played(way, instances, counts)


class Played:
    """What came of programs that were played together."""

    def __init__(self, way, instances, counts):
        self.way, self.instances, self.counts = way, instances, counts
        self.seconds = max(instance.seconds for instance in instances)
        self.right = sum(instance.is_right() for instance in instances)
        self.out_of_memory = sum(instance.is_out_of_memory() for instance in instances)

    def all_right(self):
        return self.right == len(self.instances)

    def figure(self):
        figure = {"right": f"{self.right} of {len(self.instances)}", "seconds": round(self.seconds, 2),
                  "mean turnaround": round(statistics.mean(i.seconds for i in self.instances), 2)}
        if self.out_of_memory:
            figure["out of memory"] = self.out_of_memory
        if self.counts:
            figure |= {what: self.counts[what] for what in ("evicted", "evictions_failed", "swapped_out")}
        wrong = [i.what_went_wrong() for i in self.instances if not i.is_right() and not i.is_out_of_memory()]
        return figure | ({"wrong": wrong[:3]} if wrong else {})

    @staticmethod
    def swaps(trace):
        """How often memory left, as a trace has it."""
        processes = [json.loads(line) for line in trace.read_text().splitlines()] if trace.exists() else []
        swaps = [swap for process in processes for task in process["tasks"] for swap in task["swaps"]]
        return sum(swap["kind"] == "evicted" for swap in swaps)


def instances(trial, bench):
    """Eight instances of 3.8 GB, of which three fit: `plain` loses some, MGB none; and by how much eviction is ahead of
    packing what fits, which is what `wait-only` does."""
    count = 8
    mib = bench.mib(3.8e9 / GIB)
    program = bench.pauses(mib, 2, 3.5, 0.3, 132)
    bench.make_room(count)
    plain = bench.play("plain", [program] * count)
    trial.check("instances, plain: some run out of memory", plain.out_of_memory > 0
                and plain.right + plain.out_of_memory == count, plain.figure())
    each = {}
    for way in OPTIONS:
        played = bench.play(way, [program] * count)
        each[way] = round(played.seconds / count, 3)
        trial.check(f"instances, {way}: {count} of {count} right", played.all_right(), played.figure())
    saved = 1 - each["ours"] / each["wait-only"]
    trial.check("instances: time per instance below packing what fits", saved >= 0.25,
                {"bar": 0.25, "saved": round(saved, 3), "by flexgpu": round(1 - each["flexgpu"] / each["wait-only"], 3),
                 "seconds per instance": each})


def busy(trial, bench):
    """Eight instances whose kernels take 30 % of their time and some of the GPU, beside one alone."""
    program = bench.pauses(bench.mib(1.0), 8, 0.7, 0.3, 16)
    bench.make_room(8)
    alone = bench.play("ours", [program])
    all_of_them = bench.play("ours", [program] * 8)
    right = alone.all_right() and all_of_them.all_right()
    ratio = all_of_them.seconds / alone.seconds
    trial.check("busy: eight at 30 % over one alone", right and ratio <= 1.25,
                {"bar": 1.25, "ratio": round(ratio, 3), "alone": alone.figure(), "eight": all_of_them.figure()})


def mix(trial, bench):
    """Three programs with much memory and long host phases, and three small ones that are busy."""
    large = bench.pauses(bench.mib(5.0), 2, 4.0, 0.3, 132)
    small = bench.pauses(bench.mib(1.0), 12, 0.1, 0.4, 32)
    bench.make_room(6)
    seconds = {}
    for way in OPTIONS:
        played = bench.play(way, [large] * 3 + [small] * 3)
        seconds[way] = round(played.seconds, 2)
        trial.check(f"mix, {way}: all right", played.all_right(), played.figure())
    saved = 1 - seconds["ours"] / seconds["wait-only"]
    trial.check("mix: shorter than wait-only", saved >= 0.1,
                {"bar": 0.1, "saved": round(saved, 3), "by flexgpu": round(1 - seconds["flexgpu"] / seconds["wait-only"], 3),
                 "seconds": seconds})


def order(trial, bench):
    """Three processes, no two of which fit together, come one after another, fill their memory, and launch a kernel after a
    host phase: the kernels end in the order in which the processes came."""
    program = bench.pauses(bench.mib(7.0), 1, 3.0, 0.5, 132)
    bench.make_room(3)
    for way in SWAPPING:
        played = bench.play(way, [program] * 3, apart=bench.seconds(0.3))
        ends = [instance.rounds()[-1] if instance.rounds() else None for instance in played.instances]
        in_order = None not in ends and ends == sorted(ends)
        trial.check(f"order, {way}: K1, K2 and K3 end in this order", played.all_right() and in_order,
                    {"ends": [end and round(end, 2) for end in ends], **played.figure()})


def deadlock(trial, bench):
    """FlexGPU's four processes at half their size: together they hold nearly everything, and each asks for more than is
    left. `growth.py` has them at their full size."""
    share = 0.5
    for way in SWAPPING:
        bench.make_room(4, share)
        barrier = trial.folder / f"barrier-{way}"
        barrier.mkdir(exist_ok=True)
        sizes = [(bench.bytes(hold * share), bench.bytes(more * share)) for hold, more in DEADLOCK]
        programs = [["grow", hold, more, "--barrier", barrier, len(DEADLOCK)] for hold, more in sizes]
        played = bench.play(way, programs)
        trial.check(f"deadlock, {way}: all four end right", played.all_right(), played.figure())


def lists(trial, bench):
    """Pointer lists in device memory, evicted as a whole between any two kernels."""
    rounds = 10
    for name, program, least, every in [
            ("separate nodes", ["hidden", 1000, 1000, rounds, 60], rounds, 10),
            ("rows and a list turned around", ["lists", 4000, 2000], 1, 1)]:
        trace = trial.folder / f"trace-{program[0]}"
        played = bench.play("ours", [program], MGB_EVICT_EVERY=every, MGB_TRACE=trace)
        swaps = played.swaps(trace)
        trial.check(f"lists, {name}: right, and evicted after every kernel", played.all_right() and swaps >= least,
                    {"evictions": swaps, "at least": least, **played.figure()})


def hidden(trial, bench):
    """Kernels that reach their memory only through a pointer that another kernel has stored, in two programs of which one
    fits: what no launch names leaves and comes back all the same."""
    nodes = 7
    words = bench.bytes(1.0) // 8 - 2
    bench.make_room(2)
    for way in SWAPPING:
        trace = trial.folder / f"trace-hidden-{way}"
        played = bench.play(way, [["hidden", nodes, words, 1, bench.ms(3.0)]] * 2, apart=bench.seconds(0.2), MGB_TRACE=trace)
        swaps = played.swaps(trace)
        trial.check(f"hidden, {way}: right, and evicted", played.all_right() and swaps > 0,
                    {"evictions": swaps, **played.figure()})


ROWS = {row.__name__: row for row in (instances, busy, mix, order, deadlock, lists, hidden)}


def names(text):
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in ROWS]
    if unknown:
        raise ValueError(f"no row {unknown[0]}")
    return chosen


def main():
    names.__name__ = f"list of rows out of {', '.join(ROWS)}"
    trial = Trial("flexgpu", __doc__, lambda parser: (
        parser.add_argument("--only", type=names, default=list(ROWS), metavar="NAME,...",
                            help=f"rows to play, out of {', '.join(ROWS)} (default: all)"),
        parser.add_argument("--room", type=float, default=USUAL_ROOM,
                            help="GiB of the GPU for the programs; all sizes follow it (default 12)"),
        parser.add_argument("--pace", type=float, default=1.0, help="a factor on all pauses and kernels (default 1)"),
        parser.add_argument("--context", type=float, default=CONTEXT, help=f"MiB of a context (default {CONTEXT})"),
        parser.add_argument("--server", type=float, default=SERVER, help=f"MiB of MPS's server (default {SERVER})"),
        parser.add_argument("--probe-steps", type=int, default=500,
                            help="steps by which a kernel's speed is measured (default 500)"),
        parser.add_argument("--row-limit", type=float, default=75, help="seconds after which a row's programs are stopped")))
    bench = Bench(trial)
    trial.result["rows"] = {}
    for name in trial.arguments.only:
        began = time.monotonic()
        try:
            ROWS[name](trial, bench)
        except Exception:
            trial.check(f"{name}: played to its end", False, traceback.format_exc()[-2000:])
        except SystemExit as ended:
            # `Trial` says so what it lacks; anything else is a signal.
            if not isinstance(ended.code, str):
                raise
            trial.check(f"{name}: played to its end", False, ended.code)
        bench.clear()
        trial.result["rows"][name] = round(time.monotonic() - began, 1)
        print(f"  {name}: {trial.result['rows'][name]} s", flush=True)
    trial.finish()


main()

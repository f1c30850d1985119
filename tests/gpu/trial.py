"""What the trials on real GPUs share: the bundle, processes that never outlive a trial, NVML, and results.

Only Python's own library is used, so that a machine with a driver, CUDA and python3 can run every trial from the
bundle as it is.
"""

import argparse
import atexit
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30
MIB = 1 << 20


class Trial:
    """One trial: its arguments, its folder, its processes, its result."""

    def __init__(self, name, describe, add_arguments=lambda parser: None):
        here = pathlib.Path(__file__).resolve().parent
        parser = argparse.ArgumentParser(prog=name, description=describe)
        parser.add_argument("--prefix", type=pathlib.Path, default=find_prefix(here),
                            help="folder with bin/mgb (default: found above this script)")
        parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder for the results")
        parser.add_argument("--limit", type=float, default=540, help="seconds after which the trial gives up")
        parser.add_argument("--gpu", help="the only GPU that it uses, by its number (default: all, or what it needs)")
        add_arguments(parser)
        self.arguments = parser.parse_args()
        self.name = name
        self.prefix = self.arguments.prefix
        if self.prefix is None or not (self.prefix / "bin/mgb").exists():
            sys.exit(f"{name}: no bin/mgb found: give --prefix")
        self.start = time.monotonic()
        self.running = []
        self.daemon = None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mgb-trial-"))
        self.result = {"trial": name, "machine": machine(), "checks": []}
        atexit.register(self.clean_up)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(1))

    # Programs.

    def example(self, name, plain=False):
        """The path of an example, plain or built with MGB."""
        program = self.prefix / "examples" / ("plain" if plain else "mgb") / name
        if not program.exists():
            sys.exit(f"{self.name}: {program} is missing: run `make examples`, or take the whole bundle")
        return str(program)

    def environment(self, **more):
        """The environment of every program: this trial's mgbd, CUDA's libraries, nobody else's settings."""
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("MGB", "SOFTGPU", "CUDA_MPS")) and k != "CUDA_VISIBLE_DEVICES"}
        environment["MGB_SOCKET"] = str(self.folder / "mgbd.sock")
        if self.arguments.gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = self.arguments.gpu
        # The bundle has CUDA's runtime in lib/, a staged prefix has it in cuda/.
        candidates = (self.prefix / "lib", self.prefix / "cuda/lib64", "/usr/local/cuda/lib64")
        libraries = [str(p) for p in candidates if (pathlib.Path(p) / "libcudart.so.13").exists()]
        libraries += [p for p in [environment.get("LD_LIBRARY_PATH")] if p]
        environment["LD_LIBRARY_PATH"] = ":".join(libraries)
        environment.update({k: str(v) for k, v in more.items()})
        return environment

    def front(self, **more):
        """The environment of a program that was not built with MGB and is shared by the driver front."""
        environment = self.environment(MGB="require", **more)
        environment["LD_LIBRARY_PATH"] = f"{self.prefix / 'lib/front'}:{environment['LD_LIBRARY_PATH']}"
        return environment

    def spawn(self, command, env=None, **options):
        """Starts a program in a process group of its own; it ends with the trial at the latest."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([str(word) for word in command], env=env or self.environment(), text=True,
                                   start_new_session=True, cwd=self.folder, **options)
        self.running.append(process)
        return process

    def run(self, command, env=None, timeout=None):
        """Runs a program to its end: its exit code, output, errors and seconds."""
        began = time.monotonic()
        process = self.spawn(command, env)
        try:
            output, errors = process.communicate(timeout=timeout or self.left())
        except subprocess.TimeoutExpired:
            kill_group(process)
            output, errors = process.communicate()
            errors += f"\n{self.name}: stopped after {timeout or self.arguments.limit} s"
        self.running.remove(process)
        return {"code": process.returncode, "stdout": output, "stderr": errors, "seconds": time.monotonic() - began}

    def left(self):
        """Seconds left of the limit."""
        return max(1.0, self.arguments.limit - (time.monotonic() - self.start))

    def mgbd(self, policy="mgb", mps=True, options=(), before=(), **more):
        """Starts an mgbd of this trial's own, perhaps with further options or `before` it a program that starts it,
        and waits until it answers."""
        log = open(self.folder / f"mgbd-{policy.replace(':', '-')}.log", "a")
        command = [*before, self.prefix / "bin/mgbd", "--policy", policy, *options] + ([] if mps else ["--no-mps"])
        self.daemon = self.spawn(command, self.environment(**more), stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while self.run([self.prefix / "bin/mgb", "status"], timeout=10)["code"] != 0:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{self.name}: mgbd did not come up:\n" + pathlib.Path(log.name).read_text())
            time.sleep(0.05)
        return self.daemon

    def as_unit(self):
        """What starts mgbd with as few rights as its unit leaves it: its capabilities, and a network of its own."""
        places = (self.prefix / "systemd/mgbd.service", pathlib.Path(__file__).parents[2] / "systemd/mgbd.service")
        unit = next(place for place in places if place.exists()).read_text().splitlines()
        lines = [line.partition("=")[2] for line in unit if line.startswith("CapabilityBoundingSet=")]
        left = [name.removeprefix("CAP_").lower() for line in lines for name in line.split()]
        inside = 'mount -t proc -o hidepid=invisible proc /proc && exec setpriv "$@"'
        return ["unshare", "--mount", "--net", "sh", "-c", inside, "sh", "--bounding-set=-all,+" + ",+".join(left),
                "--inh-caps=-all", "--no-new-privs"]

    def stop_mgbd(self):
        """Stops it as a user would, so that it stops its MPS as well."""
        if self.daemon is None:
            return
        self.daemon.terminate()
        try:
            self.daemon.wait(20)
        except subprocess.TimeoutExpired:
            kill_group(self.daemon)
        self.running.remove(self.daemon)
        self.daemon = None

    def until(self, holds, seconds=20):
        """Waits for a condition; whether it holds then."""
        deadline = time.monotonic() + seconds
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.02)
        return holds()

    def status(self):
        """What `mgb status --json` says."""
        return json.loads(self.run([self.prefix / "bin/mgb", "status", "--json"], timeout=10)["stdout"])

    def ballast(self, leave, gpu=None):
        """Makes memory short: all but `leave` bytes of every GPU, or of one, are taken by a plain program."""
        command = [self.example("ballast", plain=True), str(int(leave))] + ([] if gpu is None else [str(gpu)])
        process = self.spawn(command, stdin=subprocess.PIPE)
        line = process.stdout.readline()
        if "ready" not in line:
            sys.exit(f"{self.name}: ballast failed: {process.communicate()[1]}")
        return process

    def clean_up(self):
        """Ends whatever still runs; mgbd by its own way first."""
        self.stop_mgbd()
        for process in self.running:
            kill_group(process)
        for process in self.running:
            process.wait()
        self.running = []

    # Results.

    def check(self, what, right, figure=None):
        """Records a check and prints it."""
        self.result["checks"].append({"what": what, "right": bool(right), "figure": figure})
        print(f"{'ok   ' if right else 'WRONG'} {what}" + ("" if figure is None else f": {figure}"), flush=True)

    def save(self):
        """Writes the result as far as it is there."""
        self.result["seconds"] = round(time.monotonic() - self.start, 1)
        self.result["mgbd"] = {log.stem: log.read_text()[-100_000:].splitlines()
                               for log in sorted(self.folder.glob("mgbd-*.log"))}
        self.arguments.out.mkdir(parents=True, exist_ok=True)
        (self.arguments.out / f"{self.name}.json").write_text(json.dumps(self.result, indent=1) + "\n")

    def finish(self):
        """Writes the result and ends with 0 if every check was right."""
        wrong = [c["what"] for c in self.result["checks"] if not c["right"]]
        self.save()
        print(f"{self.name}: {len(self.result['checks']) - len(wrong)} checks right, {len(wrong)} wrong, "
              f"{self.result['seconds']} s", flush=True)
        sys.exit(1 if wrong else 0)


def find_prefix(start):
    """The folder above `start` that has bin/mgb, or a build/ or dist/mgb-bundle with it."""
    for folder in (start, *start.parents):
        for candidate in (folder, folder / "dist/mgb-bundle", folder / "build"):
            if (candidate / "bin/mgb").exists():
                return candidate
    return None


def kill_group(process):
    """SIGKILL to a process and all it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def machine():
    """GPUs and driver, as text."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=30).stdout.strip().splitlines()
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"nvidia-smi: {error}"]


class Nvml:
    """The few NVML calls that trials need, quick enough to poll every millisecond."""

    class Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("compute", ctypes.c_uint)]

    class Utilization(ctypes.Structure):
        _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self.gpus = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
            self.gpus.append(handle)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} failed with {code}")

    def used(self, gpu):
        memory = Nvml.Memory()
        self.call("nvmlDeviceGetMemoryInfo", self.gpus[gpu], ctypes.byref(memory))
        return memory.used

    def free(self, gpu):
        memory = Nvml.Memory()
        self.call("nvmlDeviceGetMemoryInfo", self.gpus[gpu], ctypes.byref(memory))
        return memory.free

    def processes(self, gpu):
        """Who computes on a GPU: (pid, bytes), as many as 256."""
        count, entries = ctypes.c_uint(256), (Nvml.Process * 256)()
        self.call("nvmlDeviceGetComputeRunningProcesses_v3", self.gpus[gpu], ctypes.byref(count), entries)
        return [(entry.pid, entry.used) for entry in entries[:count.value]]

    def busy(self, gpu):
        """Percent of the last sample period in which a kernel ran."""
        rates = Nvml.Utilization()
        self.call("nvmlDeviceGetUtilizationRates", self.gpus[gpu], ctypes.byref(rates))
        return rates.gpu

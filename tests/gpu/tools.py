#!/usr/bin/env python3
"""NVIDIA's tools on programs built with MGB: compute-sanitizer's memcheck is clean over the examples wherever it is on the
plain ones, cuda-gdb stops in a kernel and shows where, ncu sees a kernel. Each beside the plain program. A tool that the
machine lacks, or that does not work on the plain program, is left out with a word."""

import pathlib
import re
import shutil

from trial import Trial

EXAMPLES = ["vecadd", "chain", "twotasks", "init_run", "init_run_split", "stencil", "reduce", "unwinding", "grow", "symbol",
            "streams", "structs", "lists", "heap", "bfs", "many", "matmul", "scan", "shapes", "threads", "pitched", "managed",
            "graph", "devices", "workspace", "phases", "hidden"]
KERNEL = re.compile(r"^__global__ void (?:__\w+\(.*?\) )?(\w+)\(", re.M)


def tool(name):
    """Where a tool is, or None."""
    found = shutil.which(name) or next((str(path) for path in pathlib.Path("/usr/local/cuda/bin").glob(name)), None)
    return found or next((str(path) for path in sorted(pathlib.Path("/opt/nvidia").glob(f"*/*/{name}"))), None)


def source_of(trial, name):
    folder = trial.prefix / "examples"
    return folder / f"{name}.cu" if (folder / f"{name}.cu").exists() else folder / name / "main.cu"


def arguments_of(trial, name):
    """The first case that the source names."""
    line = re.search(r"^//#Args: *(.*)$", source_of(trial, name).read_text(), re.M)
    return [word.split("=", 1)[1] for word in line.group(1).split()] if line else []


def both(trial, command, name, timeout):
    """The tool on the plain program and on the one built with MGB."""
    ways = (("plain", {"MGB": "off"}), ("mgb", {"MGB": "require"}))
    return [trial.run(command + [trial.example(name, plain=way == "plain")] + arguments_of(trial, name), timeout=timeout,
                      env=trial.environment(**more)) for way, more in ways]


def memcheck(trial):
    path = tool("compute-sanitizer")
    if path is None:
        return left_out(trial, "compute-sanitizer", "not on this machine")
    command = [path, "--tool", "memcheck", "--error-exitcode", "99"]
    for name in EXAMPLES:
        plain, shared = both(trial, command, name, 60)
        if "ERROR SUMMARY: 0 errors" not in plain["stdout"] + plain["stderr"] or plain["code"] != 0:
            left_out(trial, f"memcheck {name}", f"not clean natively: {(plain['stdout'] + plain['stderr'])[-400:]}")
            continue
        text = shared["stdout"] + shared["stderr"]
        clean = shared["code"] == 0 and "ERROR SUMMARY: 0 errors" in text and "PASS" in text
        trial.check(f"memcheck {name}: clean under MGB as natively", clean,
                    {"code": shared["code"], "seconds": [round(run["seconds"], 1) for run in (plain, shared)],
                     **({} if clean else {"said": text[-3000:]})})


def debugger(trial):
    path = tool("cuda-gdb")
    if path is None:
        return left_out(trial, "cuda-gdb", "not on this machine")
    kernel = KERNEL.search(source_of(trial, "vecadd").read_text()).group(1)
    command = [path, "--batch", "-nx", "-ex", "set breakpoint pending on", "-ex", f"break {kernel}", "-ex", "run", "-ex",
               "backtrace", "-ex", "info cuda kernels", "-ex", "kill", "-ex", "quit", "--args"]
    stops = lambda run: re.search(rf"^#0 .*\b{kernel}\b", run["stdout"], re.M) and "Kernel" in run["stdout"]
    compare(trial, f"cuda-gdb stops in {kernel}", both(trial, command, "vecadd", 90), stops)


def profiler(trial):
    path = tool("ncu")
    if path is None:
        return left_out(trial, "ncu", "not on this machine")
    kernel = KERNEL.search(source_of(trial, "vecadd").read_text()).group(1)
    command = [path, "--metrics", "sm__cycles_elapsed.max"]
    seen = lambda run: run["code"] == 0 and kernel in run["stdout"] and "sm__cycles_elapsed.max" in run["stdout"]
    compare(trial, f"ncu measures {kernel}", both(trial, command, "vecadd", 90), seen)


def compare(trial, what, runs, right):
    plain, shared = runs
    if not right(plain):
        return left_out(trial, what, f"it does not natively: {(plain['stdout'] + plain['stderr'])[-1500:]}")
    good = bool(right(shared))
    trial.check(f"{what} under MGB as natively", good,
                None if good else {"code": shared["code"], "said": (shared["stdout"] + shared["stderr"])[-3000:]})


def left_out(trial, what, why):
    trial.result.setdefault("left out", {})[what] = why
    print(f"left out: {what}: {why}", flush=True)


def main():
    trial = Trial("tools", __doc__, lambda parser: parser.add_argument(
        "--only", nargs="*", choices=["ncu", "cuda-gdb", "memcheck"], help="tools to try (default: all)"))
    wanted = trial.arguments.only or ["ncu", "cuda-gdb", "memcheck"]
    # The profiler needs the GPU's counters for itself, as it does of plain programs: no MPS.
    if "ncu" in wanted:
        trial.mgbd(mps=False)
        profiler(trial)
        trial.stop_mgbd()
    trial.mgbd()
    if "cuda-gdb" in wanted:
        debugger(trial)
    if "memcheck" in wanted:
        memcheck(trial)
    trial.check("at least one tool ran", bool(trial.result["checks"]))
    trial.finish()


main()

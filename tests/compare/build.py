"""Builds one program with one compiler, in that compiler's copy of the folder, and says what became of it."""

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

# What a compiler writes when it crashes, or when the pass gave up.
CRASHES = ("PLEASE submit a bug report", "PLEASE ATTACH THE FOLLOWING FILES", "panicked at", "Stack dump:",
           "frontend command failed due to signal", "unable to execute command: Aborted")
LAST_LINES = 12


class Compiler:
    """One of the two compilers, with its copy of the programs and its folder of tools."""

    def __init__(self, name, words, work, options, flags=()):
        self.name = name
        self.words = words
        self.copy = work / name
        self.tools = work / f"{name}-cuda"
        self.options = options
        self.flags = [*options.flag, *flags]

    def prepare(self, source):
        """A clean copy of the folder, and a CUDA tree whose nvcc is the front of this compiler."""
        for folder in (self.copy, self.tools):
            if folder.exists():
                shutil.rmtree(folder)
        shutil.copytree(source, self.copy, symlinks=True)
        (self.tools / "bin").mkdir(parents=True)
        (self.tools / "lib").mkdir()
        for entry in self.options.cuda.iterdir():
            if entry.name not in ("bin", "lib", "lib64"):
                (self.tools / entry.name).symlink_to(entry)
        for library in (self.options.cuda / "lib64").iterdir():
            (self.tools / "lib" / library.name).symlink_to(library)
        # The driver's library is no part of a toolkit; the software GPU's is enough to link with.
        for library, name in (("libcuda.so.1", "libcuda.so"), ("libcudart.so.13", "libcudart.so")):
            if not (self.tools / "lib" / name).exists():
                (self.tools / "lib" / name).symlink_to(self.options.prefix / "lib/softgpu" / library)
        (self.tools / "lib64").symlink_to("lib")
        front = pathlib.Path(__file__).resolve().parent / "front.py"
        tools = {"nvcc": [sys.executable, "-E", "-S", str(front)]}
        # The host's compilers too: what MGB has compiled needs its runtime, which the one that links brings.
        hosts = {"clang": "", "clang++": "++", "gcc": "", "g++": "++", "cc": "", "c++": "++"}
        if not self.options.nvcc:
            tools |= {name: tools["nvcc"] for name in hosts}
        elif self.name != "plain":
            tools |= {name: [f"{self.options.prefix}/bin/mgb-clang{end}"] for name, end in hosts.items()}
        for name, words in tools.items():
            tool = self.tools / "bin" / name
            tool.write_text(f"#!/bin/sh\nexec {shlex.join(words)} \"$@\"\n")
            tool.chmod(0o755)

    def environment(self, record):
        """The environment of a build."""
        settings = {"compiler": self.words, "nvcc": self.options.nvcc, "cuda": str(self.options.cuda),
                    "arch": self.options.arch, "flags": self.flags, "headers": self.options.headers,
                    "libraries": str(self.tools / "lib"),
                    "record": str(record)}
        return {**os.environ, "COMPARE": json.dumps(settings), "PATH": f"{self.tools}/bin:{os.environ['PATH']}",
                "CUDA_PATH": str(self.options.cuda), "LC_ALL": "C"}

    def command(self, program):
        """What builds a program."""
        if program.source:
            return ["nvcc", "-O2", program.source, "-o", pathlib.Path(program.source).stem]
        values = {"compiler": f"{self.tools}/bin/nvcc", "cuda": str(self.tools)}
        settings = [setting.format(**values) for setting in self.options.set]
        return ["make", "-B", f"-j{self.options.jobs}", *settings, *self.options.target]


def build(program, compiler, core):
    """Builds; the result is a dictionary for the table."""
    folder = compiler.copy / program.folder
    record = compiler.copy.parent / f"{compiler.name}.record"
    record.unlink(missing_ok=True)
    log, code = run(compiler.command(program), folder, compiler.environment(record), compiler.options.limit, core)
    runs = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    crash = next((line for line in log.splitlines() if any(mark in line for mark in CRASHES)), None)
    if crash is None and any(entry["rc"] < 0 for entry in runs):
        crash = f"signal {-next(entry['rc'] for entry in runs if entry['rc'] < 0)}"
    compiled = any(entry["compiles"] and entry["rc"] == 0 for entry in runs)
    result = {"built": code == 0 and compiled, "rc": code, "crash": crash,
              "cpu_s": sum(entry["cpu_s"] for entry in runs if entry["compiles"]),
              "outputs": [entry["output"] for entry in runs
                          if entry["compiles"] and entry["cuda"] and entry["rc"] == 0 and entry["output"]],
              "linked": [entry["output"] for entry in runs
                         if not entry["compiles"] and entry["rc"] == 0 and entry["output"]]}
    if not result["built"]:
        if code == 0:
            log += "\nmake ended well and compiled nothing\n"
        result["log"] = log.splitlines()[-LAST_LINES:]
    result["errors"] = [line for line in log.splitlines() if "error:" in line or "undefined reference" in line][:4]
    return result


def run(command, folder, environment, limit, core=None):
    """Runs a command with a time limit in a process group of its own: what it wrote, and its exit code."""
    try:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, errors="replace", start_new_session=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, {core})) if core is not None else None)
    except OSError as error:
        return f"{command[0]}: {error}", 127
    try:
        log, _ = process.communicate(timeout=limit)
        return log, process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        log, _ = process.communicate()
        return f"{log}\nended after {limit} s", 124

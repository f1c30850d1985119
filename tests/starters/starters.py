#!/usr/bin/env python3
"""Programs that others start, on two software GPUs: GNU parallel, Snakemake, and Ray with two nodes. `make starters-test` brings
them from Debian and PyPI. Each starts more than two GPUs have room for: all are right, and had their room from mgbd."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
BUILT = Path(os.environ.get("MGB_PREFIX", REPOSITORY / "build"))
PHASES = BUILT / "examples/mgb/phases"
# Twelve of 24 MiB for two GPUs of 64 MiB.
JOBS = 12
SECONDS = 180


class Node:
    """An mgbd of two software GPUs, and the environment of those who use it."""

    def __init__(self, folder, tools):
        self.folder = folder
        private = folder / "socket"
        private.mkdir(mode=0o700)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MGB", "SOFTGPU", "CUDA"))}
        self.environment = kept | {
            "PATH": f"{BUILT}/bin:{tools}/bin:{kept['PATH']}",
            "MGB_PREFIX": str(BUILT),
            "MGB_SOCKET": str(private / "mgbd.sock"),
            "SOFTGPU_DEVICES": "2x64MiB",
            "SOFTGPU_STATE": str(folder / "softgpu.state"),
            "LD_LIBRARY_PATH": str(BUILT / "lib/softgpu"),
            "MGB": "require",
            "RAY_AUTH_MODE": "disabled",
        }
        self.log = (folder / "mgbd.log").open("w")
        self.mgbd = subprocess.Popen(["mgbd"], env=self.environment, stderr=self.log, stdout=self.log)
        while not (private / "mgbd.sock").exists():
            if self.mgbd.poll() is not None:
                sys.exit(f"starters: mgbd does not start: {(folder / 'mgbd.log').read_text()}")
            time.sleep(0.05)

    def run(self, command):
        """What a command prints; it ends well, and in time."""
        done = subprocess.run(command, cwd=self.folder, env=self.environment, timeout=SECONDS, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise AssertionError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout

    def granted(self):
        """How many tasks mgbd has given room to until now."""
        status = subprocess.run(["mgb", "status", "--json"], env=self.environment, check=True, stdout=subprocess.PIPE)
        return json.loads(status.stdout)["counts"]["granted"]

    def end(self):
        self.mgbd.terminate()
        self.mgbd.wait()
        self.log.close()


def expect(said, wanted, what):
    if said != wanted:
        raise AssertionError(f"{what}: {said}, not {wanted}")


def parallel(node):
    command = ["parallel", "-j", str(JOBS), "mgb", "run", "--", str(PHASES), "24", "4", "50", "wait", "10", "{}", ":::"]
    said = node.run(command + [str(1 + nth % 8) for nth in range(JOBS)])
    expect(said.count("PASS"), JOBS, "programs that are right")
    return JOBS


def snakemake(node):
    (node.folder / "Snakefile").write_text(
        f"rule all:\n    input: expand('out/{{n}}.txt', n=range({JOBS}))\n"
        "rule one:\n    output: 'out/{n}.txt'\n"
        f"    shell: 'mgb run -- {PHASES} 24 4 50 wait 10 8 > {{output}}'\n")
    node.run(["snakemake", "-j", str(JOBS), "--quiet", "all"])
    right = [path for path in (node.folder / "out").iterdir() if path.read_text().endswith("PASS\n")]
    expect(len(right), JOBS, "programs that are right")
    return JOBS


def ray(node):
    said = node.run(["python", str(HERE / "on_ray.py"), str(JOBS)])
    done = json.loads(said.strip().splitlines()[-1])
    expect(len(done["right"]), JOBS, "tasks that are done")
    expect(all(done["right"]), True, "tasks that are right")
    expect(done["nodes"], 2, "nodes of Ray's with tasks")
    if done["at_once"] > 5:
        raise AssertionError(f"{done['at_once']} tasks at once, where the resource has room for five")
    # Its processes do one task after the other, and keep their place for the next.
    return done["processes"]


PARTS = {"parallel": parallel, "snakemake": snakemake, "ray": ray}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, required=True, help="a virtual environment with snakemake and ray")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="these alone")
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.parts or PARTS:
        folder = Path(tempfile.mkdtemp(prefix="mgb-starters-"))
        node = Node(folder, arguments.tools.resolve())
        began, before = time.monotonic(), node.granted()
        try:
            programs = PARTS[name](node)
            granted = node.granted() - before
            if granted < programs:
                raise AssertionError(f"mgbd gave room {granted} times: {programs} programs ran")
            print(f"ok      {name}: {JOBS} jobs in {programs} processes on two GPUs, {time.monotonic() - began:.1f} s", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"FAILED  {name}: {error}\n        its files are in {folder}", flush=True)
        finally:
            node.end()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Builds a folder of CUDA programs with a plain compiler and with MGB, and tables what differs.

A program is a folder with a makefile and CUDA sources, or a single .cu file where there is no makefile. Each is built in
a clean copy of the whole folder (one copy for each compiler). The makefiles see a CUDA tree of their own, first in PATH
and as {cuda}, whose bin/nvcc (as {compiler}) takes nvcc's command line or clang's and hands it to the compiler under
test; so both compilers are given the same words. So do gcc, g++, cc and c++ in PATH, with which makefiles link.

  compare.py ~/suite --set CUDA_DIR={cuda}
  compare.py ~/suite --match '*-cuda' --set CC={compiler} --every 3 --json out.json
  compare.py ~/suite --set CC={compiler} --nvcc --plain /usr/local/cuda/bin/nvcc --own '{prefix}/bin/mgb-nvcc --keep-nvcc'
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import sys
import tempfile

import build
import programs
import running
import sites
import table


def arguments():
    """The command line."""
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(prog="compare.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="the folder of programs; it is only read")
    parser.add_argument("--prefix", type=pathlib.Path, help="folder with bin/mgb-clang++ (default: build/)",
                        default=pathlib.Path(os.environ.get("MGB_PREFIX") or root / "build"))
    parser.add_argument("--plain", default=os.environ.get("MGB_CLANG") or "clang-22",
                        help="the plain compiler and words for it (default: $MGB_CLANG, else clang-22)")
    parser.add_argument("--own", default="{prefix}/bin/mgb-clang",
                        help="MGB's compiler and words for it (default: {prefix}/bin/mgb-clang)")
    parser.add_argument("--nvcc", action="store_true", help="both take nvcc's own words, and get those of the makefiles")
    parser.add_argument("--cuda", type=pathlib.Path, help="the CUDA toolkit (default: that of the prefix)")
    parser.add_argument("--arch", default="sm_90", help="the GPU compiled for (default: sm_90)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a variable of the makefiles; {compiler} and {cuda} are filled in")
    parser.add_argument("--target", action="append", default=[], help="make this target (default: the first)")
    parser.add_argument("--flag", action="append", default=[], help="one more word for both compilers")
    parser.add_argument("--own-flag", action="append", default=[], help="one more word for MGB's compiler alone")
    parser.add_argument("--match", action="append", default=[], metavar="GLOB", help="only programs named so")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth program")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with the Nth, from 0 (default: 0)")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="make's -j (default: 1)")
    parser.add_argument("--core", type=int, help="the core that compiles (default: the highest)")
    parser.add_argument("--limit", type=float, default=300, help="seconds for each build (default: 300)")
    parser.add_argument("--work", type=pathlib.Path, help="folder for the copies; kept (default: a fresh one, removed)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all figures; after every program anew")
    run = parser.add_argument_group("running", "natively and under MGB, on software GPUs")
    run.add_argument("--run", action="store_true", help="run each program that builds: its makefile's target run")
    run.add_argument("--commands", type=pathlib.Path, metavar="FILE",
                     help="how to run, a line each: NAME, a tab, a shell command; programs not named are not run")
    run.add_argument("--run-limit", type=float, default=120, help="seconds for each run (default: 120)")
    run.add_argument("--tolerance", type=float, default=1e-5, help="for numbers in outputs, relative and absolute")
    run.add_argument("--ignore", action="append", default=[], metavar="REGEX", help="lines that may differ (times)")
    run.add_argument("--devices", default="1x4GiB", help="the software GPUs (default: 1x4GiB)")
    options = parser.parse_args()
    options.prefix = options.prefix.resolve()
    options.cuda = (options.cuda or options.prefix / "cuda").resolve()
    options.headers = [str(options.prefix / "share/empty")]
    if options.core is None and options.jobs == 1:
        options.core = max(os.sched_getaffinity(0))
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder")
    if not (options.prefix / "bin/mgb").exists():
        parser.error(f"{options.prefix} has no bin/mgb: run `make build`, or give --prefix")
    return options


def one(program, plain, ours, options, commands):
    """Everything about one program."""
    entry = {"name": program.name, "plain": build.build(program, plain, options.core)}
    if not entry["plain"]["built"] and not entry["plain"]["crash"]:
        return entry
    entry["mgb"] = build.build(program, ours, options.core)
    if entry["mgb"]["built"]:
        mgb = f"{options.prefix}/bin/mgb"
        # With -flto objects have no reports, and what is linked from them has.
        reports = sites.explain(mgb, entry["mgb"]["outputs"]) or sites.explain(mgb, entry["mgb"]["linked"])
        entry["sites"] = sites.count(reports, options.cuda)
        if options.run and (options.commands is None or program.name in commands):
            entry["run"] = running.run(program, ours, options.prefix, options, commands)
    return entry


def main():
    """Compares, and prints the table. Programs that fail are in the table; they do not end the run."""
    options = arguments()
    found = programs.find(options.folder.resolve(), options.match, options.every, options.first)
    if not found:
        sys.exit(f"compare.py: no programs in {options.folder}")
    commands = {}
    if options.commands:
        for line in options.commands.read_text().splitlines():
            name, tab, command = line.partition("\t")
            if tab:
                commands[name] = command
    work = options.work or pathlib.Path(tempfile.mkdtemp(prefix="compare-"))
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    try:
        plain = build.Compiler("plain", shlex.split(options.plain), work, options)
        own = [word.format(prefix=options.prefix) for word in shlex.split(options.own)]
        ours = build.Compiler("mgb", own, work, options, options.own_flag)
        for compiler in (plain, ours):
            compiler.prepare(options.folder.resolve())
        entries = []
        for number, program in enumerate(found, 1):
            print(f"[{number}/{len(found)}] {program.name}", end="", file=sys.stderr, flush=True)
            try:
                entry = one(program, plain, ours, options, commands)
            except Exception as error:  # One program never ends the run.
                entry = {"name": program.name, "plain": {"built": False, "crash": None, "cpu_s": 0, "outputs": [],
                                                         "errors": [], "log": [f"compare.py: {error!r}"]}}
            entries.append(entry)
            print(f": plain {table.word(entry['plain'])}, MGB {table.word(entry.get('mgb'))}", file=sys.stderr)
            if options.json:
                options.json.write_text(json.dumps({"programs": entries, "totals": table.totals(entries)}, indent=1))
        print(table.show(entries))
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()

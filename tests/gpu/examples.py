#!/usr/bin/env python3
"""Every example, plain and under MGB and with MGB=off: the same output; and the needs, as in tests/tests/e2e/needs.rs:
the formula in the source at the given arguments, the pass's need and what lazyrt saw are one number."""

import ast
import json
import operator
import re

from trial import Trial

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Larger than the sources' own cases, whose sizes are for software GPUs.
LARGE = {
    "vecadd": [{"n": "50000000"}],
    "chain": [{"n": "30000000"}],
    "twotasks": [{"n": "20000000", "m": "10000000"}],
    "init_run": [{"n": "20000000", "repetitions": "20"}],
    "init_run_split": [{"n": "20000000", "repetitions": "20"}],
    "layers": [{"width": "4000", "depth": "40"}],
    "stencil": [{"n": "10000000", "steps": "50"}],
    "reduce": [{"n": "50000000", "repetitions": "20"}],
    "unwinding": [{"n": "10000000", "throw": "1"}, {"n": "10000000", "throw": "0"}],
    "grow": [{"hold": "1GiB", "more": "2GiB"}],
    "symbol": [{"n": "20000000", "rounds": "3"}],
    "streams": [{"n": "50000000", "pieces": "16", "streams": "4"}],
    "structs": [{"rows": "2000000", "entries": "16", "repetitions": "5"}],
    "lists": [{"rows": "2000", "nodes": "500"}],
    "heap": [{"threads": "20000", "nodes": "20", "heap": "64MiB"}],
    "bfs": [{"nodes": "5000000", "edges": "4"}],
    "hidden": [{"nodes": "40", "words": "1000000", "rounds": "4", "pause_ms": "20"}],
    "many": [{"count": "20000", "words": "60"}],
    "matmul": [{"n": "4000"}],
    "scan": [{"n": "50000000"}],
    "shapes": [{"n": "5000000"}],
    "threads": [{"n": "5000000", "repetitions": "20"}],
    "pitched": [{"width": "8001", "height": "6000"}],
    "managed": [{"n": "10000000", "rounds": "4"}],
    "graph": [{"n": "20000000", "launches": "20"}],
    "devices": [{"n": "20000000", "parts": "6"}],
    "workspace": [{"mib": "512", "workspace_mib": "256"}],
    "phases": [{"mib": "1024", "rounds": "3", "host_ms": "50", "kind": "compute", "steps": "20", "blocks": "64"}],
}


def evaluate(formula, values):
    """A formula of sums and products over named values."""
    def walk(node):
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.Constant):
            return node.value
        return number(values[node.id])
    return walk(ast.parse(formula, mode="eval").body)


def number(text):
    for unit, scale in UNITS.items():
        if text.endswith(unit):
            return int(text[:-3]) * scale
    return int(text)


def directives(source):
    """The lines //#Name: value of a source, and its cases as dictionaries."""
    lines = re.findall(r"^//#(\w+): *(.*)$", source.read_text(), re.M)
    cases = [dict(word.split("=", 1) for word in value.split()) for name, value in lines if name == "Args"]
    return cases, [value for name, value in lines if name == "Peak"], [value for name, value in lines if name == "Record"]


def needs_differ(trace, case, peaks, records):
    """What is wrong with a trace, or None."""
    process = json.loads(trace.read_text())
    tasks = process["tasks"]
    expected = sorted(evaluate(peak, case) for peak in peaks)
    if process["open"]:
        # Left to the driver front, which has one lazy task, and charges what libraries take as well.
        found, least = [task["seen_peak"] for task in tasks], sum(expected)
        return None if len(found) == 1 and found[0] >= least else f"seen_peak is {found}, the source says {least} or more"
    for field in ("need_peak", "seen_peak"):
        found = sorted(task[field] for task in tasks if not task["lazy"])
        if found != expected:
            return f"{field} of the static tasks is {found}, the source says {expected}"
    # One lazy task for each device that the program uses: together they have what the source allocates.
    found = sum(task["seen_peak"] for task in tasks if task["lazy"])
    expected = sum(evaluate(record, case) for record in records)
    return None if found == expected else f"the lazy record is {found}, the source allocates {expected}"


def main():
    trial = Trial("examples", __doc__)
    trial.mgbd()
    sources = trial.prefix / "examples"
    for name, large in LARGE.items():
        source = sources / f"{name}.cu" if (sources / f"{name}.cu").exists() else sources / name / "main.cu"
        cases, peaks, records = directives(source)
        for number_of_case, case in enumerate(cases + large):
            arguments = list(case.values())
            trace = trial.folder / f"{name}.{number_of_case}.trace"
            plain = trial.run([trial.example(name, plain=True)] + arguments, timeout=60)
            shared = trial.run([trial.example(name)] + arguments, timeout=60,
                               env=trial.environment(MGB="require", MGB_TRACE=trace))
            off = trial.run([trial.example(name)] + arguments, timeout=60, env=trial.environment(MGB="off"))
            words = " ".join([name] + arguments)
            same = plain["stdout"] == shared["stdout"] == off["stdout"] and plain["stdout"].endswith("PASS\n")
            codes = [plain["code"], shared["code"], off["code"]]
            seconds = [round(r["seconds"], 2) for r in (plain, shared, off)]
            trial.check(f"{words}: same output plain, under MGB, off", same and codes == [0, 0, 0],
                        {"output": plain["stdout"].strip(), "codes": codes, "seconds": seconds,
                         "errors": (plain["stderr"] + shared["stderr"] + off["stderr"])[-2000:]})
            difference = needs_differ(trace, case, peaks, records) if trace.exists() else "no trace"
            trial.check(f"{words}: needs", difference is None, difference)
    trial.finish()


main()

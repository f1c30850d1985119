"""Runs what was built, natively and under MGB, on software GPUs, and compares what the two wrote."""

import json
import math
import os
import re
import shlex
import tempfile

import build

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def differs(one, other, tolerance):
    """The first difference between two outputs, or None: words must be equal, numbers within the tolerance."""
    first, second = one.split(), other.split()
    for a, b in zip(first, second):
        if a == b:
            continue
        x, y = NUMBER.findall(a), NUMBER.findall(b)
        same = NUMBER.sub("#", a) == NUMBER.sub("#", b) and all(
            math.isclose(float(p), float(q), rel_tol=tolerance, abs_tol=tolerance) for p, q in zip(x, y))
        if not same:
            return f"{a} | {b}"
    return None if len(first) == len(second) else f"{len(first)} words | {len(second)} words"


def without(text, patterns):
    """An output without the lines that are never the same, such as times."""
    return "\n".join(line for line in text.splitlines() if not any(re.search(p, line) for p in patterns))


def run(program, compiler, prefix, options, commands):
    """Runs the program that MGB's compiler built, natively and under MGB."""
    folder = compiler.copy / program.folder
    line = commands.get(program.name)
    if line is None and program.source:
        line = "./" + shlex.quote(program.source.removesuffix(".cu"))
    if line is None:
        line = shlex.join([word if word != "-B" else "-s" for word in compiler.command(program)
                           if word not in options.target] + ["run"])
    with tempfile.TemporaryDirectory(prefix="compare-") as scratch:
        trace = os.path.join(scratch, "trace")
        base = {**compiler.environment(os.path.join(scratch, "record")), "MGB_SOFTGPU": "1",
                "SOFTGPU_DEVICES": options.devices, "SOFTGPU_TIME": "off", "MGB_SOCKET": f"{scratch}/mgbd.sock",
                "LD_LIBRARY_PATH": f"{prefix}/lib/softgpu:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        shell = ["sh", "-c", line]
        plain, plain_code = build.run(shell, folder, {**base, "MGB": "off"}, options.run_limit)
        if plain_code != 0:
            return {"state": "fails natively", "log": plain.splitlines()[-build.LAST_LINES:]}
        command = [f"{prefix}/bin/mgb", "run", "--", *shell]
        ours, code = build.run(command, folder, {**base, "MGB": "require", "MGB_TRACE": trace}, options.run_limit)
        result = {"state": "same", "needs": needs(trace)}
    if code != 0:
        result.update(state="fails under MGB", log=ours.splitlines()[-build.LAST_LINES:])
    else:
        difference = differs(without(plain, options.ignore), without(ours, options.ignore), options.tolerance)
        if difference:
            result.update(state="differs", log=[difference])
    return result


def needs(trace):
    """Static tasks' needs against the peaks seen: how many are equal, too high, too low."""
    result = {"equal": 0, "above": 0, "below": 0}
    if not os.path.exists(trace):
        return result
    with open(trace, encoding="utf-8") as lines:
        for line in lines:
            for task in json.loads(line).get("tasks", []):
                if task.get("lazy") or not task.get("site"):
                    continue
                need, seen = task.get("need_peak", 0), task.get("seen_peak", 0)
                result["equal" if need == seen else "above" if need > seen else "below"] += 1
    return result

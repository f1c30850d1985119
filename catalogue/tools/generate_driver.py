#!/usr/bin/env python3
"""Writes catalogue/data/driver.json: what CUDA's driver header declares and what libcuda.so.1 exports.

    generate_driver.py TREE SYMBOLS [OUTPUT]

TREE is a CUDA 13.0 tree (include/). SYMBOLS is what `nm -D --defined-only` prints of an NVIDIA driver's libcuda.so.1:
the driver is no part of CUDA's tree. Only facts are taken: names, types, and which names are exported. A C
preprocessor reads the header in the form in which it declares every version of a function under its own name.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

from generate import FORMS, parameter, version

# Declares all versions, and the forms for per-thread default streams, under the names that the driver exports.
ALL_VERSIONS = "-D__CUDA_API_VERSION_INTERNAL"
PROTOTYPE = re.compile(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;{}]*)\)\s*;")


def fail(message):
    sys.exit(f"generate_driver.py: {message}")


def declared(header):
    compiler = os.environ.get("CC", "cc")
    done = subprocess.run(
        [compiler, "-E", "-P", "-x", "c", ALL_VERSIONS, str(header)], capture_output=True, text=True
    )
    if done.returncode != 0:
        fail(f"{compiler} cannot read {header}:\n{done.stderr}")
    found = {}
    for name, parameters in PROTOTYPE.findall(done.stdout):
        parameters = " ".join(parameters.split())
        listed = [] if parameters in ("", "void") else split(parameters)
        found.setdefault(name, [parameter(p.strip()) for p in listed])
    return found


def split(parameters):
    """Parameters, where a function's type may hold commas itself."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def exported(symbols):
    lines = (line.split() for line in symbols.read_text(encoding="utf-8").splitlines())
    return {words[2].partition("@")[0] for words in lines if len(words) == 3 and words[1] == "T"}


def main():
    if len(sys.argv) not in (3, 4):
        fail("usage: generate_driver.py TREE SYMBOLS [OUTPUT]")
    tree, symbols = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    here = pathlib.Path(__file__).resolve().parent
    output = pathlib.Path(sys.argv[3]) if len(sys.argv) == 4 else here.parent / "data" / "driver.json"
    header = tree / "include" / "cuda.h"
    if not header.is_file():
        fail(f"no include/cuda.h in {tree}")
    if version(tree / "include") != "13.0":
        fail(f"{tree} is CUDA {version(tree / 'include')}; the catalogue is made from 13.0")
    signatures, exports = declared(header), exported(symbols)
    names = signatures.keys() | exports
    rows = []
    for name in sorted(names):
        base = next((name[: -len(form)] for form in FORMS if name.endswith(form)), "")
        row = {
            "name": name,
            "params": signatures.get(name, []),
            "declared": name in signatures,
            "exported": name in exports,
            "base": base if base in names else "",
        }
        rows.append("  " + json.dumps(row))
    text = ",\n".join(rows)
    output.write_text(f'{{"cuda": "13.0", "functions": [\n{text}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()

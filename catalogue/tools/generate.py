#!/usr/bin/env python3
"""Writes catalogue/data/api.json: what CUDA's runtime headers declare and what libcudart exports.

    generate.py TREE [OUTPUT]

TREE is a CUDA 13.0 tree (include/, lib64/). Only facts are taken: names, types, header groups, symbol
versions. The prototypes are read as text, because two of the headers include others (OpenGL, EGL, VDPAU)
that a machine without a display does not have, and because the launch entry points stand in headers that
only compile inside a CUDA compile.
"""

import json
import pathlib
import re
import subprocess
import sys

# The first declaration of a name wins: later ones repeat it for per-thread default streams.
HEADERS = [
    "cuda_runtime_api.h",
    "crt/host_runtime.h",
    "crt/device_functions.h",
    "cuda_gl_interop.h",
    "cuda_egl_interop.h",
    "cuda_vdpau_interop.h",
]
LIBRARY = "libcudart.so.13"
# The suffixes of the entry points for per-thread default streams.
FORMS = ("_ptsz", "_ptds")

GROUP = re.compile(r"\\(?:defgroup|addtogroup)\s+CUDART_(\w+)")
PROTOTYPE = re.compile(r"([^;{}]*?)\bCUDARTAPI(?:_CDECL)?\s+(\w+)\s*\(([^;{}]*)\)\s*;")
QUALIFIERS = re.compile(
    r'\bextern\b|"C"|\b__host__\b|\b__device__\b|\b__cudart_builtin__\b|\b__CUDA_DEPRECATED\b'
)
PARAMETER = re.compile(r"^(?P<type>.*?[\s*])(?P<name>\w+)(?P<array>\[\w*\])?$")


def fail(message):
    sys.exit(f"generate.py: {message}")


def strip(text):
    """Headers without comments and directives; a group's comment leaves a marker that no C has."""

    def comment(match):
        group = GROUP.search(match.group(0))
        return f" @{group.group(1)}; " if group else " "

    text = re.sub(r"/\*.*?\*/", comment, text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    text = text.replace("\\\n", "")
    return re.sub(r"^\s*#.*$", "", text, flags=re.M)


def spell(type_):
    """One spelling for a C type: `const void *const *`."""
    type_ = re.sub(r"\s+", " ", type_).strip()
    return re.sub(r"\s*(\*+)\s*", r" \1", type_).strip()


def parameter(text):
    text = re.sub(r"__dv\([^)]*\)", "", text)
    text = text.split("=")[0].strip()
    match = PARAMETER.match(text)
    if not match:
        return {"name": "", "type": spell(text)}
    type_ = match["type"] + ("*" if match["array"] else "")
    # `unsigned int` and the like, without a name.
    if match["name"] in ("int", "char", "long", "float", "size_t") or type_.strip() in ("enum", "struct"):
        return {"name": "", "type": spell(text)}
    return {"name": match["name"], "type": spell(type_)}


def prototypes(include):
    found = {}
    for header in HEADERS:
        path = include / header
        if not path.is_file():
            fail(f"no {header} in {include}: is it a whole CUDA 13.0 tree?")
        group = ""
        for piece in re.split(r"@(\w+);", strip(path.read_text(encoding="utf-8", errors="replace"))):
            if re.fullmatch(r"[A-Z0-9_]+", piece):
                group = piece
                continue
            for match in PROTOTYPE.finditer(piece):
                front, name, parameters = match.groups()
                if re.search(r"\b(static|template)\b", front):
                    continue
                parameters = " ".join(parameters.split())
                listed = [] if parameters in ("", "void") else parameters.split(",")
                found.setdefault(
                    name,
                    {
                        "name": name,
                        "ret": spell(QUALIFIERS.sub("", front)),
                        "params": [parameter(p.strip()) for p in listed],
                        "header": header,
                        "group": group,
                    },
                )
    return found


def exports(library):
    if not library.is_file():
        fail(f"no {library}")
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", str(library)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    found = {}
    for line in lines:
        _, kind, symbol = line.split()
        if kind == "T":
            name, _, version = symbol.partition("@")
            found[name] = version.lstrip("@")
    return found


def version(include):
    text = (include / "cuda_runtime_api.h").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    number = int(match.group(1)) if match else 0
    return f"{number // 1000}.{number % 1000 // 10}"


def main():
    if len(sys.argv) not in (2, 3):
        fail("usage: generate.py TREE [OUTPUT]")
    tree = pathlib.Path(sys.argv[1])
    here = pathlib.Path(__file__).resolve().parent
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else here.parent / "data" / "api.json"
    include = tree / "include"
    if not (include / "cuda_runtime_api.h").is_file():
        fail(f"no include/cuda_runtime_api.h in {tree}")
    if version(include) != "13.0":
        fail(f"{tree} is CUDA {version(include)}; the catalogue is made from 13.0")

    functions = prototypes(include)
    for name, symbol_version in exports(tree / "lib64" / LIBRARY).items():
        row = functions.setdefault(name, {"name": name, "ret": "", "params": [], "header": "", "group": ""})
        row["version"] = symbol_version
    for name, row in functions.items():
        row.setdefault("version", "")
        base = next((name[: -len(f)] for f in FORMS if name.endswith(f)), "")
        row["base"] = base if base in functions else ""

    # A function a line, so that a change of CUDA shows as a readable diff.
    rows = ",\n".join("  " + json.dumps(functions[name]) for name in sorted(functions))
    output.write_text(
        f'{{"cuda": "13.0", "library": "{LIBRARY}", "functions": [\n{rows}\n]}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes which crates are part of MGB's programs and libraries, with their licences' texts, as these ask for.

    thirdparty.py FILE

The crates are those that `cargo metadata` resolves for the packages that are shipped, without what only tests and build
scripts use. Their texts are those that their own packages bring; a crate without one is named with the licence that its
manifest says.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
# What is shipped is built from these.
SHIPPED = ["mgb", "mgb-scheduler", "mgb-lazyrt", "mgb-front", "mgb-pass", "mgb-spank", "mgb-blas", "softgpu"]
TARGET = "x86_64-unknown-linux-gnu"


def crates():
    """The packages that shipped ones are made of, as cargo describes them, MGB's own among them."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--locked", "--format-version=1", "--filter-platform", TARGET]
    described = json.loads(subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE).stdout)
    packages = {one["id"]: one for one in described["packages"]}
    nodes = {one["id"]: one for one in described["resolve"]["nodes"]}
    members = set(described["workspace_members"])
    wanted = [one for one in members if packages[one]["name"] in SHIPPED]
    missing = set(SHIPPED) - {packages[one]["name"] for one in wanted}
    if missing:
        sys.exit(f"thirdparty: the workspace has no {', '.join(sorted(missing))}: correct SHIPPED in {__file__}")
    found = set()
    while wanted:
        one = wanted.pop()
        if one in found:
            continue
        found.add(one)
        for edge in nodes[one]["deps"]:
            is_linked = any(kind["kind"] is None for kind in edge["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in packages[edge["pkg"]]["targets"])
            if is_linked and not is_macro:
                wanted.append(edge["pkg"])
    return sorted((packages[one] for one in found), key=lambda one: (one["name"], one["version"])), members


def texts(package):
    """The files of a crate that have its licences."""
    folder = Path(package["manifest_path"]).parent
    names = ("licen", "copying", "notice", "unlicense", "copyright")
    found = [path for path in folder.iterdir() if path.is_file() and path.name.lower().startswith(names)]
    if package["license_file"]:
        found.append(folder / package["license_file"])
    return sorted(set(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    arguments = parser.parse_args()
    packages, members = crates()
    others = [one for one in packages if one["id"] not in members]
    lines = ["MGB's programs and libraries contain parts of these Rust crates, and of Rust's standard library", "(MIT OR Apache-2.0).", ""]
    lines += [f"{one['name']} {one['version']}: {one['license'] or 'see its text'}" for one in others]
    users = {}
    for one in others:
        for path in texts(one):
            text = path.read_text(errors="replace").strip()
            users.setdefault(text, []).append(f"{one['name']} {one['version']}")
    for text, names in sorted(users.items(), key=lambda item: (-len(item[1]), item[1])):
        lines += ["", "=" * 80, f"Of {', '.join(dict.fromkeys(names))}:", "", text]
    Path(arguments.file).write_text("\n".join(lines) + "\n")
    print(f"thirdparty: {len(others)} crates, {len(users)} texts in {arguments.file}")


if __name__ == "__main__":
    main()

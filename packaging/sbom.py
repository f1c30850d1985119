#!/usr/bin/env python3
"""Writes which crates are part of MGB's programs and libraries, for machines (CycloneDX 1.6, JSON).

    sbom.py FILE

The crates are those of thirdparty.py, with the sums that Cargo.lock has of them, and what each is made of. The same sources
make the same bytes.
"""
import argparse
import datetime
import json
import os
import tomllib
from pathlib import Path

from thirdparty import HERE, crates


def name_of(package):
    """What machines call a crate."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, sums):
    """A crate, as the list has it."""
    described = {
        "type": "library",
        "bom-ref": name_of(package),
        "name": package["name"],
        "version": package["version"],
        "purl": name_of(package),
    }
    if package["license"]:
        # Older manifests separate licences by a slash, which means OR.
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    known = sums.get((package["name"], package["version"]))
    if known:
        described["hashes"] = [{"alg": "SHA-256", "content": known}]
    return described


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    arguments = parser.parse_args()
    packages, members = crates()
    locked = tomllib.loads((HERE / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one["checksum"] for one in locked if "checksum" in one}
    own = tomllib.loads((HERE / "Cargo.toml").read_text())["workspace"]["package"]
    others = [one for one in packages if one["id"] not in members]
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": "mgb",
                "name": "mgb",
                "version": own["version"],
                "licenses": [{"expression": own["license"]}],
            },
        },
        "components": [component(one, sums) for one in others],
        "dependencies": [{"ref": "mgb", "dependsOn": [name_of(one) for one in others]}],
    }
    Path(arguments.file).write_text(json.dumps(document, indent=1) + "\n")
    print(f"sbom: {len(others)} crates in {arguments.file}")


if __name__ == "__main__":
    main()

"""Counts launch sites in MGB's reports: static and lazy, with the reasons, those of library headers apart."""

import collections
import json
import subprocess

# Parts of paths by which a launch belongs to a library's header, whoever includes it.
LIBRARIES = ("/thrust/", "/cub/", "/cccl/", "/cuda/std/", "/cooperative_groups/")


def explain(mgb, outputs):
    """The reports of what one build has written; files without a report have none."""
    reports = []
    for output in dict.fromkeys(outputs):
        done = subprocess.run([mgb, "explain", output, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False)
        if done.returncode == 0:
            reports += json.loads(done.stdout)
    return reports


def is_library(path, cuda):
    """Whether a place's file is a library's header."""
    return bool(path) and (path.startswith((str(cuda), "/usr/")) or any(part in path for part in LIBRARIES))


def count(reports, cuda):
    """Launch sites of a program: {"own": …, "library": …}, and every lazy one with its place and reasons.

    A site is a line of the source: instances of a template, or a header in several modules, are one, lazy if one of
    them is. Launches without a line are sites of their own. What stands for callers in other files alone counts where
    there is nothing else of its line.
    """
    found = {}
    reports = [{**report, "tasks": sorted(report["tasks"], key=lambda task: task.get("for_others", False))}
               for report in reports]
    for report in reports:
        everywhere = report.get("module_reasons", [])
        for task in report["tasks"]:
            for op in task.get("ops", []):
                if op["op"] != "launch":
                    continue
                path = op.get("file") or report["source"]
                key = (path, op["line"]) if op["line"] else (path, len(found), "without a line")
                owner = "library" if is_library(op.get("file"), cuda) else "own"
                lazy = None if task["kind"] == "static" else {
                    "owner": owner, "source": path, "line": op["line"], "kernel": op.get("kernel"),
                    "function": task["function"],
                    "reasons": [[reason["code"], reason["text"]] for reason in task.get("reasons", []) + everywhere]}
                if task.get("for_others") and key in found:
                    continue
                if found.get(key, (owner, None))[1] is None:
                    found[key] = (owner, lazy)
    result = {kind: {"static": 0, "lazy": 0} for kind in ("own", "library")}
    for owner, lazy in found.values():
        result[owner]["lazy" if lazy else "static"] += 1
    result["lazy_sites"] = [lazy for _, lazy in found.values() if lazy]
    return result


def by_code(sites, owner):
    """How many lazy sites of `owner` have each reason; a site with two counts for both."""
    counts = collections.Counter()
    for site in sites:
        if site["owner"] == owner:
            counts.update({code for code, _ in site["reasons"]})
    return counts

#!/usr/bin/env python3
"""Writes README's table of measurements from the documents of `mgb bench`.

    bench_table.py FILE...                    print the table
    bench_table.py --write README.md FILE...  put it between the marks in README.md
    bench_table.py --check README.md FILE...  exit with 1 if what is there is not that table

A line a mix and policy, as the documents have them; nothing is computed here but geometric means."""

import argparse
import json
import math
import sys

BEGIN, END = "<!-- begin of mgb bench's table -->", "<!-- end of mgb bench's table -->"
HEAD = ["mix", "policy", "at once", "makespan", "throughput over `sa`", "bound's", "turnaround over `sa`", "failed",
        "efficiency", "kernels"]
GIB = 1 << 30


def ratio(value, comparable):
    return "–" if value is None or not comparable else f"{value:.2f}"


def row(figures):
    comparable = figures["failed"] == 0
    failed = f"**{figures['failed']}** of {figures['jobs']}" if figures["failed"] else f"0 of {figures['jobs']}"
    slowdown = figures["kernel_slowdown"]
    return [figures["mix"], f"`{figures['policy']}`", str(figures["at_once"]), f"{figures['makespan_s']:.1f} s",
            ratio(figures["throughput_over_sa"], comparable), ratio(figures["bound_over_sa"], True),
            ratio(figures["turnaround_over_sa"], comparable), failed,
            f"{100 * figures['efficiency']:.0f} %" if comparable else "–", "–" if slowdown is None else f"{slowdown:.2f}"]


def means(document):
    """Geometric means over all mixes, of policies that failed in none."""
    mixes = [mix["name"] for mix in document["mixes"]]
    if len(mixes) < 2:
        return []
    lines = []
    for policy in dict.fromkeys(figures["policy"] for figures in document["figures"]):
        of_policy = {f["mix"]: f for f in document["figures"] if f["policy"] == policy}
        ratios = [of_policy[mix]["throughput_over_sa"] for mix in mixes
                  if mix in of_policy and of_policy[mix]["failed"] == 0 and of_policy[mix]["throughput_over_sa"]]
        if len(ratios) == len(mixes):
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"`{policy}` {mean:.2f}")
    return lines


def conditions(document):
    machine, settings = document["machine"], document["settings"]
    name = machine["gpus"][0]["name"]
    kind = "software GPUs: function, never speed" if machine["software"] else f"driver {machine['driver']}"
    ballast = ", a ballast holds the rest" if settings["ballast"] else ""
    runs = max(figures["runs"] for figures in document["figures"])
    return (f"{len(machine['gpus'])} × {name} ({kind}), {machine['cores']} cores, {settings['capacity_bytes'] / GIB:.1f} GiB "
            f"of each GPU{ballast}; commit `{document['commit'][:12]}`, seed {settings['seed']}, "
            f"{'single runs' if runs == 1 else f'means of up to {runs} runs'}.")


def table(documents):
    parts = []
    for document in documents:
        if document["version"] != 1:
            sys.exit(f"bench_table: a document has layout {document['version']}, this reads 1")
        if not document["figures"]:
            sys.exit("bench_table: a document holds no run")
        lines = [conditions(document), "", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(row(figures)) + " |" for figures in document["figures"]]
        geometric = means(document)
        if geometric:
            lines += ["", f"Geometric mean of throughput over `sa`, over all {len(document['mixes'])} mixes: "
                      + ", ".join(geometric) + "."]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def split(text, name):
    """What is before, between and after the marks."""
    before, begin, rest = text.partition(BEGIN)
    between, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"bench_table: {name} lacks the lines\n  {BEGIN}\n  {END}")
    return before, between.strip(), after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--write", metavar="README")
    parser.add_argument("--check", metavar="README")
    arguments = parser.parse_args()
    documents = []
    for name in sorted(arguments.files):
        with open(name, encoding="utf-8") as file:
            documents.append(json.load(file))
    text = table(documents)
    readme = arguments.write or arguments.check
    if not readme:
        print(text)
        return
    with open(readme, encoding="utf-8") as file:
        before, between, after = split(file.read(), readme)
    if arguments.check:
        if between != text:
            sys.exit(f"bench_table: the table in {readme} is not what the documents say: run `make bench-table`")
        return
    with open(readme, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")


main()

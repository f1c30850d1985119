#!/usr/bin/env python3
"""Writes the table of measurements in BENCHMARKING.md from the documents of `mgb bench`.

    bench_table.py FILE...               print the table
    bench_table.py --write PAGE FILE...  put it between the marks in PAGE
    bench_table.py --check PAGE FILE...  exit with 1 if what is there is not that table

A table per kind of node, a line per mix and policy, as the documents have them; only geometric means are computed here."""

import argparse
import json
import re
import statistics
import sys

BEGIN, END = "<!-- begin of mgb bench's table -->", "<!-- end of mgb bench's table -->"
HEAD = ["mix", "jobs", "`sa`", "policy", "at once", "makespan", "throughput over `sa`", "bound's", "turnaround over `sa`",
        "bound's", "failed", "efficiency", "kernels"]
GIB = 1 << 30


def ratio(value, comparable):
    return "–" if value is None or not comparable else f"{value:.2f}"


def row(figures, alone):
    """A line; `alone` is the makespan under `sa` in the same document."""
    comparable = figures["failed"] == 0
    slowdown = figures["kernel_slowdown"]
    return [figures["mix"], str(figures["jobs"]), "–" if alone is None else f"{alone:.1f} s", f"`{figures['policy']}`",
            str(figures["at_once"]), f"{figures['makespan_s']:.1f} s", ratio(figures["throughput_over_sa"], comparable),
            ratio(figures["bound_over_sa"], True), ratio(figures["turnaround_over_sa"], comparable),
            ratio(figures.get("turnaround_bound_over_sa"), True),
            f"**{figures['failed']}**" if figures["failed"] else "0",
            f"{100 * figures['efficiency']:.0f} %" if comparable else "–", "–" if slowdown is None else f"{slowdown:.2f}"]


def rows(documents):
    """Those of several documents: mixes in the order of their names, each document's policies in its own order."""
    of_mixes = {}
    for at, document in enumerate(documents):
        alone = {f["mix"]: f["makespan_s"] for f in document["figures"] if f["policy"] == "sa"}
        for figures in document["figures"]:
            # What everything is compared with has its own column.
            if figures["policy"] != "sa":
                of_mixes.setdefault((figures["mix"], at), []).append(row(figures, alone.get(figures["mix"])))
    return [row for key in sorted(of_mixes) for row in of_mixes[key]]


def means(documents):
    """Geometric means over W1, W2, ... as far as they were measured, of policies that failed in none. A mix that several
    documents have counts once, with the geometric mean of these."""
    of_policies, mixes = {}, set()
    for document in documents:
        for figures in document["figures"]:
            if re.fullmatch(r"W\d+", figures["mix"]):
                mixes.add(figures["mix"])
                if figures["failed"] == 0 and figures["throughput_over_sa"] and figures["policy"] != "sa":
                    of_mixes = of_policies.setdefault(figures["policy"], {})
                    of_mixes.setdefault(figures["mix"], []).append(figures["throughput_over_sa"])
    means = [f"`{policy}` {statistics.geometric_mean(map(statistics.geometric_mean, of.values())):.2f}"
             for policy, of in of_policies.items() if of.keys() == mixes]
    if len(mixes) < 2 or not means:
        return []
    return ["", f"Geometric mean of throughput over `sa`, over {', '.join(sorted(mixes))}: {', '.join(means)}."]


def node(document):
    """What the documents of a table have in common."""
    machine, settings = document["machine"], document["settings"]
    name = machine["gpus"][0]["name"]
    kind = "software GPUs: function, never speed" if machine["software"] else f"driver {machine['driver']}"
    ballast = ", a ballast holds the rest" if settings["ballast"] else ""
    return (f"{len(machine['gpus'])} × {name} ({kind}), {machine['cores']} cores, {settings['capacity_bytes'] / GIB:.1f} GiB "
            f"of each GPU{ballast}; seed {settings['seed']}")


def conditions(documents):
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(document["commit"][:12] for document in documents))
    runs = max(figures["runs"] for document in documents for figures in document["figures"])
    return (f"{node(documents[0])}, {'single runs' if runs == 1 else f'means of up to {runs} runs'}; "
            f"commit{'s' if commits.count(',') else ''} {commits}.")


def table(documents):
    of_nodes = {}
    for document in documents:
        if document["version"] != 1:
            sys.exit(f"bench_table: a document has layout {document['version']}, this reads 1")
        if not document["figures"]:
            sys.exit("bench_table: a document holds no run")
        of_nodes.setdefault(node(document), []).append(document)
    parts = []
    # Those with the most GPUs first.
    for documents in sorted(of_nodes.values(), key=lambda of: -len(of[0]["machine"]["gpus"])):
        lines = [conditions(documents), "", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(row) + " |" for row in rows(documents)]
        parts.append("\n".join(lines + means(documents)))
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
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("--check", metavar="PAGE")
    arguments = parser.parse_args()
    documents = []
    for name in sorted(arguments.files):
        with open(name, encoding="utf-8") as file:
            documents.append(json.load(file))
    text = table(documents)
    page = arguments.write or arguments.check
    if not page:
        print(text)
        return
    with open(page, encoding="utf-8") as file:
        before, between, after = split(file.read(), page)
    if arguments.check:
        if between != text:
            sys.exit(f"bench_table: the table in {page} is not what the documents say: run `make bench-table`")
        return
    with open(page, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")


main()

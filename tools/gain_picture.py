#!/usr/bin/env python3
"""Draws docs/gain.svg, the picture of the gain in README.md, from the documents of `mgb bench`.

    gain_picture.py FILE...                       print the picture
    gain_picture.py --write docs/gain.svg FILE... write it
    gain_picture.py --check docs/gain.svg FILE... exit with 1 if it is not current

A group of bars per mix, on the nodes with the most GPUs: throughput over one program per GPU. A bar of a run in which jobs
failed is hollow and has the number of failed jobs on it, since a batch that loses jobs ends early for that reason."""

import argparse
import json
import statistics
import sys
from xml.sax.saxutils import escape

# What is drawn: the policy's name in the documents, its name in the legend, its colour.
SHOWN = [("mgb -j auto", "MGB", "#1b7f5c"), ("cg:2", "2 programs per GPU", "#d9822b"),
         ("cg:3", "3 per GPU", "#c05621"), ("cg:4", "4 per GPU", "#8f3a1d")]
MIXES = [f"W{n}" for n in range(1, 9)] + ["networks"]
BAR, GAP, LEFT, TOP, HEIGHT, MOST = 23, 22, 58, 74, 250, 5.0


def collect(documents):
    """By mix and policy: geometric mean of the ratios over `sa`, failed jobs of all runs; the bound by mix."""
    most = max(len(document["machine"]["gpus"]) for document in documents)
    of, bounds, jobs = {}, {}, {}
    for document in documents:
        if len(document["machine"]["gpus"]) == most and not document["machine"]["software"]:
            for figures in document["figures"]:
                mix, ratio = figures["mix"], figures["throughput_over_sa"]
                if ratio:
                    of.setdefault((mix, figures["policy"]), []).append((ratio, figures["failed"]))
                jobs[mix] = figures["jobs"]
                if figures["policy"] == "sa":
                    bounds.setdefault(mix, []).append(figures["bound_over_sa"])
    mean = {key: (statistics.geometric_mean(ratio for ratio, _ in runs), sum(failed for _, failed in runs))
            for key, runs in of.items()}
    return mean, {mix: statistics.geometric_mean(of) for mix, of in bounds.items()}, jobs, most


def text(x, y, words, size=12, anchor="middle", colour="#333333", weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def scale(ratio):
    return TOP + HEIGHT * (1 - ratio / MOST)


def bar(x, ratio, failed, colour):
    """A bar, hollow where jobs failed, with the ratio or the number of failed jobs at its top."""
    y = scale(ratio)
    look = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="3 2"' if failed else f'fill="{colour}"'
    said = f"{failed} ✗" if failed else f"{ratio:.1f}"
    return [f'<rect x="{x + 1:g}" y="{y:.1f}" width="{BAR - 2}" height="{TOP + HEIGHT - y:.1f}" {look}/>',
            text(x + BAR / 2, y + 15, said, 11, colour="#b00020" if failed else "white",
                 weight="normal" if failed else "bold")]


def legend(gpu):
    parts = [text(LEFT, 22, f"Batches of jobs on {gpu}: throughput over one program per GPU (1×)", 14,
                  "start", weight="bold")]
    x = LEFT
    for _, name, colour in SHOWN:
        parts += [f'<rect x="{x}" y="38" width="12" height="12" fill="{colour}"/>', text(x + 17, 48, name, 11, "start")]
        x += 32 + 6.3 * len(name)
    parts += [f'<rect x="{x:g}" y="38" width="12" height="12" fill="none" stroke="#8f3a1d" stroke-dasharray="3 2"/>',
              text(x + 17, 48, "n ✗: n jobs failed", 11, "start", "#b00020"),
              f'<path d="M{x + 137:g} 44h18" stroke="#333333" stroke-width="2"/>', text(x + 160, 48, "bound of any schedule", 11, "start")]
    return parts


def picture(documents):
    mean, bounds, jobs, count = collect(documents)
    if not mean:
        sys.exit("gain_picture: no document holds a run on real GPUs")
    of_node = [document for document in documents if len(document["machine"]["gpus"]) == count]
    gpu = f'{count} × {of_node[0]["machine"]["gpus"][0]["name"]}'
    parts, x = legend(gpu), LEFT
    for mix in (mix for mix in MIXES if (mix, SHOWN[0][0]) in mean):
        start = x
        for policy, _, colour in SHOWN:
            if (mix, policy) in mean:
                parts += bar(x, *mean[mix, policy], colour)
                x += BAR
        # What no schedule can exceed: across the group.
        y = scale(bounds[mix])
        parts.append(f'<path d="M{start - 4:g} {y:.1f}H{x + 4:g}" stroke="#333333" stroke-width="2"/>')
        parts += [text((start + x) / 2, TOP + HEIGHT + 18, mix, 12, weight="bold"),
                  text((start + x) / 2, TOP + HEIGHT + 33, f"{jobs[mix]} jobs", 10)]
        # A single bar is narrower than its name.
        x = max(x, start + 2.5 * BAR) + GAP
    grid = []
    for ratio in range(int(MOST) + 1):
        y, width = scale(ratio), 1.6 if ratio == 1 else 0.6
        grid += [f'<path d="M{LEFT - 8} {y:g}H{x}" stroke="#999999" stroke-width="{width}"/>',
                 text(LEFT - 14, y + 4, f"{ratio}×", 11, "end")]
    width, height = x + 12, TOP + HEIGHT + 48
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" '
            f'font-family="Helvetica, Arial, sans-serif" role="img">')
    title = f"<title>Throughput over one program per GPU, by mix and policy, on {escape(gpu)}</title>"
    ground = f'<rect width="{width:g}" height="{height}" fill="white"/>'
    return "\n".join([head, title, ground, *grid, *parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--write", metavar="SVG")
    parser.add_argument("--check", metavar="SVG")
    arguments = parser.parse_args()
    documents = []
    for name in sorted(arguments.files):
        with open(name, encoding="utf-8") as file:
            documents.append(json.load(file))
    drawn = picture(documents)
    if arguments.check:
        with open(arguments.check, encoding="utf-8") as file:
            if file.read() != drawn:
                sys.exit(f"gain_picture: {arguments.check} is not what the documents say: run `make gain-picture`")
    elif arguments.write:
        with open(arguments.write, "w", encoding="utf-8") as file:
            file.write(drawn)
    else:
        print(drawn, end="")


main()

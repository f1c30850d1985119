"""The outcome as text."""

import collections
import statistics

import sites


def ratio(entry):
    """Processor time of the compiles under MGB over that of plain ones, or None."""
    plain, ours = entry["plain"], entry.get("mgb")
    if ours and plain["built"] and ours["built"] and plain["cpu_s"] > 0:
        return ours["cpu_s"] / plain["cpu_s"]
    return None


def totals(entries):
    """The figures over all programs."""
    built = [entry for entry in entries if entry["plain"]["built"] and "mgb" in entry]
    both = [entry for entry in built if entry["mgb"]["built"]]
    ratios = [r for r in map(ratio, entries) if r]
    counts = {owner: {kind: sum(entry["sites"][owner][kind] for entry in both) for kind in ("static", "lazy")}
              for owner in ("own", "library")}
    lazy = [site for entry in both for site in entry["sites"]["lazy_sites"]]
    return {"programs": len(entries), "plain": len(built), "both": len(both),
            "only plain": [entry["name"] for entry in built if not entry["mgb"]["built"]],
            "crashes": {side: [entry["name"] for entry in entries if (entry.get(side) or {}).get("crash")]
                        for side in ("plain", "mgb")},
            "time ratio": statistics.median(ratios) if ratios else None, "sites": counts,
            "reasons": {owner: dict(sites.by_code(lazy, owner).most_common()) for owner in ("own", "library")},
            "run": dict(collections.Counter(entry["run"]["state"] for entry in both if "run" in entry)),
            "needs": {kind: sum(entry["run"].get("needs", {}).get(kind, 0) for entry in both if "run" in entry)
                      for kind in ("equal", "above", "below")}}


def show(entries):
    """The whole table."""
    lines = [f"{'program':32} {'plain':6} {'MGB':6} {'time':>5} {'static':>6} {'lazy':>5} {'library':>7}  outcome"]
    for entry in entries:
        ours = entry.get("mgb")
        counts = entry.get("sites")
        figures = ("", "", "") if not counts else (
            counts["own"]["static"], counts["own"]["lazy"], sum(counts["library"].values()))
        relation = ratio(entry)
        lines.append(" ".join([
            f"{entry['name'][:32]:32}", f"{word(entry['plain']):6}", f"{word(ours):6}",
            f"{relation:5.2f}" if relation else "     ", f"{figures[0]:>6}", f"{figures[1]:>5}", f"{figures[2]:>7}",
            "", entry.get("run", {}).get("state", "")]).rstrip())
        failed = next((result for result in (entry["plain"], ours) if result and not result["built"]), None)
        for line in (failed or {}).get("errors") or (failed or {}).get("log", [])[-3:]:
            lines.append(f"    {line[:150]}")
        for line in entry.get("run", {}).get("log", [])[-3:]:
            lines.append(f"    {line[:150]}")
    return "\n".join([*lines, "", summary(totals(entries))])


def word(result):
    """One build in a word."""
    if result is None:
        return "-"
    return "crash" if result["crash"] else "builds" if result["built"] else "fails"


def summary(all_):
    """The figures in words."""
    own, library = all_["sites"]["own"], all_["sites"]["library"]
    lines = [f"{all_['programs']} programs: {all_['plain']} build with the plain compiler, {all_['both']} of them with MGB"]
    if all_["only plain"]:
        lines.append("only the plain compiler builds: " + ", ".join(all_["only plain"]))
    for side, names in all_["crashes"].items():
        lines.append(f"compiler crashes, {side}: " + (", ".join(names) or "none"))
    if all_["time ratio"]:
        lines.append(f"compile time over plain, median: {all_['time ratio']:.2f}")
    for name, counts in (("own code", own), ("library headers", library)):
        sites_ = sum(counts.values())
        part = f" ({100 * counts['static'] / sites_:.1f} %)" if sites_ else ""
        lines.append(f"launch sites in {name}: {sites_}, static {counts['static']}{part}, lazy {counts['lazy']}")
        owner = "own" if counts is own else "library"
        lines += [f"    {count:5} {code}" for code, count in all_["reasons"][owner].items()]
    if all_["run"]:
        lines.append("runs: " + ", ".join(f"{count} {state}" for state, count in all_["run"].items()))
        lines.append("static tasks' need against the peak seen: "
                     + ", ".join(f"{count} {kind}" for kind, count in all_["needs"].items()))
    return "\n".join(lines)

#!/usr/bin/env python3
"""The conformance set on a real GPU: what every case gives, plain twice and under MGB. What the plain programs print is
written to OUT/recorded, and compared with what the repository has recorded: tests/conformance/recorded is a copy of it."""

from concurrent.futures import ThreadPoolExecutor

from trial import Trial

# Programs with kernels that fault, as they should.
FAULTING = {"control"}


def output(trial, program, kind):
    path = trial.prefix / "conformance" / kind / program
    environment = trial.environment(MGB="require") if kind == "mgb" else trial.environment(MGB="off")
    ended = trial.run([str(path)], timeout=trial.left(), env=environment)
    return ended["stdout"], ended["stderr"]


def lines(text):
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


def differing(one, two):
    """Cases that two outputs do not give alike."""
    one, two = lines(one), lines(two)
    return [f"{case}: {one.get(case, 'nothing')[:120]} | {two.get(case, 'nothing')[:120]}"
            for case in sorted(one.keys() | two.keys()) if one.get(case) != two.get(case)]


def by_themselves(text):
    """What cases that check themselves print where all is right: these need no record."""
    cases = {case: rest.split() for case, rest in lines(text).items()}
    return "\n".join(" ".join([case, "right"] + ["1"] * len(values)) for case, (kind, *values) in cases.items()
                     if kind == "right")


def main():
    trial = Trial("conformance", __doc__, lambda parser: parser.add_argument(
        "--at-once", type=int, default=8, help="programs at once"))
    trial.mgbd()
    programs = sorted(path.stem for path in (trial.prefix / "conformance").glob("*.cu"))
    folder = trial.arguments.out / "recorded"
    folder.mkdir(parents=True, exist_ok=True)
    cases = 0
    with ThreadPoolExecutor(trial.arguments.at_once) as pool:
        def all_of(kind):
            # A kernel's fault takes the other clients of MPS with it: such a program runs when nobody else does.
            apart = [program for program in programs if program in FAULTING]
            others = [program for program in programs if program not in FAULTING]
            outputs = dict(zip(others, pool.map(lambda program: output(trial, program, kind), others)))
            outputs.update((program, output(trial, program, kind)) for program in apart)
            return [outputs[program] for program in programs]
        runs = {kind: all_of(kind) for kind in ("plain", "mgb")}
        again = all_of("plain")
    for at, program in enumerate(programs):
        plain, shared = runs["plain"][at][0], runs["mgb"][at][0]
        cases += len(lines(plain))
        (folder / f"{program}.txt").write_text(plain)
        kept = trial.prefix / "conformance" / "recorded" / f"{program}.txt"
        failed = [line for line in plain.splitlines() if " failed " in line]
        trial.check(f"{program}: every case runs, and gives the same again", not failed and not differing(plain, again[at][0]),
                    failed + differing(plain, again[at][0]) or None)
        recorded = kept.read_text() if kept.exists() else by_themselves(plain)
        trial.check(f"{program}: as recorded", not differing(recorded, plain), differing(recorded, plain) or None)
        trial.check(f"{program}: the same under MGB", not differing(plain, shared),
                    (differing(plain, shared) + runs["mgb"][at][1].splitlines()[-20:]) if plain != shared else None)
    trial.result["cases"] = cases
    trial.finish()


main()

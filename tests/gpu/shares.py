#!/usr/bin/env python3
"""Programs with a part of the multiprocessors (`mgb run --share`), rebuilt or not, and PyTorch: how many multiprocessors they
see, how much less they get done, and what two of them get done beside each other."""

import importlib.util
import json
import subprocess
import sys

from trial import Trial

SHARE = 25
ASK = "import torch; p = torch.cuda.get_device_properties(0); print(p.multi_processor_count)"
KIND = "blocks2000"


def main():
    trial = Trial("shares", __doc__, lambda parser: parser.add_argument(
        "--seconds", type=float, default=3, help="how long each program works (default 3)"))
    trial.mgbd()
    share = ["--share", f"{SHARE}%"]

    def run(options, words):
        return [trial.prefix / "bin/mgb", "run", *options, "--", *words]

    def seen(options):
        ended = trial.run(run(options, [sys.executable, "-c", ASK]))
        return int(ended["stdout"]) if ended["code"] == 0 else ended["stderr"][-500:]

    def rates(kind, many, options):
        """Units a second of so many programs at once, and what mgbd says of their multiprocessors meanwhile."""
        words = [trial.prefix / "benches" / kind / "saturate", KIND, "--seconds", trial.arguments.seconds]
        processes = [trial.spawn(run(options, words), stdin=subprocess.PIPE) for _ in range(many)]
        for process in processes:
            if "ready" not in process.stdout.readline():
                sys.exit(f"shares: a program did not begin: {process.communicate()[1][-1000:]}")
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        shown = [task.get("multiprocessors_percent") for task in trial.status()["tasks"]]
        found = [json.loads(process.communicate(timeout=60)[0].splitlines()[-1]) for process in processes]
        return [each["units"] / each["seconds"] for each in found], shown

    if importlib.util.find_spec("torch") is not None:
        whole, part = seen([]), seen(share)
        right = isinstance(whole, int) and isinstance(part, int) and abs(part / whole - SHARE / 100) < 0.06
        trial.check("PyTorch sees its part of the multiprocessors", right, {"whole": whole, "part": part})
    for kind, words in (("plain", "not rebuilt"), ("mgb", "rebuilt")):
        (whole,), _ = rates(kind, 1, [])
        (alone,), shown = rates(kind, 1, share)
        two, shown_two = rates(kind, 2, share)
        figure = {"part of the whole": round(alone / whole, 3), "percent shown": shown}
        trial.check(f"{words}: gets its part done, and no more", 0.8 * SHARE / 100 < alone / whole < 1.25 * SHARE / 100, figure)
        figure = {"of that alone": [round(each / alone, 3) for each in two], "percent shown": shown_two}
        trial.check(f"{words}: two beside each other", all(each > 0.5 * alone for each in two), figure)
    trial.finish()


main()

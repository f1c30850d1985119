#!/usr/bin/env python3
"""A batch on one GPU beside a program whose kernels fault: under MPS that ends every program on the GPU. Neighbours that
the fault hit are told so whatever their exit code, and with `--again` they run once more and end right."""

import json
import pathlib
import time

from trial import Trial

# Jobs whose results are checked by themselves: seconds of work, so that the fault comes in their midst.
NEIGHBOURS = 4
LINE = "mgb: the GPU failed under this program"


def main():
    trial = Trial("faults", __doc__)
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    environment = trial.environment(MGB="require")
    # Every other one was not rebuilt: the driver front reports for it.
    neighbours = [f"{trial.example('phases', plain=number % 2 == 1)} 64 250 15 wait 200 8" for number in range(NEIGHBOURS)]
    # All start first: the first client under MPS waits for its server.
    control = trial.prefix.resolve() / "conformance/mgb/control"
    if not control.exists():
        raise SystemExit(f"{control} is missing, the program whose kernels fault: build it with make conformance")
    fault = f"sh -c 'sleep 3; exec {control}'"
    jobs = trial.folder / "jobs.txt"
    jobs.write_text("".join(f"{neighbour}\n" for neighbour in neighbours) + fault + "\n")

    def batch(name, *options):
        logs = trial.folder / name
        ended = trial.run([trial.prefix / "bin/mgb", "batch", jobs, "-j", NEIGHBOURS + 1, "--json", "--logs", logs, *options],
                          environment)
        trial.check(f"{name}: says by its exit code that a job failed", ended["code"] == 1, ended["code"])
        return json.loads(ended["stdout"])["jobs"]

    def kinds(jobs):
        return [(job["cause"] or {}).get("kind", "right") for job in jobs]

    def said(job):
        return pathlib.Path(job["log"]).read_text()[-300:] if job["log"] else None

    once = batch("once")
    hit = [job for job in once[:NEIGHBOURS] if job["state"] != "done"]
    trial.check("neighbours were hit by the fault", hit, kinds(once))
    trial.check("each that was hit has it for its cause", all(kinds([job]) == ["gpu_fault"] for job in hit), kinds(hit))
    trial.check("each that was hit has the line in its log", all(LINE in (said(job) or "") for job in hit),
                [said(job) for job in hit[:1]])
    trial.check("each that counts as right says PASS", all("PASS" in said(job) for job in once[:NEIGHBOURS] if job not in hit))
    again = batch("again", "--again")
    trial.check("with --again every neighbour ends right", all(
        job["state"] == "done" and "PASS" in said(job) for job in again[:NEIGHBOURS]), kinds(again))
    trial.check("some of them ran again", any(job["again"] for job in again[:NEIGHBOURS]),
                [job["again"] for job in again])
    trial.check("the program that faults fails both times", again[NEIGHBOURS]["state"] == "failed" and
                again[NEIGHBOURS]["again"], kinds(again)[NEIGHBOURS])
    newcomer = trial.run([trial.example("phases"), 1, 2, 0, "wait", 10, 8], environment, timeout=30)
    trial.check("a newcomer is right", newcomer["code"] == 0 and "PASS" in newcomer["stdout"], newcomer["stderr"][-300:] or None)
    # What the newcomer held is taken back once the driver has it.
    deadline = time.monotonic() + 5
    while (tasks := trial.status()["tasks"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    trial.check("no task is left", not tasks, tasks or None)
    trial.finish()


main()

#!/usr/bin/env python3
"""Programs that take more of a GPU than they were granted, beside a neighbour at work under MPS: told of, or
ended where the administrator wants it (--overhead-limit, --end-beyond). No end fails the neighbour."""

import signal
import time

from trial import GIB, Trial

OWN, WORKSPACE = 512, 4096
LIMIT = ("--overhead-limit", "2GiB")


def main():
    trial = Trial("beyond", __doc__)
    # With the driver loaded first MGB's front is not there, and the workspace is not seen as it is taken.
    past_the_front = trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0", LD_PRELOAD="libcuda.so.1")
    usual = trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0")

    def takes_more(turn):
        """A program built with MGB that has its memory, and how to let it take more."""
        files = [trial.folder / f"{name}{turn}" for name in ("takes", "ends")]
        process = trial.spawn([trial.example("workspace"), OWN, WORKSPACE, *files], past_the_front)
        trial.until(lambda: trial.status()["gpus"][0]["resident_bytes"] >= OWN << 20)
        return process, files

    def ends(process):
        output, errors = process.communicate(timeout=60)
        trial.running.remove(process)
        return process.returncode, output, errors

    def neighbour(rounds):
        process = trial.spawn([trial.example("phases"), 1024, rounds, 200, "wait", 40, 8], usual)
        trial.until(lambda: trial.status()["tasks"])
        return process

    def log():
        return (trial.folder / "mgbd-mgb.log").read_text()

    trial.mgbd(options=LIMIT, CUDA_VISIBLE_DEVICES="0")
    beside = neighbour(30)
    first, files = takes_more(1)
    files[0].touch()
    trial.check("without --end-beyond it is told of", trial.until(lambda: "it goes on" in log()), log()[-300:])
    files[1].touch()
    code, output, errors = ends(first)
    trial.check("  and ends right", code == 0 and "PASS" in output, errors[-300:] or None)
    code, output, errors = ends(beside)
    trial.check("  and so does its neighbour", code == 0 and "PASS" in output, errors[-300:] or None)
    trial.stop_mgbd()

    trial.mgbd(options=(*LIMIT, "--end-beyond"), CUDA_VISIBLE_DEVICES="0")
    beside = neighbour(60)
    second, files = takes_more(2)
    files[0].touch()
    began = time.monotonic()
    code, output, errors = ends(second)
    trial.check("with --end-beyond it is ended", code == -signal.SIGTERM,
                {"seconds": round(time.monotonic() - began, 2), "code": code})
    held = lambda: trial.status()["gpus"][0]["overhead_bytes"]
    trial.check("  and its room comes back", trial.until(lambda: held() < GIB, 10), held())
    newcomer = trial.run([trial.example("vecadd"), 1000000], usual, timeout=60)
    trial.check("  and a newcomer is right", newcomer["code"] == 0 and "PASS" in newcomer["stdout"], newcomer["seconds"])

    # A whole process at work, of which mgbd keeps no files: its end would fail the neighbour.
    plain = [trial.example("phases", plain=True), 6144, 4, 200, "wait", 40, 8]
    whole = trial.spawn([trial.prefix / "bin/mgb", "run", "--need", "512MiB", *plain], usual)
    code, output, errors = ends(whole)
    right = code == 0 and "PASS" in output and "would fail its neighbours" in log()
    trial.check("a whole process is told of alone", right, None if right else (code, errors[-300:], log()[-600:]))
    code, output, errors = ends(beside)
    trial.check("the neighbour of all of them is right", code == 0 and "PASS" in output, errors[-300:] or None)
    trial.finish()


main()

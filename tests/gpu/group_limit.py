#!/usr/bin/env python3
"""A program in a control group with a limit of host memory: what the group has no room for stays on the GPU as another
wants its room, and nobody is killed for it; with room it leaves."""

import os
import pathlib
import signal

from trial import GIB, MIB, Trial

HOLDS, WANTS = 8192, 8192


class Group:
    """A control group of the first or the second version; None where none can be made."""

    @staticmethod
    def make(name):
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for _, folder, kind, options, *_ in mounts:
            path = pathlib.Path(folder)
            second = kind == "cgroup2" and "memory" in (path / "cgroup.controllers").read_text().split()
            if not second and not (kind == "cgroup" and "memory" in options.split(",")):
                continue
            try:
                if second:
                    (path / "cgroup.subtree_control").write_text("+memory")
                (path / name).mkdir()
            except OSError:
                continue
            return Group(path / name, second)
        return None

    def __init__(self, path, second):
        self.path = path
        self.limit = path / ("memory.max" if second else "memory.limit_in_bytes")
        self.usage = path / ("memory.current" if second else "memory.usage_in_bytes")

    def used(self):
        return int(self.usage.read_text())

    def remove(self):
        try:
            self.path.rmdir()
        except OSError:
            pass


def main():
    trial = Trial("group_limit", __doc__)
    group = Group.make(f"mgb-trial-{os.getpid()}")
    if group is None:
        trial.check("no control group with a limit of memory can be made here: left out", True)
        trial.finish()
    trial.mgbd(CUDA_VISIBLE_DEVICES="0")
    environment = trial.environment(MGB="require", CUDA_VISIBLE_DEVICES="0")
    enters = f"echo $$ >{group.path}/cgroup.procs && exec \"$@\""

    def ends(process):
        output, errors = process.communicate(timeout=60)
        trial.running.remove(process)
        return process.returncode, output, errors

    # A context, and room for one of the two programs at a time.
    view = trial.status()["gpus"][0]["gpu"]
    trial.ballast(2 * view["context_bytes"] + (HOLDS + WANTS // 2) * MIB, 0)
    for what, room, leaves in (("too little", 1 * GIB, False), ("enough", 2 * HOLDS * MIB, True)):
        group.limit.write_text("-1" if "limit_in" in group.limit.name else "max")
        idle = trial.spawn(["sh", "-c", enters, "sh", trial.example("pauses"), HOLDS, 3, 4000, 4, 264], environment)
        trial.until(lambda: sum(task["held_bytes"] for task in trial.status()["tasks"]) >= HOLDS * MIB)
        group.limit.write_text(str(group.used() + room))
        before = trial.status()["counts"]
        wants = trial.spawn([trial.example("phases"), WANTS, 1, 1, "wait", 10, 8], environment)
        asked = lambda: [trial.status()["counts"][name] - before[name] for name in ("evicted", "evictions_failed")]
        trial.until(lambda: any(asked()))
        evicted, failed = asked()
        used = group.used()
        code, output, errors = ends(idle)
        says = "too low a limit of this process's control group" in errors
        right = (evicted > 0) if leaves else (evicted == 0 and failed > 0 and says)
        figure = {"evicted": evicted, "failed": failed, "says so": says, "group GiB": round(used / GIB, 2)}
        trial.check(f"with {what} room in its group the memory {'leaves' if leaves else 'stays'}", right, figure)
        trial.check("  the program is not killed, and right", code == 0 and "PASS" in output,
                    None if code == 0 else (code, signal.SIGKILL, errors[-300:]))
        code, output, errors = ends(wants)
        trial.check("  and so is who wanted the room", code == 0 and "PASS" in output, errors[-300:] or None)
    events = group.path / "memory.events"
    if events.exists():
        killed = "oom_kill 0" in events.read_text()
        trial.check("the kernel killed nobody", killed, events.read_text().split())
    group.remove()
    trial.finish()


main()

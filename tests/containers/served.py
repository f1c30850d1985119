"""Containers of root's under the node's mgbd: what they get, what they do not, and what becomes of them."""

import json
import os
import signal
import time

from place import until

PROGRAM = "/opt/programs/holds"
HOLD = (PROGRAM, "20", "100000")
# 24 MiB of one GPU of 64 MiB, where a context takes some as well: two fit, three do not.
SHORT = (PROGRAM, "24", "300")


def play(trial, node, podman, images):
    for part in (programs, mounts, orders, deaths, restarts, hostile, no_shell, namespaces):
        part(trial, node, podman, images)


def passes(code, said):
    return code == 0 and "PASS" in said


def programs(trial, node, podman, images):
    before = node.granted()
    said = podman.contain("debian", "mgb", "run", *SHORT)
    trial.check("an unchanged program runs in a container, in a PID namespace of its own", passes(*said), said[1])
    # It was linked where MGB was built; this is a copy.
    said = podman.contain("debian", "mgb", "run", "/opt/programs/phases", "24", "6", "50", "wait", "10", "8",
                          environment=[f"LD_LIBRARY_PATH={node.mgb}/lib"])
    trial.check("so does one that was built with MGB", passes(*said), said[1])
    trial.check("mgbd gave both their room", node.granted() >= before + 2)
    code, said = podman.contain("debian", *SHORT)
    trial.check("without mgb run it finds no driver", code != 0 and "PASS" not in said, said)
    if "--cgroups=disabled" in podman.allowances:
        trial.left_out("--pid=host", "podman wants a PID namespace of its own without control groups")
    else:
        said = podman.contain("debian", "mgb", "run", *SHORT, options=["--pid=host"], network="host")
        trial.check("so does one in the node's PID and network namespaces", passes(*said), said[1])
    said = podman.contain("debian", "mgb", "run", "/opt/own/bin/own")
    trial.check("the image's own LD_LIBRARY_PATH survives", said == (0, "own 42\n"), said[1])
    shared(trial, node, podman)


def shared(trial, node, podman):
    """Two containers and a program of the node's want more than there is, and all get it."""
    before, began = node.granted(), time.monotonic()
    wanted = ("24", "3000")
    running = [podman.start("debian", "mgb", "run", PROGRAM, *wanted) for _ in range(2)] + [node.start_program(wanted)]
    most, waited = 0, False
    while any(one.poll() is None for one in running):
        view = node.view()
        most = max(most, len({task["pid"] for task in view["tasks"]}))
        waited |= bool(view["queue"])
        time.sleep(0.05)
    ended = [(one.wait(), one.stdout.read()) for one in running]
    trial.check("two containers and a program of the node's share a GPU on which two fit",
                all(passes(*one) for one in ended) and node.granted() >= before + 3, str(ended))
    trial.check("two of them held memory at once, and the third waited", most >= 2 and waited,
                f"{most} at once, {time.monotonic() - began:.1f} s")


def mounts(trial, node, podman, images):
    made = json.loads(images.cdi.read_text())["devices"][0]["containerEdits"]["mounts"]
    for mount in made:
        place = mount["containerPath"]
        if place == str(node.folder / "softgpu"):
            continue
        command = f"[ -d '{place}' ] && touch '{place}/file' || echo x >>'{place}'"
        code, said = podman.contain("debian", "sh", "-c", f"{command} && echo WRITTEN")
        trial.check(f"{place} is there, and read-only", "WRITTEN" not in said and "ead-only" in said, said)
    marker = "/dev/shm/of-the-node"
    open(marker, "w").close()
    code, said = podman.contain("debian", "sh", "-c", "ls -A /dev/shm /run/mgb /run/mgb/clients")
    trial.check("nothing of the node's /dev/shm and of mgbd's own folder is in a container",
                code == 0 and said.split() == ["/dev/shm:", "/run/mgb:", "clients", "/run/mgb/clients:", "mgbd.sock"], said)
    os.unlink(marker)


def orders(trial, node, podman, images):
    with holding(node, node.start_program(HOLD[1:])) as pid:
        for order, wanted in ((("drain", "0", "--no-wait"), "outside of containers"),
                              (("suspend", str(pid)), "belongs to another user"), (("stop",), "where it was started")):
            code, said = podman.contain("debian", "mgb", *order)
            trial.check(f"root of a container is refused: mgb {' '.join(order[:1])}", code != 0, said)
        view = node.view()
        trial.check("no order of theirs was carried out",
                    not view["suspended"] and not view["gpus"][0]["drained"] and pid in node.holders())
    code, said = podman.contain("debian", "mgb", "status")
    trial.check("mgb status says why it shows nothing there", code == 3 and "ask on the node" in said, said)


class holding:
    """A program that holds memory, ended at the end."""

    def __init__(self, node, process):
        self.node, self.process = node, process

    def __enter__(self):
        return until("a program holds memory", lambda: next(iter(self.node.holders()), None))

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        until("its memory is given back", lambda: not self.node.holders())


def deaths(trial, node, podman, images):
    for signal_name in ("KILL", "TERM"):
        process = podman.start("debian", "mgb", "run", *HOLD, options=["--name=killed", "--stop-timeout=1"])
        until("it holds memory", node.holders)
        podman.run(*(("kill", "--signal=KILL") if signal_name == "KILL" else ("stop",)), "killed")
        process.wait(30)
        until("it is given back", lambda: not node.holders())
        trial.check(f"the memory of a container that ends by {signal_name} is given back", True)
    # The engine's own process is killed: the container goes on, as podman has it, and its memory is its own.
    process = podman.start("debian", "mgb", "run", *HOLD, options=["--name=left"])
    pid = until("it holds memory", node.holders)[0]
    os.kill(pid, signal.SIGKILL)
    process.wait(30)
    until("it is given back", lambda: not node.holders())
    trial.check("so is that of a program in it that is killed", True)


def restarts(trial, node, podman, images):
    process = podman.start("debian", "mgb", "run", PROGRAM, "20", "8000", options=["--name=served"])
    until("it holds memory", node.holders)
    node.kill()
    node.start()
    # Podman gives a further program in a container none of a device's variables; the service's socket is found without.
    own = [f"--env={name}={node.environment[name]}" for name in ("MGB_PREFIX", "SOFTGPU_DEVICES", "SOFTGPU_STATE")]
    said = podman.run("exec", "--env=MGB=require", *own, "served", "mgb", "run", PROGRAM, "8", "100")
    trial.check("a program that starts in a container after mgbd was started anew is served by the next", passes(*said), said[1])
    said = process.wait(60), process.stdout.read()
    trial.check("a container goes on while mgbd is killed and started anew", passes(*said), said[1])
    node.stop()
    code, said = podman.contain("debian", "mgb", "run", *SHORT)
    trial.check("without an mgbd it is said that the node has to start one",
                code == 125 and "start mgbd on the node" in said, said)
    node.start()
    said = podman.contain("debian", "mgb", "run", *SHORT)
    trial.check("one that starts afterwards is found at the same place", passes(*said), said[1])


def hostile(trial, node, podman, images):
    before = sorted(os.listdir("/etc"))
    said = podman.contain("hostile", "mgb", "run", *SHORT)
    trial.check("an image's own mgb and libcuda.so.1 come after MGB's", passes(*said) and "HOSTILE" not in said[1], said[1])
    trial.check("links of an image lead to no place of the node's", sorted(os.listdir("/etc")) == before)


def no_shell(trial, node, podman, images):
    said = podman.contain("shell-less", "mgb", "run", "/holds", *SHORT[1:])
    trial.check("an image without a shell is served", passes(*said), said[1])


def namespaces(trial, node, podman, images):
    said = podman.contain("debian", "mgb", "run", *SHORT, options=["--userns=auto"])
    trial.check("a container in a user namespace of its own is served", passes(*said), said[1])
    said = podman.contain("debian", "mgb", "run", *SHORT, options=["--user=1234:1234"])
    trial.check("another user of an image is served", passes(*said), said[1])
    options = ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]
    said = podman.contain("debian", "mgb", "run", *SHORT, options=options)
    trial.check("one without capabilities on a read-only root is served", passes(*said), said[1])

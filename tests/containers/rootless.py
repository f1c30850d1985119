"""Containers of a user without rights: under the node's mgbd, and under one of that user's own, at an odd path."""

import json
import pathlib

from place import UID, Node, until
from podman import Podman
from served import HOLD, SHORT, passes

# A space, a colon and a comma: engines take them, if those who write files for them do.
ODD = "its own, a:b"


def play(trial, scene):
    podman = scene.engine(Podman(scene.folder / "rootless", UID), "debian")
    under_the_service(trial, scene, podman)
    under_an_own(trial, scene, podman)


def under_the_service(trial, scene, podman):
    before = scene.node.granted()
    said = podman.contain("debian", "mgb", "run", *SHORT)
    trial.check("a user's container is served by the node's mgbd, whose root has no number there",
                passes(*said) and scene.node.granted() > before, said[1])
    said = podman.contain("debian", "mgb", "run", *SHORT, options=["--pid=host"])
    trial.check("so is one in the node's PID namespace", passes(*said), said[1])
    process = podman.start("debian", "mgb", "run", *HOLD, options=["--name=charged"])
    task = until("it holds memory", lambda: next(iter(scene.node.view()["tasks"]), None))
    trial.check("it is charged to that user", task["uid"] == UID, str(task))
    code, said = podman.contain("debian", "mgb", "drain", "0", "--no-wait")
    trial.check("it drains no GPU", code != 0 and not scene.node.view()["gpus"][0]["drained"], said)
    podman.run("kill", "charged")
    process.wait(30)
    until("its memory is given back", lambda: not scene.node.holders())
    said = podman.contain("debian", "mgb", "run", *SHORT, options=["--user=33:33"])
    trial.check("so is another user of its image", passes(*said), said[1])


def under_an_own(trial, scene, podman):
    folder = scene.folder / "own"
    folder.mkdir()
    own = Node(folder, scene.mgb, f"/run/user/{UID}/{ODD}/mgbd.sock", UID)
    try:
        own.start()
        scene.write(own, "/run/cdi/own.json", "--name", "own")
        before = own.granted()
        for options in ([], ["--userns=keep-id"]):
            said = podman.contain("debian", "mgb", "run", *SHORT, device="own", options=options)
            trial.check(f"a user's container is served by that user's mgbd, at an odd path: {' '.join(options)}",
                        passes(*said), said[1])
        trial.check("it was that one", own.granted() >= before + 2)
        code, said = podman.contain("debian", "mgb", "run", *SHORT, device="own", options=["--user=33:33"])
        trial.check("another user of its image is not: it serves that user alone", code == 125 and "permission denied" in said, said)
        made = json.loads(pathlib.Path("/run/cdi/own.json").read_text())["devices"][0]["containerEdits"]["mounts"]
        trial.check("its folder for clients alone is mounted", any(mount["hostPath"].endswith(f"{ODD}/clients") for mount in made))
        code, said = scene.podman.contain("debian", "mgb", "run", *SHORT, device="own")
        trial.check("a container of root's does not trust a user's mgbd, as root does not", code != 0 and f"uid {UID}" in said, said)
    finally:
        own.stop()

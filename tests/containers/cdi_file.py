"""The CDI file itself: what the specification's own checker says of it, and what mgb refuses to write."""

import json
import os
import shutil

from place import REPOSITORY, run

# `make containers-test` installs it from the crate container-device-interface.
VALIDATE = REPOSITORY / "build/containers/bin/validate"


def play(trial, scene):
    said = scene.images.cdi.read_text()
    if VALIDATE.exists():
        code, answer = run([VALIDATE, "--schema", "builtin", scene.images.cdi])
        trial.check("the specification's checker takes the file", code == 0, answer)
        broken = scene.folder / "broken.json"
        broken.write_text(json.dumps(json.loads(said) | {"devices": [{"name": 1}]}))
        code, answer = run([VALIDATE, "--schema", "builtin", broken])
        trial.check("and not a broken one", code != 0, answer)
    else:
        trial.left_out("the specification's checker", f"there is no {VALIDATE}")
    refusals(trial, scene)


def refusals(trial, scene):
    folder = scene.folder / "refused"
    (folder / "open/clients").mkdir(parents=True)
    (folder / "open/clients").chmod(0o777)
    (folder / "linked").mkdir()
    (folder / "linked/clients").symlink_to("/etc")
    (folder / "others/clients").mkdir(parents=True)
    os.chown(folder / "others/clients", 20002, 20002)
    long = folder / ("long" * 30)
    (long / "clients").mkdir(parents=True)
    colon = folder / "a:b"
    shutil.copytree(scene.mgb, colon, symlinks=True)
    state = scene.node.environment["SOFTGPU_STATE"]
    for what, words, variables, wanted in (
        ("a folder that is not there", (), {"MGB_SOCKET": f"{folder}/none/mgbd.sock"}, "does not exist: start mgbd once"),
        ("one that others write", (), {"MGB_SOCKET": f"{folder}/open/mgbd.sock"}, "can be written by others"),
        ("a link", (), {"MGB_SOCKET": f"{folder}/linked/mgbd.sock"}, "is reached by a link"),
        ("another user's", (), {"MGB_SOCKET": f"{folder}/others/mgbd.sock"}, "belongs to uid 20002"),
        ("a path that is too long", (), {"MGB_SOCKET": f"{long}/mgbd.sock"}, "too long for a socket"),
        ("MGB behind a colon", (), {"MGB_PREFIX": str(colon)}, "LD_LIBRARY_PATH"),
        ("no MGB", (), {"MGB_PREFIX": str(folder)}, "is not a complete MGB folder"),
        ("a state in /dev/shm", (), {"SOFTGPU_STATE": "/dev/shm/state"}, "name a file in a folder of its own"),
        ("no state", (), {"SOFTGPU_STATE": ""}, "containers do not get"),
        ("a relative state", (), {"SOFTGPU_STATE": "state"}, "no absolute path"),
        ("a device's name", ("--name", "2nd"), {}, "begins with a letter"),
        ("a file that engines do not read", ("--output", f"{folder}/mgb.txt"), {}, ".json or .yaml alone"),
        ("a folder that is missing", ("--output", f"{folder}/none/mgb.json"), {}, "failed to write"),
    ):
        code, said = scene.node.mgb_run("container", "cdi", *words, **{"SOFTGPU_STATE": state} | variables)
        trial.check(f"it is refused, and said why: {what}", code in (2, 3) and wanted in said, f"{code}: {said}")
    code, said = scene.node.mgb_run("container", "cdi", "--output", f"{folder}/mgb.json")
    same = json.loads((folder / "mgb.json").read_text()) == json.loads(scene.images.cdi.read_text())
    trial.check("with --output the same is in a file, and where engines look is said",
                code == 0 and same and "/etc/cdi" in said, said)
    node = scene.node
    socket, node.socket = node.socket, folder / "before/mgbd.sock"
    (folder / "before/clients").mkdir(parents=True)
    code, said = node.mgb_run("container", "cdi", MGB_SOCKET=str(node.socket))
    node.socket = socket
    trial.check("it is written before mgbd starts, where the folder is there", code == 0, said)

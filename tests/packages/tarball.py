"""The tarball, unpacked in a system where nothing else of MGB is."""

import time

GPUS = ("SOFTGPU_DEVICES=2x64MiB",)


def play(trial, root, tarball):
    """Unpacks the tarball in two folders, and runs what is in it."""
    name = tarball.name.removesuffix(".tar.gz")
    began = time.monotonic()
    trial.must(root, f"mkdir '/opt/a folder' && tar -xf /put/{tarball.name} -C '/opt/a folder'")
    said = trial.must(root, f"'/opt/a folder/{name}/bin/mgb' run '/opt/a folder/{name}/lib/mgb/examples/mgb/vecadd' 100000",
                      environment=GPUS)
    seconds = time.monotonic() - began
    trial.check(f"{root.release}: from the tarball to a finished mgb run", "PASS" in said and seconds < 60,
                f"{seconds:.1f} s, {said.strip()}")
    said = trial.must(root, f"'/opt/a folder/{name}/bin/mgb' stop", environment=GPUS)
    trial.check(f"{root.release}: mgb stop", "has ended" in said, said.strip())

    trial.must(root, f"tar -xf /put/{tarball.name} -C /usr/local --strip-components=1")
    said = trial.must(root, "mgb demo --page /tmp/demo.html", environment=("SOFTGPU_DEVICES=2x256MiB",), limit=300)
    trial.check(f"{root.release}: mgb demo, from /usr/local", "26/26" in said, said.strip().splitlines()[-2])
    said = trial.must(root, "mgb --version; mgbd --version; mgb doctor | head -n 3", environment=GPUS)
    trial.check(f"{root.release}: versions", said.startswith("mgb 0."), said.splitlines()[0])

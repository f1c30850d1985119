"""Checks of the unit files themselves, and of an mgbd that cannot start."""

import re
import time

from service_trial import UNITS


def units(trial):
    paths = [f"{UNITS}/mgbd.{kind}" for kind in ("service", "socket")]
    said = trial.machine.run(["systemd-analyze", "verify", *paths])
    errors = said["stderr"].strip()
    trial.check("systemd-analyze verify is content", said["code"] == 0 and not errors, errors or None)
    said = trial.machine.run(["systemd-analyze", "security", "--no-pager", "mgbd"])["stdout"]
    last = said.strip().splitlines()[-1]
    score = float(re.search(r"([\d.]+) [A-Z]", last).group(1))
    trial.check("systemd-analyze security says at most 2", score <= 2, score)
    trial.check("tmpfiles.d made /run/mgb before mgbd", trial.machine.path("/run/mgb/clients").is_dir())


def said_last(trial):
    return trial.machine.run(["journalctl", "-u", "mgbd", "-o", "cat", "-n", "12"])["stdout"].splitlines()


def cannot_start(trial):
    settings = trial.machine.path("/etc/mgb/mgbd.toml")
    usual = settings.read_text()
    settings.write_text('polcy = "mgb"\n')
    said = trial.systemctl("start", "mgbd")
    state = lambda: trial.show("ActiveState", "NRestarts")
    failed = trial.until(lambda: state()["ActiveState"] == "failed", 20)
    trial.check("with wrong settings it fails", said["code"] != 0 and failed is not None, state())
    trial.check("  and says why", any("polcy" in line for line in said_last(trial)))
    settings.write_text(usual)
    trial.systemctl("reset-failed", "mgbd")
    trial.drop_in("Environment=SOFTGPU_DEVICES=none")
    began = time.monotonic()
    trial.systemctl("start", "mgbd")
    failed = trial.until(lambda: state()["ActiveState"] == "failed", 40)
    figure = {**state(), "seconds": round(time.monotonic() - began, 1)}
    trial.check("without a GPU it is given up", failed is not None, figure)
    trial.drop_in("")
    trial.systemctl("reset-failed", "mgbd")
    trial.said()

"""The Debian packages: installed, upgraded while jobs run, removed and purged."""

import json
import time

GPUS = ("SOFTGPU_DEVICES=2x64MiB", "XDG_RUNTIME_DIR=/tmp/run")
EXAMPLES = "/usr/lib/mgb/examples/mgb"
# Eight jobs of 24 MiB, of which four fit at once, until they are told to end; each says PASS.
JOBS = f"""
mkdir -p /tmp/jobs /tmp/run && chmod 700 /tmp/run
for number in 1 2 3 4 5 6 7 8; do
    (mgb run {EXAMPLES}/phases 24 24 100 wait 100 1 >/tmp/jobs/$number 2>&1; echo "exit $?" >>/tmp/jobs/$number) &
done
wait
"""
# Short jobs, one after the other, as long as an upgrade takes: all of them find whole files.
SHORT = f"""
while [ ! -e /tmp/upgraded ]; do
    mgb run {EXAMPLES}/vecadd 1000 >/tmp/short.one 2>&1 || cat /tmp/short.one >>/tmp/short.wrong
    cat /tmp/short.one >>/tmp/short.all
done
"""
# What dpkg and the tools of accounts change for themselves.
OWN = ("/var/lib/dpkg", "/var/log", "/var/cache", "/var/lib/apt", "/etc/group", "/etc/gshadow", "/etc/.pwd.lock", "/tmp", "/root",
       "/etc/ld.so.cache", "/run", "/var/lib/systemd")


def package(folder, name):
    return f"/put/{folder}/{name}_*.deb"


def is_others(path):
    return any(path.lstrip(".").startswith(own) for own in OWN)


def new_files(before, after):
    return sorted(path for path in after if path not in before and not is_others(path))


def tasks(trial, root):
    """Which tasks run under the mgbd that is there."""
    code, said = root.run("mgb status --json", environment=GPUS)
    return json.loads(said)["tasks"] if code == 0 else []


def upgrade(trial, root):
    """Installs the next version while eight jobs run and others start."""
    jobs, short = root.start(JOBS, GPUS), root.start(f"mkdir -p /tmp/run && chmod 700 /tmp/run; {SHORT}", GPUS)
    deadline = time.monotonic() + 60
    while len(tasks(trial, root)) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    before = len(tasks(trial, root))
    trial.must(root, f"dpkg -i {package('next', 'mgb')} {package('next', 'mgb-slurm')}")
    during = len(tasks(trial, root))
    trial.must(root, "sleep 1; touch /tmp/upgraded")
    short.wait(60)
    jobs.wait(300)
    code, said = root.run("cat /tmp/jobs/*")
    lines = said.splitlines()
    ended = lines.count("exit 0")
    noise = [line for line in lines if "PASS" not in line and line != "exit 0"]
    trial.check(f"{root.release}: an upgrade while {before} of 8 jobs run, {during} after it: none notices",
                before >= 4 and ended == 8 and not noise, f"{ended} done {noise}")
    code, said = root.run("grep -c PASS /tmp/short.all; cat /tmp/short.wrong 2>/dev/null")
    count, _, wrong = said.partition("\n")
    trial.check(f"{root.release}: jobs that start meanwhile", int(count) > 0 and not wrong, f"{count} jobs {wrong}")
    said = trial.must(root, "dpkg-query -W -f '${Version}' mgb")
    trial.check(f"{root.release}: the next version is installed", said.endswith("+next"), said)


def play(trial, root):
    before, group = root.files(), root.run("cat /etc/group /etc/gshadow")[1]
    began = time.monotonic()
    trial.must(root, f"dpkg -i {package('now', 'mgb')}")
    said = trial.must(root, f"mgb run {EXAMPLES}/vecadd 100000", environment=GPUS[:1])
    seconds = time.monotonic() - began
    trial.check(f"{root.release}: from the package to a finished mgb run", "PASS" in said and seconds < 60,
                f"{seconds:.1f} s, {said.strip()}")
    trial.must(root, "mgb stop", environment=GPUS[:1])
    trial.must(root, f"dpkg -i {package('now', 'mgb-slurm')}")
    said = trial.must(root, "getent group gpu; bash -c '. /usr/share/bash-completion/completions/mgb && complete -p mgb'; "
                            "ls /usr/share/man/man1/mgb-run.1.gz /usr/lib/systemd/system/mgbd.service /etc/mgb/mgbd.toml; "
                            "zcat /usr/share/man/man8/mgbd.8.gz | head -n 4; test -e /usr/bin/mgb-health && "
                            "zcat /usr/share/man/man1/mgb-health.1.gz | head -n 4")
    trial.check(f"{root.release}: pages, completions, units, settings, the group", "complete -" in said, "")
    said = trial.must(root, "mgbd --settings /etc/mgb/mgbd.toml --check | head -n 1")
    trial.check(f"{root.release}: the settings that come with it", "are right" in said, said.strip())

    upgrade(trial, root)

    # Settings that an administrator has changed stay until the purge, and those who run when it is removed run on.
    trial.must(root, "echo '# mine' >>/etc/mgb/mgbd.toml")
    job = root.start(f"mgb run {EXAMPLES}/phases 24 24 100 wait 30 1", GPUS)
    while not tasks(trial, root):
        time.sleep(0.1)
    trial.must(root, "dpkg -r mgb-slurm mgb")
    left = new_files(before, root.files())
    trial.check(f"{root.release}: removed, the settings stay alone",
                left == ["./etc/mgb", "./etc/mgb/mgbd.toml", "./var/lib/mgb", "./var/lib/mgb/group-made"], f"{left[:20]}")
    said = job.communicate(timeout=120)[0]
    trial.check(f"{root.release}: a job that runs meanwhile", job.returncode == 0 and "PASS" in said, said.strip())
    trial.must(root, "dpkg -P mgb-slurm mgb")
    after = root.files()
    left, gone = new_files(before, after), new_files(after, before)
    trial.check(f"{root.release}: purged, nothing is left", not left and not gone, f"{left[:20]} {gone[:20]}")
    now = root.run("cat /etc/group /etc/gshadow")[1]
    trial.check(f"{root.release}: the groups are as before", now == group, "" if now == group else now[-200:])

"""A Slurm cluster of one head and some nodes: each a Debian with systemd in namespaces of its own, on a network of
their own. They share a Debian in a folder, which none of them writes to, and /home."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "systemd"))

from machine import MIRROR, PACKAGES, Machine, Missing, make_root  # noqa: E402

SLURM = ("iproute2,munge,mariadb-server,slurmctld,slurmd,slurmdbd,slurm-client,slurm-wlm-basic-plugins,"
         "python3-minimal")
USERS = ("alice", "bob")
HEAD = "head"
# Where the software GPUs lie on a node; the dynamic linker finds them where Debian has the driver.
LIBRARIES = "/opt/softgpu"
# What a node's driver would know by itself: which GPUs there are.
SOFTGPU = "/etc/softgpu.env"
# Debian enables Slurm's daemons as it installs them; here each starts once it is set up.
LATER = ("slurmctld", "slurmd", "slurmdbd", "mariadb", "munge")

# States of jobs that go on.
UNENDED = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED"}
# What an administrator does.
PAGE = REPOSITORY / "docs/SLURM.md"

SLURM_CONF = """\
ClusterName=trial
SlurmctldHost=head
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
MinJobAge=600
InactiveLimit=0
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=20000,bf_interval=2,defer_batch
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=head
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
TaskProlog=/etc/slurm/softgpu-prolog
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
{more}
"""
DBD_CONF = """\
AuthType=auth/munge
DbdHost=head
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
# What the software GPUs of the node are: a driver needs no variable.
PROLOG = """\
#!/bin/sh
sed 's/^/export /' /etc/softgpu.env
"""
MYSQL = "CREATE USER 'slurm'@'localhost' IDENTIFIED BY 'slurm'; GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';"
MARIADB_CONF = """\
[mysqld]
innodb_buffer_pool_size=64M
innodb_lock_wait_timeout=900
innodb_flush_log_at_trx_commit=2
"""


def make(root, release="bookworm"):
    """Installs the Debian that all machines share. Takes two minutes, and 750 MiB."""
    make_root(root, release, f"{PACKAGES},{SLURM}{',libmpich12' if release == 'bookworm' else ''}")
    if release == "bookworm":
        # Its development package would bring a compiler for Fortran. In Debian 13 MPICH brings ROCm.
        unpack(root, "libmpich-dev", "/opt/mpich")
    else:
        # Debian 13's libmariadb3 11.8.9 allows results of 0 columns to slurmdbd 24.11.5, which then ends.
        unpack(root, "libmariadb3/bookworm", "/opt/older", "bookworm")


def unpack(root, package, folder, source=None):
    """What a package holds, in a folder of its own; from another Debian where `source` says so."""
    line = f"deb [trusted=yes] {MIRROR} {source} main" if source else ""
    took = subprocess.run(["chroot", root, "sh", "-ec", f"""
        cp /etc/apt/sources.list /tmp/sources; echo '{line}' >>/etc/apt/sources.list; apt-get update -qq
        cd /tmp && apt-get download -qq {package} && dpkg -x *.deb {folder}
        cp /tmp/sources /etc/apt/sources.list; rm /tmp/*.deb"""], capture_output=True, text=True)
    if took.returncode != 0:
        shutil.rmtree(root)
        raise Missing(f"{package} cannot be had: {took.stderr[-300:]}")


def blocks(page):
    """What a page has to be done, in its order: on which machines, and the lines."""
    return re.findall(r"<!-- on: (\w+) -->\n```sh\n(.*?)```", page, re.DOTALL)


class Cluster:
    """The machines, and what one does on them."""

    def __init__(self, root, prefix, gpus=("2x64MiB",) * 3, cpus=16, more="", examples=None):
        """`gpus`: SOFTGPU_DEVICES of each node. `more`: further lines of slurm.conf, before MGB comes.
        `examples`: where MGB's examples are, if not in the prefix."""
        self.root, self.prefix, self.cpus, self.more = root, prefix, cpus, more
        self.gpus = {f"n{at + 1}": devices for at, devices in enumerate(gpus)}
        self.examples = {"mgb": examples or prefix / "examples/mgb", "plain": prefix / "examples/plain"}
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="mgb-slurm-", dir=root.parent))
        self.machines, self.version = {}, ""

    # Set-up.

    @property
    def nodes(self):
        return list(self.gpus)

    @property
    def head(self):
        return self.machines[HEAD]

    def folder(self, name):
        """What a machine has of its own, before it is switched on."""
        return self.work / name / "upper"

    def write(self, names, path, text, mode=0o644):
        """A file on machines, running or not."""
        for name in [names] if isinstance(names, str) else names:
            machine = self.machines.get(name)
            file = machine.path(path) if machine and machine.pid else self.folder(name) / path[1:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(mode)

    def layer(self):
        """The software GPUs and programs, as on all machines; and MGB, in a folder that all see."""
        layer, shared = self.work / "layer", self.work / "home/mgb"
        programs = layer / "usr/local/share/mgb"
        programs.mkdir(parents=True)
        subprocess.run([REPOSITORY / "tools/install.py", "--destdir", shared, "install", self.prefix, "/usr/local", "run", "slurm"],
                       check=True, stdout=subprocess.DEVNULL)
        for kind, folder in self.examples.items():
            if folder.is_dir():
                shutil.copytree(folder, programs / kind)
        shutil.copytree(self.prefix / "lib/softgpu", layer / LIBRARIES[1:], symlinks=True)
        usual = layer / "usr/lib/x86_64-linux-gnu"
        usual.mkdir(parents=True)
        for library in (layer / LIBRARIES[1:]).glob("*.so.*"):
            (usual / library.name).symlink_to(f"{LIBRARIES}/{library.name}")
        # The programs were built elsewhere, and look for the runtime there.
        (usual / "libmgb_rt.so").symlink_to("/usr/local/lib/mgb/lib/libmgb_rt.so")
        return layer

    def prepare(self, name):
        """What is on a machine before it is switched on: its name, the network's names, and keys."""
        self.folder(name).mkdir(parents=True)
        (self.work / name / "work").mkdir()
        (self.work / name / "root").mkdir()
        self.write(name, "/etc/hostname", f"{name}\n")
        names = [HEAD, *self.nodes]
        hosts = [f"10.77.0.{at + 1} {host}" for at, host in enumerate(names)]
        self.write(name, "/etc/hosts", "\n".join(["127.0.0.1 localhost", *hosts, ""]))
        for unit in LATER:
            wanted = self.folder(name) / "etc/systemd/system/multi-user.target.wants"
            wanted.mkdir(parents=True, exist_ok=True)
            # A character device 0:0 hides the file below it.
            if (self.root / wanted.relative_to(self.folder(name)) / f"{unit}.service").is_symlink():
                os.mknod(wanted / f"{unit}.service", 0o20600, 0)

    def boot(self, name):
        """Switches a machine on, and connects it."""
        overlay = (f"lowerdir={self.work / 'layer'}:{self.root},upperdir={self.folder(name)},"
                   f"workdir={self.work / name / 'work'}")
        machine = Machine(self.work / name / "root", overlay, name, self.work / "home")
        self.machines[name] = machine
        state = machine.boot()
        try:
            self.connect(name)
        except subprocess.CalledProcessError as error:
            raise Missing(f"no network between namespaces can be made: {error}") from error
        if machine.freezer is not None:
            self.must(name, "mkdir -p /run/cgroup/freezer; mount -t cgroup -o freezer freezer /run/cgroup/freezer")
        return state

    def connect(self, name):
        """A cable from a node to the head, which is the switch."""
        if name == HEAD:
            self.on_net(HEAD, "ip link set lo up; ip link add br0 type bridge; ip addr add 10.77.0.1/24 dev br0;"
                              "ip link set br0 up")
        else:
            at = 2 + self.nodes.index(name)
            pid = self.machines[name].pid
            self.on_net(HEAD, f"ip link add to-{name} type veth peer name eth0 netns {pid}")
            self.on_net(HEAD, f"ip link set to-{name} master br0; ip link set to-{name} up")
            self.on_net(name, f"ip link set lo up; ip addr add 10.77.0.{at}/24 dev eth0; ip link set eth0 up")

    def on_net(self, name, text):
        subprocess.run(["nsenter", "-t", str(self.machines[name].pid), "--net", "sh", "-ec", text], check=True)

    def must(self, name, command, user=None, **also):
        """Runs a shell line on a machine, which must end well; what it printed."""
        said = self.run(name, command, user, **also)
        if said["code"] != 0:
            raise RuntimeError(f"{name}: {command}: {said['code']}: {said['stdout'][-2000:]}{said['stderr'][-2000:]}")
        return said["stdout"]

    def run(self, name, command, user=None, environment=(), timeout=120):
        """Runs a shell line on a machine: its exit code, output, errors and seconds."""
        home = ["HOME=/root"] if user is None else [f"HOME=/home/{user}", f"USER={user}", f"LOGNAME={user}"]
        folder = "/root" if user is None else f"/home/{user}"
        return self.machines[name].run(["sh", "-c", f"cd {folder} && {command}"], user, [*home, *environment], timeout)

    def start(self, with_mgb=True):
        """Switches all machines on, with Slurm on them, and MGB as docs/SLURM.md has it."""
        (self.work / "home").mkdir(parents=True)
        self.layer()
        for name in [HEAD, *self.nodes]:
            self.prepare(name)
        for name in [HEAD, *self.nodes]:
            self.boot(name)
        for name in self.machines:
            self.must(name, "ldconfig; chown munge: /etc/munge/munge.key; systemctl start munge")
            for at, user in enumerate(USERS):
                self.must(name, f"useradd --uid {2000 + at} --create-home --shell /bin/bash {user} 2>/dev/null || "
                                f"id {user}")
        for name, devices in self.gpus.items():
            self.add_gpus(name, devices)
        self.start_slurm()
        if with_mgb:
            self.follow()

    def add_gpus(self, name, devices):
        """Software GPUs, and what mgbd needs for them: what a driver needs no words for."""
        self.write(name, SOFTGPU, f"SOFTGPU_DEVICES={devices}\nSOFTGPU_STATE=/run/softgpu/state\n")
        self.write(name, "/etc/tmpfiles.d/softgpu.conf",
                   "d /run/softgpu 0755 root root -\nf /run/softgpu/state 0666 root root -\n")
        self.write(name, "/etc/systemd/system/mgbd.service.d/softgpu.conf",
                   f"[Service]\nEnvironmentFile={SOFTGPU}\nReadWritePaths=/run/softgpu\n")
        self.must(name, "systemd-tmpfiles --create softgpu.conf")

    def follow(self, page=PAGE):
        """Does what a page says, block by block, on the machines that it names; seconds for each."""
        took = []
        for number, (where, block) in enumerate(blocks(page.read_text()), 1):
            began = time.monotonic()
            for name in [HEAD] if where == "head" else self.nodes:
                self.must(name, f"set -e; {block}")
            took.append((number, where, time.monotonic() - began))
        # The head shows the cluster, and has no GPUs of its own.
        self.must(HEAD, "cp -R --remove-destination /home/mgb/usr /")
        self.wait(self.is_idle, 60, "all nodes are idle")
        return took

    def start_slurm(self):
        """A cluster as a site has it: accounting, and GPU memory as a consumable."""
        for name in self.machines:
            self.must(name, "mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /var/log/slurm; chown -R slurm: "
                            "/var/lib/slurm/slurmctld /var/log/slurm")
        self.write(HEAD, "/etc/mysql/mariadb.conf.d/70-slurm.cnf", MARIADB_CONF)
        self.write(HEAD, "/etc/slurm/slurmdbd.conf", DBD_CONF, 0o600)
        self.must(HEAD, "chown slurm: /etc/slurm/slurmdbd.conf; systemctl start mariadb")
        self.must(HEAD, f'mariadb -e "{MYSQL}"')
        self.configure()
        # Without a slurm.conf even this asks the network for one.
        self.version = self.must(HEAD, "sinfo --version").split()[1]
        older = "/opt/older/usr/lib/x86_64-linux-gnu"
        if (self.root / older[1:]).is_dir():
            self.write(HEAD, "/etc/systemd/system/slurmdbd.service.d/older.conf",
                       f"[Service]\nEnvironment=LD_LIBRARY_PATH={older}\n")
        self.must(HEAD, "systemctl daemon-reload; systemctl start slurmdbd")
        self.wait(lambda: self.run(HEAD, "sacctmgr -n show cluster")["code"] == 0, 30, "slurmdbd answers")
        self.must(HEAD, "systemctl start slurmctld")
        self.wait(lambda: "UP" in self.run(HEAD, "scontrol ping")["stdout"], 30, "slurmctld answers")
        self.must(HEAD, "sacctmgr -i add account trial; sacctmgr -i add user alice,bob account=trial", environment=[])
        for name in self.nodes:
            self.must(name, "systemctl start slurmd")
        self.wait(self.is_idle, 60, "all nodes are idle")

    def configure(self):
        """The same files on all machines, without MGB."""
        lines = [f"NodeName={name} CPUs={self.cpus} RealMemory=4000 State=UNKNOWN" for name in self.nodes]
        text = SLURM_CONF.format(nodes="\n".join(lines), more=self.more)
        names = [HEAD, *self.nodes]
        self.write(names, "/etc/slurm/slurm.conf", text)
        first = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/run/cgroup\n" if self.head.freezer else ""
        self.write(names, "/etc/slurm/cgroup.conf", f"{first}ConstrainDevices=no\n")
        self.write(names, "/etc/slurm/softgpu-prolog", PROLOG, 0o755)

    def set(self, lines):
        """Further lines of slurm.conf everywhere, the later ones instead of those of the same name; daemons start
        anew."""
        for name in self.machines:
            text = self.must(name, "cat /etc/slurm/slurm.conf")
            for line in lines:
                text = re.sub(f"(?m)^{line.split('=')[0]}=.*\n", "", text)
                # Without a value it is as Slurm has it.
                text += "" if line.endswith("=") else f"{line}\n"
            self.write(name, "/etc/slurm/slurm.conf", text)
        self.must(HEAD, "systemctl restart slurmctld")
        self.wait(lambda: "UP" in self.run(HEAD, "scontrol ping")["stdout"], 30, "slurmctld answers")
        for name in self.nodes:
            self.must(name, "systemctl restart slurmd")
        self.wait(self.is_idle, 60, "all nodes are idle")

    # What there is.

    def is_idle(self):
        said = self.run(HEAD, "sinfo -h -N -o '%N %T'")["stdout"].split("\n")
        # A line for each of a node's partitions.
        return {line for line in said if line} == {f"{name} idle" for name in self.nodes}

    def status(self, name):
        """A node's view."""
        return json.loads(self.must(name, "mgb status --json"))

    def submit(self, options, script, user="alice", **also):
        """Submits a script, by its text; the job's number."""
        text = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        quoted = text.replace("'", "'\\''")
        said = self.must(HEAD, f"printf %s '{quoted}' | sbatch --parsable {options}", user, **also)
        return int(said.split(";")[0])

    def job(self, number):
        """What slurmctld says of a job, by name."""
        text = self.run(HEAD, f"scontrol show job -o {number}")["stdout"]
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def sacct(self, number, fields="JobID,State,ExitCode,NodeList"):
        """Lines of sacct, each a list."""
        text = self.must(HEAD, f"sacct -n -P -j {number} -o {fields}")
        return [line.split("|") for line in text.splitlines()]

    def states(self):
        """How many jobs are in each state."""
        states = {}
        for state in self.run(HEAD, "squeue -h -t all -o %T")["stdout"].split():
            states[state] = states.get(state, 0) + 1
        return states

    def wait_for(self, numbers, seconds=120):
        """Waits until jobs have ended; their states, by number."""
        numbers = [numbers] if isinstance(numbers, int) else list(numbers)
        ended = {}

        def all_ended():
            said = self.run(HEAD, f"squeue -h -t all -j {','.join(map(str, numbers))} -o '%A %T'")
            if said["code"] != 0 and "Invalid job id" not in said["stderr"]:
                return False
            ended.update(line.split() for line in said["stdout"].splitlines())
            # What slurmctld has forgotten, slurmdbd knows.
            for job in (number for number in numbers if str(number) not in ended):
                ended.update({str(job): line[0].split()[0] for line in self.sacct(job, "State")[:1]})
            if any(str(number) not in ended for number in numbers):
                return False
            return not UNENDED & set(ended.values())

        self.wait(all_ended, seconds, f"jobs {numbers} end")
        return {int(number): state for number, state in ended.items()}

    @staticmethod
    def wait(condition, seconds, what):
        """Waits; seconds until it holds."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() > began + seconds:
                raise RuntimeError(f"not within {seconds} s: {what}")
            time.sleep(0.05)
        return time.monotonic() - began

    def logs(self, lines=30):
        """The ends of all logs, for people."""
        said = []
        for name in self.machines:
            with contextlib.suppress(Exception):
                said.append(f"== {name}\n" + self.run(name, f"tail -n {lines} /var/log/slurm/*.log; "
                                                      f"journalctl -n {lines} --no-pager -o cat")["stdout"])
        return "\n".join(said)

    def tidy(self):
        """What an administrator does once slurmctld was killed as it started jobs: it may start some twice, drains
        the nodes that refuse that ("Duplicate jobid"), and holds the jobs back. Returns how many it held."""
        for name in self.nodes:
            # Refused where nothing is wrong.
            self.run(HEAD, f"scontrol update nodename={name} state=resume")
        waiting = self.run(HEAD, "squeue -h -t pending -o '%A %r'")["stdout"].splitlines()
        held = [line.split()[0] for line in waiting if "held" in line.lower()]
        if held:
            self.run(HEAD, f"scontrol release {' '.join(held)}")
        return len(held)

    # What happens to it.

    def cut_power(self, name):
        """A node fails: all that runs on it is gone at once."""
        self.machines[name].clean_up()

    def boot_again(self, name):
        """The failed node comes back, with what was on its disk."""
        self.boot(name)
        self.must(name, "systemctl start munge slurmd")

    def stop(self):
        """Ends it all."""
        usual = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for machine in self.machines.values():
            machine.clean_up()
        shutil.rmtree(self.work, ignore_errors=True)
        signal.signal(signal.SIGTERM, usual)

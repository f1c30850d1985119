"""A Slurm cluster of one node on a machine that has neither Slurm nor systemd: what pack_slurm.py has packed,
unpacked under /, with munge and accounting, all as root; and MGB on it, as docs/SLURM.md has it. Needs root,
and a machine that is thrown away afterwards."""

import fcntl
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import time

from trial import Trial, kill_group

# MGB, for all users.
MGB = pathlib.Path("/opt/mgb")
USER, HOME = "alice", pathlib.Path("/home/alice")
ETC, LOGS, STATE = (pathlib.Path(at) for at in ("/etc/slurm", "/var/log/slurm-node", "/var/lib/slurm-node"))
LIBRARIES = "/opt/slurm-node/lib"
# Slurm gives out the numbers of files that are devices; which ones makes no difference.
DEVICE = "/dev/slurm-node"

# Gives an interface an address (linux/sockios.h).
SIOCSIFADDR = 0x8916

# Without control groups, which a machine may lack.
SLURM_CONF = """\
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
StateSaveLocation={state}/slurmctld
SlurmdSpoolDir={state}/slurmd
SlurmctldLogFile={logs}/slurmctld.log
SlurmdLogFile={logs}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
MinJobAge=600
InactiveLimit=0
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000 State=UNKNOWN {gres}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
{more}
"""
MGB_CONF = f"""\
GresTypes=mgb_mem,mgb_share,mgb_gpu
AccountingStorageTRES=gres/mgb_mem,gres/mgb_share
HealthCheckProgram={MGB}/bin/mgb-health
HealthCheckInterval=60
"""
DBD_CONF = """\
AuthType=auth/munge
DbdHost={host}
DbdAddr=127.0.0.1
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StoragePass=none
StorageLoc=slurm_acct_db
LogFile={logs}/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
MARIADB = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={STATE}/mysql",
           "--innodb-use-native-aio=0"]
DATABASE = ["--skip-grant-tables", "--skip-networking", "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=2"]
# Of slurmd, as systemd has it.
GROUPS = pathlib.Path("/sys/fs/cgroup/system.slice/slurmd.service")
# munge looks at who may write to its folders.
FOLDERS = {"/etc/munge": 0o700, "/var/lib/munge": 0o711, "/var/log/munge": 0o700, "/run/munge": 0o755,
           "/run/mysqld": 0o700, "/run/mgb": 0o755, ETC: 0o755, LOGS: 0o755, STATE / "slurmctld": 0o755,
           STATE / "slurmd": 0o755, STATE / "mysql": 0o755}
# What must find all its libraries.
LINKED = ("/usr/sbin/slurmd /usr/sbin/slurmctld /usr/sbin/slurmdbd /usr/sbin/munged /usr/sbin/mariadbd "
          "/usr/bin/sacct /usr/lib/x86_64-linux-gnu/slurm-wlm/*.so")


class NodeTrial(Trial):
    """A trial whose mgbd is the node's, which everybody finds without being told. Where the environment tells
    of software GPUs, it runs on these: that is how it is tried out."""

    software = {name: value for name, value in os.environ.items() if name.startswith("SOFTGPU")}

    def environment(self, **more):
        environment = super().environment(**self.software, **more)
        del environment["MGB_SOCKET"]
        return environment


def name_of_machine():
    """Its name, as Slurm has it; a machine without one gets one."""
    name = socket.gethostname().split(".")[0]
    if name == "localhost" or not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name):
        name = "node"
        socket.sethostname(name)
    return name


class OneNode:
    """The cluster, and what one does on it."""

    def __init__(self, trial, archive, tuned="", groups=False):
        """`archive`: what pack_slurm.py has packed. `tuned`: a line of slurm.conf. `groups`: Slurm has control groups,
        of the second version."""
        self.trial, self.archive, self.tuned, self.groups, self.daemons = trial, archive, tuned, groups, {}
        self.host = name_of_machine()
        # Each job takes one, and they mostly wait.
        self.cpus = max(32, os.cpu_count())

    # Set-up.

    def start(self):
        """Unpacks everything, and starts what does not depend on the kind of cluster."""
        # Users have to reach what is made here.
        os.umask(0o022)
        self.unpack()
        for folder, mode in FOLDERS.items():
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, mode)
        if subprocess.run(["id", USER], capture_output=True).returncode != 0:
            self.must(f"useradd --create-home --shell /bin/bash {USER}")
        HOME.mkdir(exist_ok=True)
        shutil.chown(HOME, USER, USER)
        self.be_found()
        key = pathlib.Path("/etc/munge/munge.key")
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.daemon("munged", "munged", "--foreground", "--force")
        self.start_database()
        self.write(ETC / "slurmdbd.conf", DBD_CONF.format(host=self.host, logs=LOGS), 0o600)
        self.configure()
        self.daemon("slurmdbd", "slurmdbd", "-D")
        self.wait(lambda: self.run("sacctmgr -n show cluster")["code"] == 0, 60, "slurmdbd answers")
        self.start_slurm()
        self.must(f"sacctmgr -i add account trial; sacctmgr -i add user {USER} account=trial")

    def unpack(self):
        """Nothing that is there already is touched."""
        with tarfile.open(self.archive) as archive:
            for entry in archive:
                if not os.path.lexists(f"/{entry.name}"):
                    archive.extract(entry, "/", filter="fully_trusted")
        # By their names these come after the machine's own.
        self.write("/etc/ld.so.conf.d/zz-slurm-node.conf", f"{LIBRARIES}\n")
        self.must("ldconfig")
        missing = self.run(f"ldd {LINKED} | grep 'not found'")["stdout"]
        if missing:
            raise RuntimeError(f"this machine lacks libraries: {missing}")
        for folder in ("bin", "lib", "examples/mgb", "examples/plain"):
            shutil.copytree(self.trial.prefix / folder, MGB / folder, symlinks=True, dirs_exist_ok=True)
        for path in [MGB, *MGB.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755)
        self.trial.prefix = MGB

    def be_found(self):
        """The machine's own name has to lead to it, also where it is in no network."""
        try:
            socket.getaddrinfo(None, 6817, socket.AF_INET, flags=socket.AI_ADDRCONFIG | socket.AI_PASSIVE)
        except OSError:
            # Slurm asks for addresses of a family of which the machine has another one than 127.0.0.1.
            address = struct.pack("=16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("192.0.2.1"))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                fcntl.ioctl(any_socket, SIOCSIFADDR, address)
        try:
            socket.gethostbyname(self.host)
        except OSError:
            with open("/etc/hosts", "a") as hosts:
                hosts.write(f"127.0.0.1 {self.host}\n")

    def start_database(self):
        """MariaDB with its own tables and no users: the folder of its socket is root's."""
        tables = ("mysql_system_tables", "mysql_performance_tables")
        text = "".join(pathlib.Path(f"/usr/share/mysql/{name}.sql").read_text() for name in tables)
        said = subprocess.run([*MARIADB, "--bootstrap"], input=f"create database mysql;\nuse mysql;\n{text}",
                              text=True, capture_output=True)
        if said.returncode != 0:
            raise RuntimeError(f"mariadbd --bootstrap: {said.stderr[-2000:]}")
        where = pathlib.Path("/run/mysqld/mysqld.sock")
        self.daemon("mariadbd", *MARIADB, *DATABASE, f"--socket={where}")
        self.wait(where.exists, 60, "mariadbd listens")

    def configure(self, gres="", more="", devices=""):
        """The files of a cluster whose node has these GRES. `devices`: gres.conf."""
        text = SLURM_CONF.format(host=self.host, state=STATE, logs=LOGS, cpus=self.cpus, gres=gres,
                                 more=f"{self.tuned}\n{more}")
        if self.groups:
            text = text.replace("proctrack/linuxproc", "proctrack/cgroup")
        self.write(ETC / "slurm.conf", text)
        self.write(ETC / "gres.conf", devices)
        # Which version a machine has is of no matter, and Slurm refuses a mixture of both.
        plugin = "cgroup/v2\nIgnoreSystemd=yes" if self.groups else "cgroup/v1"
        self.write(ETC / "cgroup.conf", f"CgroupPlugin={plugin}\nConstrainDevices=no\n")
        self.write(ETC / "plugstack.conf", "")

    def start_slurm(self):
        """slurmctld and slurmd, anew where they run."""
        self.end("slurmd")
        self.end("slurmctld")
        self.daemon("slurmctld", "slurmctld", "-D")
        self.wait(lambda: "UP" in self.run("scontrol ping")["stdout"], 60, "slurmctld answers")
        if self.groups:
            # Where systemd would start it.
            GROUPS.mkdir(parents=True, exist_ok=True)
            for folder in reversed(GROUPS.parents[:2]):
                for controller in ("cpu", "cpuset", "memory"):
                    (folder / "cgroup.subtree_control").write_text(f"+{controller}")
            self.daemon("slurmd", "sh", "-c", f"echo $$ >{GROUPS}/cgroup.procs; exec slurmd -D")
        else:
            self.daemon("slurmd", "slurmd", "-D")
        self.wait(self.is_idle, 60, "the node is idle")

    def with_gpus(self, count, shards=0):
        """Slurm's own GRES: whole GPUs, or so many parts of each."""
        for at in range(count):
            if not os.path.exists(f"{DEVICE}{at}"):
                # As /dev/null.
                os.mknod(f"{DEVICE}{at}", 0o20666, os.makedev(1, 3))
        files = f"Name=gpu File={DEVICE}[0-{count - 1}]\n"
        if shards:
            self.configure(f"Gres=gpu:{count},shard:{shards * count}", "GresTypes=gpu,shard",
                           f"{files}Name=shard Count={shards * count}\n")
        else:
            self.configure(f"Gres=gpu:{count}", "GresTypes=gpu", files)
        self.start_slurm()

    def with_mgb(self):
        """What docs/SLURM.md has one do, without systemd; what `mgb cluster check` says of it."""
        gres = self.must(f"{MGB}/bin/mgb cluster setup --gres").strip()
        self.configure(gres, MGB_CONF)
        self.must(f"{MGB}/bin/mgb cluster plugin --slurm {self.version()} --out {ETC}/mgb_spank.so")
        self.write(ETC / "plugstack.conf", f"optional {ETC}/mgb_spank.so prefix={MGB}\n")
        self.start_slurm()
        return self.run(f"{MGB}/bin/mgb cluster check")

    def version(self):
        return self.must("sinfo --version").split()[1]

    # Programs.

    def daemon(self, name, *command):
        """Starts one of the cluster's daemons, in front."""
        with open(LOGS / f"{name}.out", "a") as log:
            self.daemons[name] = self.trial.spawn(command, stdout=log, stderr=log)

    def end(self, name):
        """Ends one as its administrator would."""
        daemon = self.daemons.pop(name, None)
        if daemon is None:
            return
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            kill_group(daemon)
            daemon.wait()
        self.trial.running.remove(daemon)

    def stop(self):
        """Ends it all: what else runs are the jobs' processes."""
        if "slurmctld" in self.daemons:
            self.run(f"scancel -u {USER}")
            self.until(self.is_idle, 30)
        for name in reversed(list(self.daemons)):
            self.end(name)

    def run(self, line, user=None, timeout=120):
        """Runs a shell line: its exit code, output and errors."""
        own, who = {"HOME": "/root"}, {}
        if user is not None:
            entry = pwd.getpwnam(user)
            own = {"HOME": entry.pw_dir, "USER": user, "LOGNAME": user}
            who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        said = subprocess.run(["sh", "-c", line], env=self.trial.environment(**own), cwd=own["HOME"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                              **who)
        return {"code": said.returncode, "stdout": said.stdout, "stderr": said.stderr}

    def must(self, line, user=None):
        """Runs one that must end well; what it printed."""
        said = self.run(line, user)
        if said["code"] != 0:
            raise RuntimeError(f"{line[:300]}: {said['code']}: "
                               f"{said['stdout'][-2000:]}{said['stderr'][-2000:]}")
        return said["stdout"]

    @staticmethod
    def write(path, text, mode=0o644):
        path = pathlib.Path(path)
        path.write_text(text)
        path.chmod(mode)

    # Jobs.

    def submit(self, command, options=""):
        """Submits a shell line as the user; the job's number."""
        quoted = f"#!/bin/sh\n{command}\n".replace("'", "'\\''")
        said = self.must(f"printf %s '{quoted}' | sbatch --parsable -t 5 -o {HOME}/%j.out {options}", USER)
        return int(said.split(";")[0])

    def output(self, job):
        file = HOME / f"{job}.out"
        return file.read_text() if file.exists() else ""

    def state(self, job):
        """A job's state, as Slurm's controller has it."""
        found = re.search(r"JobState=(\w+)", self.run(f"scontrol show job -o {job}")["stdout"])
        return found.group(1) if found else ""

    def wrong(self, jobs, seconds=60):
        """What is wrong with the ends of jobs that print PASS; waits for them."""
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
        ended = self.until(lambda: all(self.state(job) in over for job in jobs), seconds)
        wrong = {job: (self.state(job), self.output(job)[-300:]) for job in jobs
                 if self.state(job) != "COMPLETED" or "PASS" not in self.output(job)}
        return wrong if ended else {"not ended": wrong}

    def records(self, jobs):
        """What sacct has of MGB's, by job: figures by name."""
        text = self.must(f"sacct -n -P -X -j {','.join(map(str, jobs))} -o JobID,AdminComment")
        records = {}
        for job, comment in (line.split("|", 1) for line in text.splitlines()):
            own = re.search(r"mgb\{(.*?)\}", comment)
            if own:
                pairs = (word.split("=") for word in own.group(1).split()[1:])
                records[int(job)] = {name: float(value.rstrip("s")) for name, value in pairs}
        return records

    def status(self):
        """The view of the node's mgbd."""
        return json.loads(self.must(f"{MGB}/bin/mgb status --json"))

    # Waiting.

    def is_idle(self):
        return self.run("sinfo -h -N -o %T")["stdout"].split() == ["idle"]

    @staticmethod
    def until(condition, seconds, pause=0.05):
        """Waits; whether it holds then."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
        return True

    def wait(self, condition, seconds, what):
        if not self.until(condition, seconds):
            raise RuntimeError(f"not within {seconds} s: {what}\n{self.logs()}")

    def logs(self, lines=15):
        """The ends of all logs, for people."""
        files = sorted(LOGS.iterdir()) if LOGS.is_dir() else []
        ends = {file.name: file.read_text(errors="replace").splitlines()[-lines:] for file in files}
        return "".join(f"{name}: {line}\n" for name, end in ends.items() for line in end)

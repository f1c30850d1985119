#!/usr/bin/env python3
"""Packs Slurm, munge and MariaDB of an installed Debian for slurm_node.py: what a machine without them, a
network and packages needs to be a cluster of one node.

    pack_slurm.py ROOT OUT      ROOT: / or a Debian in a folder, as tests/slurm/slurm.py --make-root makes it
                                OUT: an archive, slurm.tar.xz or slurm.tar.gz

The archive is for / of a machine that is thrown away afterwards: the programs have their paths compiled in.
It has nothing of glibc, and its other libraries are in a folder of their own, behind a machine's own ones."""

import argparse
import pathlib
import re
import subprocess
import sys
import tarfile

SBIN = ("slurmctld", "slurmd", "slurmstepd", "slurmdbd", "munged", "mariadbd")
BIN = ("sbatch", "srun", "squeue", "scontrol", "sacct", "sacctmgr", "scancel", "sinfo")
PLUGINS = "usr/lib/x86_64-linux-gnu/slurm-wlm"
# The kinds of plugins that a cluster of one node may load; of those that are for other machines, none.
KINDS = ("accounting_storage", "acct_gather_*_none", "auth_munge", "cgroup", "cli_filter_none",
         "core_spec_none", "cred_munge", "ext_sensors_none", "gpu_generic", "gres", "hash",
         "job_container_none", "job_submit_defaults", "jobacct_gather", "jobcomp_none", "launch_slurm",
         "libslurmfull", "mcs_none", "mpi_none", "power_none", "preempt_none", "prep_script",
         "priority_basic", "proctrack", "route_default", "sched_backfill", "select_cons_tres",
         "serializer_json", "site_factor_none", "switch_none", "task_none", "topology_none")
# What MariaDB reads as it starts, and as its own tables are made.
SHARED = ("usr/share/mysql/english/errmsg.sys", "usr/share/mysql/charsets/Index.xml",
          "usr/share/mysql/mysql_system_tables.sql", "usr/share/mysql/mysql_performance_tables.sql")
# They belong together, and to the kernel's side of the machine.
GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|anl|nss_.*|thread_db))\.so\.\d+$")
# Where the libraries come to lie.
LIBRARIES = "opt/slurm-node/lib"


def inside(root, path):
    """The file that a path of that Debian leads to, all links followed within it."""
    for _ in range(40):
        at = pathlib.Path("/")
        for part in pathlib.Path("/", path).parts[1:]:
            at = at / part
            if (root / at.relative_to("/")).is_symlink():
                target = (root / at.relative_to("/")).readlink()
                rest = pathlib.Path("/", path).relative_to(at)
                path = at.parent / target / rest if not target.is_absolute() else target / rest
                break
        else:
            return root / at.relative_to("/")
    sys.exit(f"pack_slurm.py: {path} in {root} is a circle of links")


def needs(root, files):
    """The libraries that files of that Debian are linked with, by name: their paths there."""
    ldd = ["ldd"] if root == pathlib.Path("/") else ["chroot", root, "ldd"]
    said = subprocess.run([*ldd, *(f"/{file}" for file in files)], capture_output=True, text=True)
    if "not found" in said.stdout or said.returncode != 0:
        sys.exit(f"pack_slurm.py: ldd: {said.stderr[-500:]}{said.stdout[-500:]}")
    found = re.findall(r"(?m)^\t(\S+) => (/\S+) ", said.stdout)
    return {name: path for name, path in found if not GLIBC.match(name) and PLUGINS not in path}


def main():
    parser = argparse.ArgumentParser(prog="pack_slurm.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    programs = [*(f"usr/sbin/{name}" for name in SBIN), *(f"usr/bin/{name}" for name in BIN)]
    found = {file.name for kind in KINDS for file in (root / PLUGINS).glob(f"{kind}*.so")}
    plugins = [f"{PLUGINS}/{name}" for name in sorted(found)]
    missing = [file for file in [*programs, *SHARED, PLUGINS] if not inside(root, file).exists()]
    if missing or not plugins:
        sys.exit(f"pack_slurm.py: {root} has no {', '.join(missing) or 'plugins of Slurm'}")
    libraries = needs(root, [*programs, *plugins])
    with tarfile.open(arguments.out, f"w:{arguments.out.suffix[1:]}") as archive:
        def add(name, file, mode):
            entry = archive.gettarinfo(file, name)
            entry.mode, entry.uid, entry.gid, entry.uname, entry.gname = mode, 0, 0, "root", "root"
            with open(file, "rb") as content:
                archive.addfile(entry, content)

        for name in programs:
            add(name, inside(root, name), 0o755)
        for name in [*plugins, *SHARED]:
            add(name, inside(root, name), 0o644)
        for name, path in sorted(libraries.items()):
            add(f"{LIBRARIES}/{name}", inside(root, path), 0o644)
    print(f"pack_slurm.py: {arguments.out}: {len(programs)} programs, {len(plugins)} plugins, "
          f"{len(libraries)} libraries, {arguments.out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs a command in a virtual machine with a whole Debian: its own kernel, systemd as the first process, and control
groups of the second version alone, as nodes have them today. For trials of the scripts beside this one where the host
has both versions: Slurm refuses the second there. `--put` copies a folder into it; what the command writes is lost.
Needs root and qemu, which emulates the machine, some ten times slower than this one, unless --kvm is given."""

import argparse
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "systemd"))

from machine import PACKAGES, Missing, make_root  # noqa: E402

KERNEL = "linux-image-cloud-amd64,initramfs-tools,kmod,zstd,iproute2,python3"
EMULATOR = "qemu-system-x86_64"
# On the virtual console, before the exit code of the command.
ENDED = "vm: ended with "
UNIT = f"""\
[Unit]
Description=the command of vm.py
After=multi-user.target
[Service]
Type=exec
StandardOutput=tty
StandardError=tty
TTYPath=/dev/hvc0
Environment=HOME=/root
ExecStart=sh -c 'stty -opost </dev/hvc0; sh /vm.sh; echo "{ENDED}$?"'
ExecStopPost=systemctl poweroff --no-block
[Install]
WantedBy=graphical.target
"""


def stage(root, puts, command, folder):
    """The file system of the machine, of links to the files of others as far as they are on the same one."""
    subprocess.run(["cp", "-al", f"{root}/.", folder], check=True)
    for source, target in puts:
        place = folder / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        how = "-al" if os.stat(source).st_dev == os.stat(folder).st_dev else "-a"
        subprocess.run(["cp", how, source, place], check=True)
    (folder / "vm.sh").write_text(f"{command}\n")
    units = folder / "etc/systemd/system"
    (units / "vm.service").write_text(UNIT)
    (units / "graphical.target.wants").mkdir(exist_ok=True)
    (units / "graphical.target.wants/vm.service").symlink_to("/etc/systemd/system/vm.service")


def pack(folder, image, spare):
    """An ext4 of it, with `spare` bytes left."""
    size = int(subprocess.run(["du", "-sk", folder], check=True, capture_output=True, text=True).stdout.split()[0])
    subprocess.run(["truncate", "-s", str(size * 1200 + spare), image], check=True)
    packed = subprocess.run(["mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", folder, image],
                            capture_output=True, text=True)
    if packed.returncode != 0:
        raise RuntimeError(f"mke2fs: {packed.stderr[-500:]}")


def boot(root, image, log, arguments):
    """Runs the machine to its end, with what the command prints on this script's output; its exit code."""
    newest = lambda name: max((root / "boot").glob(f"{name}-*"))
    emulator = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", EMULATOR, "-accel", "kvm" if arguments.kvm else "tcg,thread=multi", "-cpu", "max",
         "-m", arguments.memory, "-smp", str(arguments.cpus), "-no-reboot", "-display", "none", "-nodefaults",
         "-kernel", newest("vmlinuz"), "-initrd", newest("initrd.img"),
         "-append", "root=/dev/vda rw console=ttyS0 panic=-1 systemd.unified_cgroup_hierarchy=1",
         "-drive", f"file={image},format=raw,if=virtio,cache=unsafe", "-device", "virtio-rng-pci",
         "-serial", f"file:{log}", "-chardev", "stdio,id=out,signal=off", "-device", "virtio-serial-pci",
         "-device", "virtconsole,chardev=out"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
    code = None
    try:
        for line in emulator.stdout:
            if line.startswith(ENDED):
                code = int(line[len(ENDED):])
            else:
                print(line.rstrip("\r\n"), flush=True)
        emulator.wait()
    finally:
        emulator.kill()
    if code is None:
        raise RuntimeError(f"the machine ended before the command did; on its console:\n{log.read_text()[-3000:]}")
    return code


def main():
    parser = argparse.ArgumentParser(prog="vm.py", description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=REPOSITORY / "build/vm-bookworm",
                        help="folder of the machine's Debian (default: build/vm-bookworm)")
    parser.add_argument("--make-root", action="store_true", help="make it if it is not there (debootstrap, 450 MiB)")
    parser.add_argument("--put", metavar="HERE=THERE", action="append", default=[],
                        help="a folder of this machine, and where it is to be on that one")
    parser.add_argument("--kvm", action="store_true", help="have this machine's processor run it, where it can")
    parser.add_argument("--memory", default="6G", help="of the machine (default 6G)")
    parser.add_argument("--cpus", type=int, default=os.cpu_count(), help="of the machine (default: all)")
    parser.add_argument("--spare", type=int, default=4, help="GiB that the machine may write (default 4)")
    parser.add_argument("command", nargs="+", help="what root runs on it")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for tool in (EMULATOR, "mke2fs"):
            if shutil.which(tool) is None:
                raise Missing(f"there is no {tool} here")
        if os.geteuid() != 0:
            raise Missing("this is not root; a Debian has files of several users")
        if not arguments.root.exists():
            if not arguments.make_root:
                raise Missing(f"there is no Debian in {arguments.root}; --make-root makes it (450 MiB)")
            make_root(arguments.root, packages=f"{PACKAGES},{KERNEL}")
        # Beside the Debian, since links do not cross file systems.
        with tempfile.TemporaryDirectory(prefix="mgb-vm-", dir=arguments.root.parent) as work:
            work = pathlib.Path(work)
            (work / "stage").mkdir(mode=0o755)
            puts = [put.split("=", 1) for put in arguments.put]
            stage(arguments.root, puts, shlex.join(arguments.command), work / "stage")
            pack(work / "stage", work / "disk", arguments.spare << 30)
            shutil.rmtree(work / "stage")
            return boot(arguments.root, work / "disk", work / "console", arguments)
    except Missing as missing:
        print(f"vm.py: left out: {missing}")
        return 0
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"vm.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

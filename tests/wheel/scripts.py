"""What wheel.py has the Python of an environment run, a function each: it prints PASS where all is right."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

from common import MIB, check, fails, play


def address(library, name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


def names(folder):
    # Such as NVIDIA's, which a framework brings: by its name alone it would be taken for the software GPU's.
    other = Path("libcudart.so.13").absolute()
    command = ["cc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-Wl,-soname,libcudart.so.13", "-o", other]
    subprocess.run(command, check=True)
    ctypes.CDLL(str(other))
    softgpu = Path(folder) / "lib/mgb/lib/softgpu"
    found = {name: ctypes.CDLL(str(softgpu / name)) for name in
             ("libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so", "libcudart.so.13")}
    for function in ("cuInit", "nvmlInit_v2", "cudaMalloc"):
        addresses = {name: address(library, function) for name, library in found.items()}
        check(len(set(addresses.values())) == 1, function, addresses)


def names_under_front():
    driver, link, nvml = (ctypes.CDLL(name) for name in ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"))
    check(address(driver, "cuInit") == address(link, "cuInit"), "libcuda.so")
    check(address(driver, "nvmlInit_v2") == address(nvml, "nvmlInit_v2"), "libnvidia-ml.so.1")
    count = ctypes.c_uint()
    check(nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0, "NVML behind the front")
    check(count.value == 2, count)


def no_mgbd():
    import mgb

    fails(mgb.NotRunningError, ["no mgbd", "mgb run"], mgb.status)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with mgb.need("1GiB") as need:
            check(need.granted is False, need)
    check([one.category for one in caught] == [mgb.NativeWarning] and caught[0].filename == __file__, caught)
    check("mgb run" in str(caught[0].message), caught)


def api(examples):
    import mgb

    check(Path(mgb.program()).parent == Path(sys.executable).parent, mgb.program())
    vecadd = f"{examples}/vecadd"
    done = mgb.run([vecadd, "1000"], capture_output=True, text=True, check=True)
    check("PASS" in done.stdout, done)
    check(mgb.run(Path(vecadd), stdout=subprocess.PIPE).returncode == 0, "a path")
    # Neither a PATH nor an activated environment is needed.
    check(mgb.run([vecadd, "1000"], env={**os.environ, "PATH": ""}, stdout=subprocess.PIPE).returncode == 0, "no PATH")
    check(mgb.run(["sh", "-c", "exit 7"]).returncode == 7, "the program's exit code")
    check(mgb.run(["./none"], stderr=subprocess.PIPE).returncode == 127, "no such program")
    fails(subprocess.CalledProcessError, ["7"], lambda: mgb.run(["sh", "-c", "exit 7"], check=True))
    fails(subprocess.TimeoutExpired, ["sleep"], lambda: mgb.run(["sleep", "60"], timeout=0.5))
    said = mgb.run(["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], need="8MiB", stdout=subprocess.PIPE, text=True).stdout
    check(said.count("GPU-") == 1, said)
    refused = mgb.run(["true"], need=2**60, stderr=subprocess.PIPE, text=True)
    check(refused.returncode == 125 and "the largest GPU has" in refused.stderr, refused)
    said = mgb.run(["sh", "-c", "echo $MGB_CLASS"], latency=True, stdout=subprocess.PIPE, text=True).stdout
    check(said == "latency\n", said)
    said = mgb.run(["sh", "-c", "echo $MGB_SHARE"], share=100, stdout=subprocess.PIPE, text=True).stdout
    check(said == "100%\n", said)
    fails(ValueError, ["shell"], lambda: mgb.run("echo", shell=True))
    fails(ValueError, ["a program"], lambda: mgb.run([]))
    threads = [threading.Thread(target=lambda: codes.append(mgb.run([vecadd, "1000"], stdout=subprocess.PIPE).returncode))
               for _ in range(8)]
    codes = []
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(codes == [0] * 8, codes)

    status = mgb.status()
    check([gpu.total_bytes for gpu in status.gpus] == [64 * MIB] * 2, status.gpus)
    check(0 < status.gpus[0].free_bytes <= 64 * MIB, status.gpus)
    check(status.document["counts"]["granted"] > 0 and status.mgbd_pid > 0, status)
    # Without standard output and errors.
    closed = subprocess.run([sys.executable, "-m", "mgb", "status", "--json"], preexec_fn=lambda: (os.close(1), os.close(2)))
    check(closed.returncode >= 0, closed)
    closed = [sys.executable, "-c", f"import mgb; raise SystemExit(mgb.run([{vecadd!r}, '1000']).returncode)"]
    check(subprocess.run(closed, preexec_fn=lambda: (os.close(1), os.close(2))).returncode >= 0, closed)


def interrupted():
    child = "trap 'echo child; exit 1' INT; echo ready; while :; do sleep 0.05; done"
    own = f"import mgb\ntry:\n mgb.run(['sh', '-c', {child!r}])\nexcept KeyboardInterrupt:\n print('parent', flush=True)"
    started = subprocess.Popen([sys.executable, "-c", own], stdout=subprocess.PIPE, text=True, start_new_session=True)
    check(started.stdout.readline() == "ready\n", "the program runs")
    os.killpg(started.pid, signal.SIGINT)
    said, _ = started.communicate(timeout=30)
    check(sorted(said.split()) == ["child", "parent"], said)


if __name__ == "__main__":
    play(globals())

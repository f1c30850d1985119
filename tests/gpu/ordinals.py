#!/usr/bin/env python3
"""The numbers of GPUs in jobs that were not rebuilt: CUDA, NVML and nvidia-smi mean the same GPU by a number, in jobs whose first
GPU is the node's first one and in those whose is another."""

import json
import subprocess
import sys

from trial import Nvml, Trial

# What a job sees: UUIDs by CUDA's, NVML's and nvidia-smi's numbers. It holds a context until its input ends.
LOOKS = r'''
import ctypes, json, subprocess, sys
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
def must(code):
    if code: sys.exit(f"a call failed with {code}")
must(cuda.cuInit(0))
count, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuDeviceGetCount(ctypes.byref(count)))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(8 << 20)))
def by_cuda(number):
    uuid = (ctypes.c_ubyte * 16)()
    must(cuda.cuDeviceGetUuid_v2(uuid, number))
    return bytes(uuid).hex()
must(nvml.nvmlInit_v2())
def by_nvml(number):
    device, uuid, index = ctypes.c_void_p(), ctypes.create_string_buffer(96), ctypes.c_uint(99)
    must(nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)))
    must(nvml.nvmlDeviceGetUUID(device, uuid, 96))
    must(nvml.nvmlDeviceGetIndex(device, ctypes.byref(index)))
    return [uuid.value.decode().removeprefix("GPU-").replace("-", ""), index.value]
def smi(*words):
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode: return [done.stdout + done.stderr]
    rows = [line.split(", ") for line in done.stdout.splitlines()]
    return [[uuid.removeprefix("GPU-").replace("-", ""), int(index)] for index, uuid in rows]
numbers = range(count.value)
print(json.dumps({"cuda": [[by_cuda(n), n] for n in numbers], "nvml": [by_nvml(n) for n in numbers], "smi": smi(),
                  "smi -i": [one for n in numbers for one in smi("-i", str(n))]}), flush=True)
sys.stdin.read()
'''


def of_a_part(trial, gpus):
    """An mgbd that has only the last GPU, and programs that name it as mgbd was told it: by its number on the node. Its MPS
    counts that GPU from 0 on."""
    last = str(gpus - 1)
    trial.mgbd(CUDA_VISIBLE_DEVICES=last)
    for built, environment in (("with MGB", trial.environment(MGB="require", CUDA_VISIBLE_DEVICES=last)),
                               ("without", trial.front(CUDA_VISIBLE_DEVICES=last))):
        ended = trial.run([trial.example("vecadd", plain=built == "without")], environment)
        trial.check(f"mgbd with GPU {last} alone: a program built {built} finds it by that number",
                    ended["code"] == 0 and "PASS" in ended["stdout"], None if ended["code"] == 0 else ended["stderr"][-500:])
    trial.stop_mgbd()


def main():
    trial = Trial("ordinals", __doc__)
    trial.mgbd()
    gpus = len(Nvml().gpus)
    program = trial.folder / "looks.py"
    program.write_text(LOOKS)
    command = [trial.prefix / "bin/mgb", "run", sys.executable, program]
    jobs, seen = [], []
    for _ in range(max(2, gpus)):
        job = trial.spawn(command, stdin=subprocess.PIPE)
        line = job.stdout.readline()
        jobs.append(job)
        seen.append(json.loads(line) if line else {"failed": job.communicate()[1][-500:]})
    for number, said in enumerate(seen):
        cuda = said.get("cuda")
        for who in ("nvml", "smi", "smi -i"):
            trial.check(f"job {number}: {who} counts as CUDA does", cuda and said.get(who) == cuda,
                        None if cuda and said.get(who) == cuda else said)
    firsts = {said["cuda"][0][0] for said in seen if said.get("cuda")}
    trial.check("jobs have different first GPUs", len(firsts) == gpus, sorted(firsts))
    for job in jobs:
        job.communicate(timeout=30)
        trial.running.remove(job)
    trial.check("every job ends with 0", all(job.returncode == 0 for job in jobs))
    trial.stop_mgbd()
    of_a_part(trial, gpus)
    trial.finish()


main()

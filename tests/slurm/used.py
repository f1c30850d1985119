#!/usr/bin/env python3
"""Prints how many bytes of each GPU are used, ten times a second, by what NVML says: a line of the monotonic time, and
the GPUs' bytes. Ends as its standard input does."""

import ctypes
import select
import sys
import time


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


def main():
    nvml = ctypes.CDLL(sys.argv[1])
    must = lambda code: code == 0 or sys.exit(f"used.py: NVML says {code}")
    must(nvml.nvmlInit_v2())
    count = ctypes.c_uint()
    must(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    devices = [ctypes.c_void_p() for _ in range(count.value)]
    for number, device in enumerate(devices):
        must(nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)))
    memory, totals = Memory(), []
    while True:
        used = []
        for device in devices:
            must(nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)))
            used.append(memory.used)
            totals.append(memory.total)
        if len(totals) == len(devices):
            print(*totals)
        print(time.monotonic(), *used, flush=True)
        if select.select([sys.stdin], [], [], 0.1)[0]:
            break


main()

"""Allocates what is not there, until Ctrl-C: waits.py MIB."""

import ctypes
import sys

driver = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
try:
    code = driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[1]) << 20))
    # The interrupt is raised between two of Python's own instructions.
    for _ in range(1000):
        pass
    print("code", code)
except KeyboardInterrupt:
    print("interrupted")

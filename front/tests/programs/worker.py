"""A Python program that uses the driver by ctypes, with a worker process that gets its memory by a handle."""

import ctypes
import multiprocessing

BYTES = 3 << 20


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def check(code, what):
    if code != 0:
        raise RuntimeError(f"{what}: {code}")


def begin():
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return cuda


def read(cuda, address):
    back = (ctypes.c_ubyte * BYTES)()
    check(cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(BYTES)), "cuMemcpyDtoH")
    return bytes(back)


def work(handle, results):
    cuda, address = begin(), ctypes.c_uint64()
    handle = Handle.from_buffer_copy(handle)
    check(cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, 1), "cuIpcOpenMemHandle")
    results.put(read(cuda, address) == b"\x05" * BYTES)
    check(cuda.cuMemsetD8_v2(address, 6, ctypes.c_size_t(BYTES)), "cuMemsetD8")
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    check(cuda.cuIpcCloseMemHandle(address), "cuIpcCloseMemHandle")


def main():
    multiprocessing.set_start_method("spawn")
    cuda, address, handle = begin(), ctypes.c_uint64(), Handle()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES)), "cuMemAlloc")
    check(cuda.cuMemsetD8_v2(address, 5, ctypes.c_size_t(BYTES)), "cuMemsetD8")
    check(cuda.cuIpcGetMemHandle(ctypes.byref(handle), address), "cuIpcGetMemHandle")
    results = multiprocessing.Queue()
    worker = multiprocessing.Process(target=work, args=(bytes(handle), results))
    worker.start()
    seen = results.get(timeout=60)
    worker.join()
    same = seen and worker.exitcode == 0 and read(cuda, address) == b"\x06" * BYTES
    check(cuda.cuMemFree_v2(address), "cuMemFree")
    print("PASS" if same else "FAIL")


if __name__ == "__main__":
    main()

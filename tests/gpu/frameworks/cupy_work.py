"""CuPy: its pool, raw kernels compiled at run time, libraries; and the driver's allocations by ctypes for their cost."""

import ctypes
import sys
import time

from digest import show, timed

SOURCE = 'extern "C" __global__ void square(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= x[i]; }'


def allocations():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    for code in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)):
        assert code == 0, code
    def some(count):
        for _ in range(count):
            assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0
            assert cuda.cuMemFree_v2(pointer) == 0
    some(100)
    began = time.perf_counter()
    some(10_000)
    return time.perf_counter() - began


def main():
    if sys.argv[1:] == ["cost"]:
        timed("allocations", allocations())
        return
    import cupy
    x = cupy.arange(1 << 20, dtype=cupy.float32) / 7
    kernel = cupy.RawKernel(SOURCE, "square")
    kernel((4096,), (256,), (x, x.size))
    show("raw", cupy.asnumpy(x))
    show("blas", cupy.asnumpy(x[:65536].reshape(256, 256) @ x[:65536].reshape(256, 256).T))
    show("fft", cupy.asnumpy(cupy.fft.fft(x[:4096])))
    show("sort", cupy.asnumpy(cupy.sort(cupy.sin(x))))
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        show("async", cupy.asnumpy(cupy.ones(1 << 20).cumsum()))
    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        show("managed", cupy.asnumpy(cupy.ones(1 << 18).cumsum()))


main()

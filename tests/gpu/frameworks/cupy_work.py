"""CuPy: its pool, raw kernels compiled at run time, libraries."""

import cupy

from digest import show

SOURCE = 'extern "C" __global__ void square(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= x[i]; }'


def main():
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

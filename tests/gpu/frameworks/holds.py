"""Takes device memory in one way of one framework, launches kernels, says how many, and holds what it has until its standard
input ends: holds.py WAY. What it holds is then read from outside."""

import sys

MIB = 1 << 20
LAUNCHES = 5000


def torch_work(capture):
    """Memory of many sizes, a graph, libraries with workspaces of their own, and kernels."""
    import torch
    kept = [torch.ones(size, device="cuda") for size in (1, 1000, 1 << 20, 50 << 20, 123_456_789)]
    a = torch.randn(2048, 2048, device="cuda")
    for _ in range(3):
        a = torch.nn.functional.conv2d((a @ a).tanh()[None, None], torch.ones(1, 1, 3, 3, device="cuda"), padding=1)[0, 0]
    if capture:
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            b = a + 1
            for _ in range(9):
                b = b * 2
        torch.cuda.synchronize()
        for _ in range(50):
            captured.replay()
        kept += [b, captured]
    x = torch.zeros(16, device="cuda")
    for _ in range(LAUNCHES):
        x.add_(1)
    torch.cuda.synchronize()
    return kept, a, x


def torch_way(capture):
    import torch
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        kept = torch_work(capture)
    kernels = [event for event in profile.events() if str(event.device_type).endswith("CUDA")
               and not event.name.startswith(("Memcpy", "Memset"))]
    return kept, len(kernels)


def cupy_way(allocator):
    import cupy
    cupy.cuda.set_allocator({"cupy": cupy.get_default_memory_pool().malloc, "cupy-async": cupy.cuda.MemoryAsyncPool().malloc,
                             "cupy-managed": cupy.cuda.malloc_managed}[allocator])
    kept = [cupy.empty(size, dtype=cupy.uint8) for size in (1, 1000, 100 * MIB, 512 * MIB, 7_654_321)]
    kernel = cupy.RawKernel('extern "C" __global__ void one(char *x) { x[threadIdx.x] = 1; }', "one")
    for array in kept[2:]:
        for _ in range(LAUNCHES):
            kernel((1,), (32,), (array,))
    cupy.cuda.Device().synchronize()
    return kept, LAUNCHES * len(kept[2:])


def jax_way():
    import jax
    import jax.numpy as jnp
    step = jax.jit(lambda a: jnp.tanh(a @ a / 1000))
    a = jnp.ones((4096, 4096))
    for _ in range(100):
        a = step(a)
    a.block_until_ready()
    return a, None


def driver_way():
    import ctypes
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    for code in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)):
        assert code == 0, code
    for size in [100] * 1000 + [3 * MIB] * 100 + [700 * MIB]:
        pointer = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
        assert cuda.cuMemsetD8_v2(pointer, ctypes.c_ubyte(1), ctypes.c_size_t(size)) == 0
    assert cuda.cuCtxSynchronize() == 0
    return None, 0


def main():
    way = sys.argv[1]
    if way.startswith("torch"):
        # PyTorch's graphs need its own allocators.
        kept, launches = torch_way(capture=way != "torch-async")
    elif way.startswith("cupy"):
        kept, launches = cupy_way(way)
    else:
        kept, launches = {"jax": jax_way, "driver": driver_way}[way]()
    print("launched", launches, flush=True)
    sys.stdin.read()
    del kept


main()

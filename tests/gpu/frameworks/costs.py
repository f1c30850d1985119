"""What the driver front may slow down, a small measurement for each line of standard input: `launches` and `step` of PyTorch,
`allocations` through the driver. Each answers with its seconds, so that processes can take turns."""

import ctypes
import sys
import time


def torch_measures():
    import torch
    from torch_work import network
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs, labels = torch.randn(256, 3, 32, 32, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
    x = torch.zeros(16, device="cuda")

    def launches():
        for _ in range(10_000):
            x.add_(1)

    def step():
        for _ in range(50):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return {"launches": launches, "step": step}, torch.cuda.synchronize


def driver_measures():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    for code in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)):
        assert code == 0, code

    def allocations():
        for _ in range(1000):
            assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0
            assert cuda.cuMemFree_v2(pointer) == 0
    return {"allocations": allocations}, cuda.cuCtxSynchronize


def main():
    measures, wait = {"torch": torch_measures, "driver": driver_measures}[sys.argv[1]]()
    for measure in measures.values():
        measure()
    wait()
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        measures[line.strip()]()
        wait()
        print(time.perf_counter() - began, flush=True)


main()

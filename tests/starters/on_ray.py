"""Tasks of Ray, on two nodes of it on this machine, that use a GPU through MGB. Prints what came of them as JSON."""

import ctypes
import json
import os
import sys
import time

import ray
from ray.cluster_utils import Cluster

BYTES = 24 << 20
PYTHON = {"py_executable": "mgb run -- python"}


@ray.remote(num_cpus=1, resources={"gpu_memory_mib": 24}, runtime_env=PYTHON)
def fill(number):
    """Whether memory of a GPU is what was written; on which node of Ray's, from when to when, and in which process."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def check(code):
        if code != 0:
            raise RuntimeError(f"the driver says {code}")

    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    began = time.time()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES)))
    check(cuda.cuMemsetD8_v2(address, number, ctypes.c_size_t(BYTES)))
    time.sleep(0.5)
    back = (ctypes.c_ubyte * BYTES)()
    check(cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(BYTES)))
    check(cuda.cuMemFree_v2(address))
    node = ray.get_runtime_context().get_node_id()
    return bytes(back) == bytes([number]) * BYTES, node, began, time.time(), os.getpid()


def main():
    # Both nodes share this machine's memory of GPUs: one has room for three tasks of it, the other for two.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "resources": {"gpu_memory_mib": 72}})
    cluster.add_node(num_cpus=4, resources={"gpu_memory_mib": 48})
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    done = ray.get([fill.remote(1 + nth) for nth in range(int(sys.argv[1]))])
    starts = [one[2] for one in done]
    at_once = max(sum(one[2] <= moment < one[3] for one in done) for moment in starts)
    result = {
        "right": [one[0] for one in done],
        "nodes": len({one[1] for one in done}),
        "at_once": at_once,
        "processes": len({one[4] for one in done}),
    }
    ray.shutdown()
    cluster.shutdown()
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    main()

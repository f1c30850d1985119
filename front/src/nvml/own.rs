// The functions of NVML that the front answers itself, sorted; every other one is a jump to NVIDIA's.
// Included by the build script.
&[
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetIndex",
]

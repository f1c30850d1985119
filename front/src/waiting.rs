// The functions that may wait for long and give a GPU nothing, sorted: the gate neither holds them nor waits
// for them. Included by the build script.
&[
    "cuCheckpointProcessCheckpoint",
    "cuCheckpointProcessLock",
    "cuCheckpointProcessRestore",
    "cuCheckpointProcessUnlock",
    "cuCtxSynchronize",
    "cuCtxSynchronize_v2",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuStreamQuery",
    "cuStreamQuery_ptsz",
    "cuStreamSynchronize",
    "cuStreamSynchronize_ptsz",
]

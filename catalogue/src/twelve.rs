//! What the headers of CUDA 12 declare differently from those of CUDA 13: programs compiled with them run
//! with the runtime of CUDA 13.
//!
//! From a comparison of the declarations and structure layouts of CUDA 12.4 and 12.9 with those of 13.0. What
//! is not listed is the same in both, or grew into bytes that were reserved before.

/// How a function of CUDA 12 is adapted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twelve {
    /// CUDA 13 has it under this name.
    Named(&'static str),
    /// lazyrt has a function that converts its arguments to those of CUDA 13: `mgb_cuda12_` and its name.
    Bridged,
    /// The runtime of CUDA 13 cannot do it, for this reason.
    Refused(&'static str),
}

use Twelve::{Bridged, Named, Refused};

const REMOVED: &str = "CUDA 13 removed it";
const BATCHES: &str = "CUDA 13 says otherwise which copy of a batch failed";

/// By name, sorted.
const TABLE: &[(&str, Twelve)] = &[
    (
        "cudaChooseDevice",
        Refused("the properties it is given are of another layout"),
    ),
    ("cudaCreateSurfaceObject", Bridged),
    ("cudaCreateTextureObject", Bridged),
    ("cudaEventElapsedTime_v2", Named("cudaEventElapsedTime")),
    ("cudaExternalMemoryGetMappedBuffer", Bridged),
    ("cudaExternalMemoryGetMappedMipmappedArray", Bridged),
    (
        "cudaGetDeviceProperties",
        Refused("CUDA 11's structure is asked for"),
    ),
    ("cudaGetDeviceProperties_v2", Bridged),
    ("cudaGetSurfaceObjectResourceDesc", Bridged),
    ("cudaGetTextureObjectResourceDesc", Bridged),
    ("cudaGetTextureObjectResourceViewDesc", Bridged),
    ("cudaGraphAddDependencies", Bridged),
    ("cudaGraphAddDependencies_v2", Named("cudaGraphAddDependencies")),
    ("cudaGraphAddNode", Bridged),
    ("cudaGraphAddNode_v2", Named("cudaGraphAddNode")),
    ("cudaGraphGetEdges", Bridged),
    ("cudaGraphGetEdges_v2", Named("cudaGraphGetEdges")),
    ("cudaGraphNodeGetDependencies", Bridged),
    (
        "cudaGraphNodeGetDependencies_v2",
        Named("cudaGraphNodeGetDependencies"),
    ),
    ("cudaGraphNodeGetDependentNodes", Bridged),
    (
        "cudaGraphNodeGetDependentNodes_v2",
        Named("cudaGraphNodeGetDependentNodes"),
    ),
    ("cudaGraphRemoveDependencies", Bridged),
    (
        "cudaGraphRemoveDependencies_v2",
        Named("cudaGraphRemoveDependencies"),
    ),
    ("cudaImportExternalMemory", Bridged),
    ("cudaImportExternalSemaphore", Bridged),
    ("cudaLaunchCooperativeKernelMultiDevice", Refused(REMOVED)),
    ("cudaMemAdvise", Bridged),
    ("cudaMemAdvise_v2", Named("cudaMemAdvise")),
    ("cudaMemPrefetchAsync", Bridged),
    ("cudaMemPrefetchAsync_v2", Named("cudaMemPrefetchAsync")),
    ("cudaMemcpy3DBatchAsync", Refused(BATCHES)),
    ("cudaMemcpyBatchAsync", Refused(BATCHES)),
    ("cudaPointerGetAttributes", Bridged),
    ("cudaSetDoubleForDevice", Refused(REMOVED)),
    ("cudaSetDoubleForHost", Refused(REMOVED)),
    (
        "cudaSignalExternalSemaphoresAsync_v2",
        Named("cudaSignalExternalSemaphoresAsync"),
    ),
    (
        "cudaStreamGetCaptureInfo",
        Refused("CUDA 11's arguments are asked for"),
    ),
    ("cudaStreamGetCaptureInfo_v2", Bridged),
    ("cudaStreamGetCaptureInfo_v3", Named("cudaStreamGetCaptureInfo")),
    ("cudaStreamUpdateCaptureDependencies", Bridged),
    (
        "cudaStreamUpdateCaptureDependencies_v2",
        Named("cudaStreamUpdateCaptureDependencies"),
    ),
    ("cudaThreadExit", Named("cudaDeviceReset")),
    ("cudaThreadGetCacheConfig", Named("cudaDeviceGetCacheConfig")),
    ("cudaThreadGetLimit", Named("cudaDeviceGetLimit")),
    ("cudaThreadSetCacheConfig", Named("cudaDeviceSetCacheConfig")),
    ("cudaThreadSetLimit", Named("cudaDeviceSetLimit")),
    ("cudaThreadSynchronize", Named("cudaDeviceSynchronize")),
    (
        "cudaWaitExternalSemaphoresAsync_v2",
        Named("cudaWaitExternalSemaphoresAsync"),
    ),
];

/// How the function of this name is adapted; none where CUDA 13 has the same. A suffix `_ptsz` or `_ptds`
/// must be removed by the caller.
pub fn twelve(name: &str) -> Option<Twelve> {
    let at = TABLE.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
    Some(TABLE[at].1)
}

/// The functions that lazyrt has for this.
pub fn bridged() -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .filter(|(_, what)| *what == Bridged)
        .map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_named_after_what_there_is() {
        assert!(TABLE.is_sorted_by(|(a, _), (b, _)| a < b));
        for (name, what) in TABLE {
            if let Named(new) = what {
                assert!(crate::table::lookup(new).is_some(), "{name}: {new}");
            }
        }
        assert_eq!(twelve("cudaMalloc"), None);
        assert!(bridged().any(|name| name == "cudaGetDeviceProperties_v2"));
    }
}

//! What keeps a kernel from being run in parts, by the names that reports have for it.
use mgb_catalogue::report::ReasonCode;

/// Whether it keeps a kernel from having any twin, also one whose workers take one block each.
pub fn forbids_slices(obstacle: ReasonCode) -> bool {
    matches!(
        obstacle,
        ReasonCode::GridBarrier
            | ReasonCode::Cluster
            | ReasonCode::WaitsForBlocks
            | ReasonCode::UnknownCallee
            | ReasonCode::LaunchesKernels
            | ReasonCode::ProgrammaticDependence
            | ReasonCode::BlockIndexInAssembly
            | ReasonCode::SharedMemory
            | ReasonCode::FastMath
            | ReasonCode::Parameters
    )
}

/// The obstacle of this name.
pub fn named(name: &str) -> Option<ReasonCode> {
    ReasonCode::ALL.into_iter().find(|one| one.to_string() == name)
}

/// In words that follow "the kernel".
pub fn words(obstacle: ReasonCode) -> &'static str {
    match obstacle {
        ReasonCode::GridBarrier => "synchronises all blocks of the grid",
        ReasonCode::Cluster => "works in clusters of blocks",
        ReasonCode::WaitsForBlocks => "leaves a loop only by what other blocks write",
        ReasonCode::UnknownCallee => "calls functions that are not known here",
        ReasonCode::LaunchesKernels => "launches kernels",
        ReasonCode::ProgrammaticDependence => "says itself when the next kernel may begin",
        ReasonCode::BlockIndexInAssembly => "reads the index of its block in assembly",
        ReasonCode::ThreadExit => "ends threads other than by returning",
        ReasonCode::BarrierApart => "has a barrier that some threads may skip",
        ReasonCode::WarpAfterExit => "has lanes work together after some may have returned",
        ReasonCode::Asynchronous => "copies or computes beside its threads",
        ReasonCode::SharedMemory => "asks how much shared memory it has, or uses all that there is",
        ReasonCode::VariableStack => "takes memory on its stack whose size only shows as it runs",
        ReasonCode::FastMath => "has sums that may be computed in any order",
        ReasonCode::Parameters => "has as many parameters as a kernel may have",
        ReasonCode::OldArchitecture => "is compiled for a GPU before sm_70",
        // No obstacle of kernels.
        _ => "cannot be run in parts",
    }
}

//! What keeps a kernel from being run in parts.
use mgb_catalogue::report::ReasonCode;
use serde::{Deserialize, Serialize};

/// Why workers cannot take one block of a kernel after the other, or why it has no twin at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Obstacle {
    /// It synchronises all blocks of the grid.
    GridBarrier,
    /// Its blocks form clusters.
    Cluster,
    /// It leaves a loop only by what other blocks write.
    WaitsForBlocks,
    /// It calls functions whose code is not here, or that are not known.
    UnknownCallee,
    /// The kernel launches kernels itself.
    LaunchesKernels,
    /// It says itself when the kernel behind it may begin.
    ProgrammaticDependence,
    /// Assembly reads the index of its block.
    BlockIndexInAssembly,
    /// A thread ends in the middle of a function.
    ThreadExit,
    /// Some threads may skip a barrier.
    BarrierApart,
    /// Lanes of a warp may work together when some of them have returned.
    WarpAfterExit,
    /// It copies or computes beside its threads.
    Asynchronous,
    /// It asks how much shared memory it has, or uses all of it.
    SharedMemory,
    /// It takes memory on its stack whose size only shows as it runs.
    VariableStack,
    /// Its sums may be computed in any order.
    FastMath,
    /// It has as many parameters as a kernel may have.
    Parameters,
    /// The GPU is older than sm_70: threads that returned cannot wait at a barrier.
    OldArchitecture,
}

impl Obstacle {
    const ALL: [Self; 16] = [
        Self::GridBarrier,
        Self::Cluster,
        Self::WaitsForBlocks,
        Self::UnknownCallee,
        Self::LaunchesKernels,
        Self::ProgrammaticDependence,
        Self::BlockIndexInAssembly,
        Self::ThreadExit,
        Self::BarrierApart,
        Self::WarpAfterExit,
        Self::Asynchronous,
        Self::SharedMemory,
        Self::VariableStack,
        Self::FastMath,
        Self::Parameters,
        Self::OldArchitecture,
    ];

    /// Whether it keeps the kernel from having a twin whose workers take one block each, too.
    pub fn forbids_slices(self) -> bool {
        matches!(
            self,
            Self::GridBarrier
                | Self::Cluster
                | Self::WaitsForBlocks
                | Self::UnknownCallee
                | Self::LaunchesKernels
                | Self::ProgrammaticDependence
                | Self::BlockIndexInAssembly
                | Self::SharedMemory
                | Self::FastMath
                | Self::Parameters
        )
    }

    /// Its name in reports.
    pub fn code(self) -> ReasonCode {
        match self {
            Self::GridBarrier => ReasonCode::GridBarrier,
            Self::Cluster => ReasonCode::Cluster,
            Self::WaitsForBlocks => ReasonCode::WaitsForBlocks,
            Self::UnknownCallee => ReasonCode::UnknownCallee,
            Self::LaunchesKernels => ReasonCode::LaunchesKernels,
            Self::ProgrammaticDependence => ReasonCode::ProgrammaticDependence,
            Self::BlockIndexInAssembly => ReasonCode::BlockIndexInAssembly,
            Self::ThreadExit => ReasonCode::ThreadExit,
            Self::BarrierApart => ReasonCode::BarrierApart,
            Self::WarpAfterExit => ReasonCode::WarpAfterExit,
            Self::Asynchronous => ReasonCode::Asynchronous,
            Self::SharedMemory => ReasonCode::SharedMemory,
            Self::VariableStack => ReasonCode::VariableStack,
            Self::FastMath => ReasonCode::FastMath,
            Self::Parameters => ReasonCode::Parameters,
            Self::OldArchitecture => ReasonCode::OldArchitecture,
        }
    }

    /// The obstacle of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.code().to_string() == name)
    }

    /// In words that follow "the kernel".
    pub fn words(self) -> &'static str {
        match self {
            Self::GridBarrier => "synchronises all blocks of the grid",
            Self::Cluster => "works in clusters of blocks",
            Self::WaitsForBlocks => "leaves a loop only by what other blocks write",
            Self::UnknownCallee => "calls functions that are not known here",
            Self::LaunchesKernels => "launches kernels",
            Self::ProgrammaticDependence => "says itself when the next kernel may begin",
            Self::BlockIndexInAssembly => "reads the index of its block in assembly",
            Self::ThreadExit => "ends threads other than by returning",
            Self::BarrierApart => "has a barrier that some threads may skip",
            Self::WarpAfterExit => "has lanes work together after some may have returned",
            Self::Asynchronous => "copies or computes beside its threads",
            Self::SharedMemory => "asks how much shared memory it has, or uses all that there is",
            Self::VariableStack => "takes memory on its stack whose size only shows as it runs",
            Self::FastMath => "has sums that may be computed in any order",
            Self::Parameters => "has as many parameters as a kernel may have",
            Self::OldArchitecture => "is compiled for a GPU before sm_70",
        }
    }
}

//! What a program that runs cannot be given any more, in the node view.

use serde::{Deserialize, Serialize};

use crate::lenient::Grows;

/// What would serve latency programs and cannot be given to a program any more, or not here: MPS takes a
/// program's priority and multiprocessors once, when its driver is initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// A latency program where there is no MPS, which has priorities and a reserve of multiprocessors.
    NoMps,
    /// Its process uses the GPU outside MPS, in turns with all that are in it.
    OutsideMps,
    /// A batch program that joined MPS at the priority of latency programs.
    NormalPriority,
    /// A latency program that joined MPS at the priority of batch programs, before it said what it is.
    LowPriority,
    /// A batch program that began before the first latency program, and may fill the GPU.
    AllMultiprocessors,
    /// A latency program that joined MPS with the multiprocessors of batch programs.
    SomeMultiprocessors,
    /// It says that it is a latency program, and its user may run none.
    NoRight,
    /// What a newer mgbd says in a word that is not known here.
    Unknown,
}

impl Grows for Lack {
    const UNKNOWN: Lack = Lack::Unknown;
}

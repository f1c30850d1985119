//! The policies: pure functions from a view of the ledger and the waiting tasks
//! to grants. `mgbd` and the simulator run the same code. `docs/POLICIES.md` has
//! them in prose, and says how to add one.
//!
//! | name       | memory | chooses |
//! |------------|--------|---------|
//! | `mgb`      | hard   | among GPUs with room, the one with the least load as it is |
//! | `alg2`     | hard   | the first GPU with room on which all blocks find a place |
//! | `alg3`     | hard   | among GPUs with room, the one with the fewest warps charged |
//! | `schedgpu` | hard   | the first GPU with room |
//! | `sa`       | blind  | one process per GPU at a time |
//! | `cg:N`     | blind  | up to N processes per GPU |
//!
//! The order of service is a choice of its own: [`Queue`]. Blind policies serve
//! in order of arrival, and ignore requests for a GPU of one's own.

mod alg2;
mod alg3;
mod cg;
pub(crate) mod deadline;
mod edf;
mod laxity;
mod mgb;
mod queue;
mod sa;
mod schedgpu;
mod view;

pub use queue::HOLDER_PATIENCE;
pub(crate) use queue::{turn, turn_timeout};
pub use view::{Claim, GpuState, Placement, View, Waiter, warps_charged};

use mgb_interface::{Policy, Queue};

/// The grants that a policy makes now. One that has an order of its own serves in that one; see
/// [`Policy::serves`].
pub fn place(policy: Policy, view: &View<'_>, queue: Queue) -> Vec<Placement> {
    match policy {
        Policy::Mgb => queue::place(view, queue, false, &mut mgb::Mgb),
        Policy::Alg2 => queue::place(view, queue, false, &mut alg2::Alg2::new(view)),
        Policy::Alg3 => queue::place(view, queue, false, &mut alg3::Alg3),
        Policy::SchedGpu(way) => schedgpu::place(view, way, queue),
        Policy::Sa => sa::place(view),
        Policy::Cg(most) => cg::place(view, most),
    }
}

#[cfg(test)]
mod tests;

//! Work of a device: what a stream does in its turn, and what a graph keeps to do again.

pub mod host;

use std::sync::Arc;

use mgb_abi::graph::{NODE_HOST, NODE_KERNEL, NODE_MEMCPY, NODE_MEMSET};

use crate::device::Gpu;
use crate::error::Result;
use crate::kernel::launch::CheckedLaunch;
use crate::stream::Turn;
use crate::transfer::{Fill, Transfer};
use host::HostCall;

/// One piece of work, with the device that does it.
#[derive(Clone)]
pub struct DeviceWork {
    /// The device that does it.
    pub gpu: &'static Gpu,
    /// What is done.
    pub action: Action,
}

/// What is done.
#[derive(Clone)]
pub enum Action {
    /// A launch of a kernel.
    Kernel(Arc<CheckedLaunch>),
    /// A copy of memory.
    Copy(Transfer),
    /// A set of memory.
    Fill(Fill),
    /// A call of a function of the program's.
    Host(HostCall),
}

impl Action {
    /// `cudaGraphNodeType`.
    pub fn number(&self) -> u32 {
        match self {
            Action::Kernel(_) => NODE_KERNEL,
            Action::Copy(_) => NODE_MEMCPY,
            Action::Fill(_) => NODE_MEMSET,
            Action::Host(_) => NODE_HOST,
        }
    }
}

impl DeviceWork {
    /// Does it in its stream's turn; returns its modelled end.
    ///
    /// # Errors
    /// What went wrong; the device is not stuck in it yet.
    pub fn run(&self, turn: &Turn) -> Result<u64> {
        let ready = turn.ready;
        match &self.action {
            Action::Kernel(launch) => {
                crate::fail::kernel(self.gpu.index)?;
                launch.run(self.gpu, ready, turn.priority)
            }
            Action::Copy(transfer) => transfer.run(self.gpu, ready),
            Action::Fill(fill) => fill.run(self.gpu, ready),
            Action::Host(call) => Ok(call.run(self.gpu, ready)),
        }
    }

    /// Does it for a caller that has gone on: what goes wrong sticks to the device, and nothing is done on a
    /// device that is stuck. Callbacks are called with the error instead.
    pub fn run_later(&self, turn: &mut Turn) {
        let stuck = self.gpu.check().is_err() && !matches!(self.action, Action::Host(_));
        if stuck || crate::exec::threads::stopping() {
            return;
        }
        match self.run(turn) {
            Ok(end) => turn.end = end,
            Err(error) => self.gpu.fail(error),
        }
    }
}

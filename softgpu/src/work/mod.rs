//! Work of a device: what a stream does in its turn, and what a graph keeps to do again.

pub mod host;

use std::sync::Arc;

use mgb_abi::graph::{NODE_HOST, NODE_KERNEL, NODE_MEMCPY, NODE_MEMSET};

use crate::device::Gpu;
use crate::error::Result;
use crate::exec::launch::Launch;
use crate::graph::capture;
use crate::memory::region::Fill;
use crate::memory::transfer::{self, Transfer};
use crate::stream::{Stream, Turn};
use host::HostCall;

/// One piece of work, with the device that does it.
#[derive(Clone)]
pub struct Work {
    /// Whose it is.
    pub gpu: &'static Gpu,
    /// What is done.
    pub action: Action,
}

/// What is done.
#[derive(Clone)]
pub enum Action {
    /// A kernel.
    Kernel(Arc<Launch>),
    /// A copy.
    Copy(Transfer),
    /// A set.
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

impl Work {
    /// Does it, not before `ready`; returns its modelled end.
    ///
    /// # Errors
    /// What went wrong; the device is not stuck in it yet.
    pub fn run(&self, ready: u64) -> Result<u64> {
        match &self.action {
            Action::Kernel(launch) => {
                crate::fail::kernel(self.gpu.index)?;
                launch.run(self.gpu, ready)
            }
            Action::Copy(transfer) => transfer.run(self.gpu, ready),
            Action::Fill(fill) => transfer::set(self.gpu, fill, ready),
            Action::Host(call) => Ok(call.run(self.gpu, ready)),
        }
    }

    /// Does it for a caller that has gone on: what goes wrong sticks to the device, and nothing is done on a device
    /// that is stuck. Callbacks are told of that themselves.
    pub fn run_later(&self, turn: &mut Turn) {
        let stuck = self.gpu.check().is_err() && !matches!(self.action, Action::Host(_));
        if stuck || crate::exec::threads::stopping() {
            return;
        }
        match self.run(turn.ready) {
            Ok(end) => turn.end = end,
            Err(error) => self.gpu.fail(error),
        }
    }

    /// Does it in its turn in a stream, and waits until it is done.
    ///
    /// # Errors
    /// What went wrong, with it or with the device before.
    pub fn wait_for(&self, stream: &Arc<Stream>) -> Result {
        capture::refuse(stream)?;
        self.gpu.streams.run(stream, |turn| {
            self.gpu.check()?;
            turn.end = self.run(turn.ready)?;
            Ok(())
        })
    }
}

/// Does work in its turn in a stream, while the caller goes on; a stream that captures keeps it instead.
///
/// # Errors
/// Those of capturing.
pub fn issue(stream: &Arc<Stream>, work: Work) -> Result {
    let Some(work) = capture::take(stream, work)? else {
        return Ok(());
    };
    let streams = &work.gpu.streams;
    if matches!(work.action, Action::Host(_)) {
        stream.submit_visible(streams.fences(stream), move |turn| work.run_later(turn));
    } else {
        streams.submit(stream, move |turn| work.run_later(turn));
    }
    Ok(())
}

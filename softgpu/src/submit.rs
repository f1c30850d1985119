//! Submitting work to streams: waiting for it, or going on. A stream that captures keeps the work in a graph
//! instead.
//!
//! Host bytes are consumed when CUDA says so: a copy from pageable memory has read them when the call returns
//! (small ones are copied to a buffer, large ones waited for); one from pinned memory reads them in its turn.

use std::sync::Arc;

use crate::device::Gpu;
use crate::error::Result;
use crate::graph::capture;
use crate::memory::region::Side;
use crate::stream::DeviceStream;
use crate::transfer::{CopyDirection, Fill, MemoryCopy, Transfer};
use crate::work::{Action, DeviceWork};

/// Copies from pageable memory up to this size go through a buffer, as the driver does it.
const BUFFERED: usize = 64 << 10;

/// Does work in its turn in a stream, and waits until it is done.
///
/// # Errors
/// What went wrong, with it or with the device before.
pub fn wait(stream: &Arc<DeviceStream>, work: DeviceWork) -> Result {
    capture::refuse(stream)?;
    work.gpu.streams.run(stream, |turn| {
        work.gpu.check()?;
        turn.end = work.run(turn)?;
        Ok(())
    })
}

/// Does work in its turn in a stream, while the caller goes on; a stream that captures keeps it instead.
///
/// # Errors
/// Those of capturing.
pub fn issue(stream: &Arc<DeviceStream>, work: DeviceWork) -> Result {
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

/// Does a checked copy in a stream's turn; the caller goes on where CUDA lets it.
///
/// # Errors
/// Those of waiting; what goes wrong later sticks to the device.
pub fn transfer(gpu: &'static Gpu, stream: &Arc<DeviceStream>, transfer: Transfer) -> Result {
    let copy = transfer.copy;
    let work = DeviceWork {
        gpu,
        action: Action::Copy(transfer),
    };
    if transfer.pinned || stream.captures() {
        return issue(stream, work);
    }
    let one_row = copy.size.height == 1 && copy.size.depth == 1;
    if transfer.way != CopyDirection::ToDevice || !one_row || copy.size.width > BUFFERED {
        return wait(stream, work);
    }
    // SAFETY: the source of a copy is readable for its size: contract of the copy functions.
    let kept = unsafe { std::slice::from_raw_parts(copy.from.at as *const u8, copy.size.width) }.to_vec();
    gpu.streams.submit(stream, move |turn| {
        let action = Action::Copy(transfer.with_source(Side::plain(kept.as_ptr() as usize)));
        DeviceWork { gpu, action }.run_later(turn);
    });
    Ok(())
}

/// Does a checked copy in a stream's turn, and waits until it is done.
///
/// # Errors
/// What is wrong with the device by the time the copy's turn came.
pub fn transfer_and_wait(gpu: &'static Gpu, stream: &Arc<DeviceStream>, transfer: Transfer) -> Result {
    let action = Action::Copy(transfer);
    wait(stream, DeviceWork { gpu, action })
}

/// Copies in a stream, and waits until it is done.
///
/// # Errors
/// What is wrong with the copy, or with the device by the time the copy's turn came.
pub fn copy(gpu: &'static Gpu, stream: &Arc<DeviceStream>, copy: MemoryCopy, kind: u32) -> Result {
    if copy.size.bytes() == 0 {
        return Ok(());
    }
    transfer_and_wait(gpu, stream, Transfer::new(gpu, copy, kind)?)
}

/// Copies in a stream; the caller goes on where CUDA lets it.
///
/// # Errors
/// What is wrong with the copy; what goes wrong later sticks to the device.
pub fn copy_async(gpu: &'static Gpu, stream: &Arc<DeviceStream>, copy: MemoryCopy, kind: u32) -> Result {
    if copy.size.bytes() == 0 {
        return Ok(());
    }
    transfer(gpu, stream, Transfer::new(gpu, copy, kind)?)
}

/// Sets device memory in a stream; waits for it if `wait`.
///
/// # Errors
/// What is wrong with the range; without waiting, what goes wrong later sticks to the device.
pub fn fill(gpu: &'static Gpu, stream: &Arc<DeviceStream>, fill: Fill, wait: bool) -> Result {
    if fill.size.bytes() == 0 {
        return Ok(());
    }
    fill.check()?;
    let action = Action::Fill(fill);
    let work = DeviceWork { gpu, action };
    if wait {
        self::wait(stream, work)
    } else {
        issue(stream, work)
    }
}

//! The runtime's functions for events.

use std::ffi::c_uint;

use mgb_abi::stream::EVENT_EXTERNAL;

use super::{put, runtime};
use crate::clock;
use crate::device::{current, resolve};
use crate::driver::{events, stream as driver};
use crate::driver_front;
use crate::error::{Error, Result};
use crate::graph::{NodeKind, capture};
use crate::stream::event::{self, find};

fn create(flags: c_uint) -> Result<usize> {
    current::active()?;
    events::create(flags)
}

/// Records an event at the stream's present end.
fn record(event: usize, stream: usize) -> Result {
    let found = find(event)?;
    let (gpu, stream) = resolve::stream(stream)?;
    if !capture::record(&stream, &found)? {
        found.record(&gpu.streams, &stream);
    }
    Ok(())
}

/// What the external forms answer: they have a meaning in captures alone.
fn only_captured(kept: bool) -> Result {
    if kept { Ok(()) } else { Err(Error::ILLEGAL_STATE) }
}

/// The error that the current device is stuck in.
fn healthy() -> Result {
    current::gpu()?.check()
}

runtime! {
    fn cudaEventCreate(event: *mut usize) {
        put!(event, create(0)?);
        Ok(())
    }

    fn cudaEventCreateWithFlags(event: *mut usize, flags: c_uint) {
        put!(event, create(flags)?);
        Ok(())
    }

    fn cudaEventDestroy(event: usize) {
        event::destroy(event)
    }

    fn cudaEventRecord(event: usize, stream: usize) {
        record(event, stream)
    }

    fn cudaEventRecordWithFlags(event: usize, stream: usize, flags: c_uint) {
        find(event)?;
        match flags {
            0 => record(event, stream),
            EVENT_EXTERNAL => {
                let (_, captured) = resolve::stream(stream)?;
                only_captured(capture::keep(&captured, || Ok(NodeKind::Record(event)))?)
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    fn cudaEventSynchronize(event: usize) {
        match driver_front::front() {
            Some(front) => front.cuEventSynchronize(event)?,
            None => driver::synchronize_event(event)?,
        }
        healthy()
    }

    fn cudaEventQuery(event: usize) {
        let passed = match driver_front::front() {
            Some(front) => match front.cuEventQuery(event) {
                Err(Error::NOT_READY) => false,
                answer => answer.map(|()| true)?,
            },
            None => driver::has_passed(event)?,
        };
        healthy()?;
        if passed { Ok(()) } else { Err(Error::NOT_READY) }
    }

    fn cudaEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) {
        let (start, end) = (find(start)?, find(end)?);
        let nanoseconds = end.since(&start)?;
        healthy()?;
        put!(milliseconds, (nanoseconds as f64 / 1e6) as f32);
        Ok(())
    }

    fn cudaStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        let found = find(event)?;
        let (gpu, stream) = resolve::stream(stream)?;
        if flags & !EVENT_EXTERNAL != 0 {
            return Err(Error::INVALID_VALUE);
        }
        if flags == EVENT_EXTERNAL {
            return only_captured(capture::keep(&stream, || Ok(NodeKind::Wait(event)))?);
        }
        if capture::wait(&stream, &found)? {
            return Ok(());
        }
        if let Some(foreign) = found.foreign() {
            gpu.streams.submit(&stream, move |turn| {
                foreign.wait();
                turn.end = turn.ready.max(clock::now());
            });
        } else if let Some(fence) = found.fence()? {
            let mut fences = gpu.streams.fences(&stream);
            fences.push(fence);
            stream.submit(fences, |_| ());
        }
        Ok(())
    }
}

//! Streams that capture.

use std::ffi::{c_int, c_uint, c_void};

use mgb_abi::stream::{CAPTURE_STATUS_ACTIVE, CAPTURE_STATUS_INVALIDATED, CAPTURE_STATUS_NONE};

use super::{put, runtime};
use crate::device::{current, resolve};
use crate::driver::capture as driver;
use crate::error::{Error, Result};

use crate::driver_front;
use crate::graph::{capture, nodes_at, with};
use crate::stream::DeviceStream;
use crate::stream::capture::CaptureMode;

/// `cudaStreamCaptureStatus`.
fn status(stream: &DeviceStream) -> c_int {
    let part = stream.part().lock();
    part.as_ref()
        .map_or(CAPTURE_STATUS_NONE, |part| match part.capture.is_invalid() {
            false => CAPTURE_STATUS_ACTIVE,
            true => CAPTURE_STATUS_INVALIDATED,
        })
}

/// Asking about the legacy stream is refused while streams that it would wait for capture.
fn find(stream: usize) -> Result<std::sync::Arc<DeviceStream>> {
    let (_, stream) = resolve::stream(stream)?;
    capture::implicit(&stream)?;
    Ok(stream)
}

runtime! {
    fn cudaStreamBeginCapture(handle: usize, mode: u32) {
        let (_, stream) = resolve::stream(handle)?;
        match driver_front::front() {
            Some(front) => front.cuStreamBeginCapture(handle, mode),
            None => driver::begin(&stream, mode),
        }
    }

    fn cudaStreamBeginCaptureToGraph(
        handle: usize, graph: usize, after: *const usize, edges: *const c_void, count: usize, mode: u32,
    ) {
        let (_, stream) = resolve::stream(handle)?;
        match driver_front::front() {
            Some(front) => front.cuStreamBeginCaptureToGraph(handle, graph, after, edges, count, mode),
            None => driver::begin_to_graph(&stream, graph, nodes_at(after, count)?, mode),
        }
    }

    fn cudaStreamEndCapture(handle: usize, graph: *mut usize) {
        let (_, stream) = resolve::stream(handle)?;
        if let Some(front) = driver_front::front() {
            return front.cuStreamEndCapture(handle, graph);
        }
        put!(graph, 0);
        put!(graph, capture::end(&stream)?);
        Ok(())
    }

    fn cudaStreamIsCapturing(stream: usize, to: *mut c_int) {
        put!(to, status(&*find(stream)?));
        Ok(())
    }

    fn cudaStreamGetCaptureInfo(
        stream: usize, to: *mut c_int, id: *mut u64, graph: *mut usize, last: *mut *const usize,
        edges: *mut *const c_void, count: *mut usize,
    ) {
        let stream = find(stream)?;
        put!(to, status(&stream));
        let part = stream.part().lock();
        let Some(part) = part.as_ref().filter(|part| !part.capture.is_invalid()) else {
            return Ok(());
        };
        if !id.is_null() {
            put!(id, part.capture.id);
        }
        if !graph.is_null() {
            put!(graph, part.capture.graph);
        }
        if !last.is_null() {
            // It is there until the stream's next call, as CUDA has it.
            put!(last, part.last.as_ptr());
        }
        if !edges.is_null() {
            put!(edges, std::ptr::null());
        }
        if !count.is_null() {
            put!(count, part.last.len());
        }
        Ok(())
    }

    fn cudaStreamUpdateCaptureDependencies(
        stream: usize, nodes: *mut usize, _edges: *const c_void, count: usize, flags: c_uint,
    ) {
        let (_, stream) = resolve::stream(stream)?;
        let mut part = stream.part().lock();
        let part = part.as_mut().ok_or(Error::ILLEGAL_STATE)?;
        let nodes = nodes_at(nodes, count)?;
        with(|graphs| {
            let known = graphs.graph(part.capture.graph)?;
            let all = nodes.iter().all(|node| known.nodes.contains_key(node));
            if all { Ok(()) } else { Err(Error::INVALID_VALUE) }
        })?;
        match flags {
            0 => {
                let new = nodes.iter().filter(|node| !part.last.contains(node));
                let new: Vec<usize> = new.copied().collect();
                part.last.extend(new);
            }
            1 => part.last = nodes.to_vec(),
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: *mut u32) {
        current::gpu()?;
        // SAFETY: `mode` is null or valid for reads: CUDA's contract of the function.
        let new = CaptureMode::new(*unsafe { mode.as_ref() }.ok_or(Error::INVALID_VALUE)?)?;
        put!(mode, capture::exchange_mode(new) as u32);
        Ok(())
    }
}

//! Streams that capture.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mgb_abi::stream::{CAPTURE_STATUS_ACTIVE, CAPTURE_STATUS_NONE};

use super::driver;
use crate::entry::put;
use crate::error::{Error, Result};
use crate::graph::{capture, nodes_at, with};
use crate::stream::DeviceStream;
use crate::stream::capture::CaptureMode;

/// The stream captures from here on.
///
/// # Errors
/// `INVALID_VALUE` for a mode that there is not; those of [`capture::begin`].
pub fn begin(stream: &Arc<DeviceStream>, mode: u32) -> Result {
    capture::begin(stream, stream.is_legacy(), None, CaptureMode::new(mode)?)
}

/// The stream captures into a graph from here on, behind these of its nodes.
///
/// # Errors
/// As of [`begin`]; `INVALID_VALUE` for nodes that the graph does not have.
pub fn begin_to_graph(stream: &Arc<DeviceStream>, graph: usize, after: &[usize], mode: u32) -> Result {
    let mode = CaptureMode::new(mode)?;
    with(|graphs| {
        let known = graphs.graph(graph)?;
        let all = after.iter().all(|node| known.nodes.contains_key(node));
        if all { Ok(()) } else { Err(Error::INVALID_VALUE) }
    })?;
    capture::begin(stream, stream.is_legacy(), Some((graph, after.to_vec())), mode)
}

driver! {
    fn cuStreamBeginCapture_v2(stream: usize, mode: u32) {
        begin(&super::stream(stream)?.1, mode)
    }

    fn cuStreamBeginCaptureToGraph(
        stream: usize, graph: usize, after: *const usize, _edges: *const c_void, count: usize, mode: u32,
    ) {
        begin_to_graph(&super::stream(stream)?.1, graph, nodes_at(after, count)?, mode)
    }

    fn cuStreamEndCapture(stream: usize, graph: *mut usize) {
        let (_, stream) = super::stream(stream)?;
        put!(graph, 0);
        put!(graph, capture::end(&stream)?);
        Ok(())
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) {
        // SAFETY: `mode` is null or valid for reads: CUDA's contract of the function.
        let new = CaptureMode::new(*unsafe { mode.as_ref() }.ok_or(Error::INVALID_VALUE)?)?;
        put!(mode, capture::exchange_mode(new) as u32);
        Ok(())
    }

    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) {
        let (_, stream) = super::stream(stream)?;
        capture::implicit(&stream)?;
        let captures = stream.part().lock().is_some();
        put!(status, if captures { CAPTURE_STATUS_ACTIVE } else { CAPTURE_STATUS_NONE });
        Ok(())
    }
}

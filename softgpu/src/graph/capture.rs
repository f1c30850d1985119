//! Capture: streams that keep in a graph what they are given, instead of doing it.
//!
//! A capture begins in one stream; others join by waiting for events that were recorded in it. What would
//! wait for a stream that captures, or does not follow from the order of the calls alone, is refused, and
//! the capture with it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::{NodeKind, with};
use crate::error::{Error, Result};
use crate::per_thread;
use crate::stream::DeviceStream;
use crate::stream::capture::{Capture, CaptureMode, Joined, StreamCapture};
use crate::stream::event::CudaEvent;
use crate::work::DeviceWork;

static ACTIVE: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

/// `cudaThreadExchangeStreamCaptureMode`: returns the old one.
pub fn exchange_mode(mode: CaptureMode) -> CaptureMode {
    MODE.replace(mode)
}

/// Begins to capture, into a new graph or behind nodes of a given one.
///
/// # Errors
/// `STREAM_CAPTURE_UNSUPPORTED` for the legacy stream, `ILLEGAL_STATE` for one that captures.
pub fn begin(
    stream: &Arc<DeviceStream>,
    legacy: bool,
    into: Option<(usize, Vec<usize>)>,
    mode: CaptureMode,
) -> Result {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if legacy {
        return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut part = stream.part().lock();
    if part.is_some() {
        return Err(Error::ILLEGAL_STATE);
    }
    let given = into.is_some();
    let (graph, last) = into.unwrap_or_else(|| (with(|graphs| graphs.create()), Vec::new()));
    let capture = Arc::new(Capture {
        id: NEXT.fetch_add(1, Relaxed),
        graph,
        given,
        mode,
        thread: per_thread::number(),
        origin: stream.id,
        invalid: AtomicBool::new(false),
        streams: Mutex::new(vec![stream.joined()]),
    });
    ACTIVE.lock().push(capture.clone());
    COUNT.fetch_add(1, Relaxed);
    *part = Some(StreamCapture { capture, last });
    Ok(())
}

/// Ends the capture that began in a stream; returns the graph.
///
/// # Errors
/// `ILLEGAL_STATE` for no capture, `STREAM_CAPTURE_UNMATCHED` in another stream,
/// `STREAM_CAPTURE_WRONG_THREAD`; and, with the capture ended, `STREAM_CAPTURE_INVALIDATED`, and
/// `STREAM_CAPTURE_UNJOINED` where another stream's work was not waited for.
pub fn end(stream: &Arc<DeviceStream>) -> Result<usize> {
    let part = stream.part().lock().clone().ok_or(Error::ILLEGAL_STATE)?;
    let StreamCapture { capture, last } = part;
    if capture.origin != stream.id {
        capture.invalidate();
        return Err(Error::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != CaptureMode::Relaxed && capture.thread != per_thread::number() {
        return Err(Error::STREAM_CAPTURE_WRONG_THREAD);
    }
    ACTIVE.lock().retain(|other| other.id != capture.id);
    COUNT.fetch_sub(1, Relaxed);
    let mut joined = true;
    // Taken out first: a thread that holds a stream's part may lock the list.
    let streams = std::mem::take(&mut *capture.streams.lock());
    for other in streams {
        let Some(part) = other.part.lock().take() else {
            continue;
        };
        joined &= with(|graphs| {
            let seen = graphs.graph(capture.graph).map(|graph| graph.ancestors(&last));
            seen.is_ok_and(|seen| part.last.iter().all(|node| seen.contains(node)))
        });
    }
    let ended = if capture.is_invalid() {
        Err(Error::STREAM_CAPTURE_INVALIDATED)
    } else if !joined {
        Err(Error::STREAM_CAPTURE_UNJOINED)
    } else {
        Ok(capture.graph)
    };
    if ended.is_err() && !capture.given {
        let gone = with(|graphs| graphs.destroy(capture.graph));
        drop(gone);
    }
    ended
}

/// Keeps a node in the graph of a stream that captures: `false` where none does.
///
/// # Errors
/// `STREAM_CAPTURE_INVALIDATED`; those of [`implicit`].
pub fn keep(stream: &Arc<DeviceStream>, kind: impl FnOnce() -> Result<NodeKind>) -> Result<bool> {
    if COUNT.load(Relaxed) == 0 {
        return Ok(false);
    }
    let mut part = stream.part().lock();
    let Some(part) = part.as_mut() else {
        implicit(stream)?;
        return Ok(false);
    };
    part.check()?;
    let kind = kind()?;
    let node = with(|graphs| graphs.add(part.capture.graph, &part.last, kind))?;
    part.last = vec![node];
    Ok(true)
}

/// Keeps work in the graph of a stream that captures; gives it back where none does.
///
/// # Errors
/// Those of [`keep`].
pub fn take(stream: &Arc<DeviceStream>, work: DeviceWork) -> Result<Option<DeviceWork>> {
    let kept = keep(stream, || Ok(NodeKind::Work(work.clone())))?;
    Ok((!kept).then_some(work))
}

/// Keeps the nodes of an executable graph: each with the earlier ones it comes after.
///
/// # Errors
/// `STREAM_CAPTURE_INVALIDATED`.
pub fn keep_all(stream: &Arc<DeviceStream>, parts: Vec<(NodeKind, Vec<usize>)>) -> Result {
    let mut part = stream.part().lock();
    let part = part.as_mut().ok_or(Error::ILLEGAL_STATE)?;
    part.check()?;
    with(|graphs| {
        let mut nodes: Vec<usize> = Vec::new();
        let mut last: Vec<usize> = Vec::new();
        for (kind, after) in parts {
            let after: Vec<usize> = after.iter().map(|&at| nodes[at]).collect();
            // What a child held was laid out before it.
            let kind = if matches!(kind, NodeKind::Child(_)) {
                NodeKind::Empty
            } else {
                kind
            };
            let before = if after.is_empty() { &part.last } else { &after };
            let node = graphs.add(part.capture.graph, before, kind)?;
            last.retain(|node| !after.contains(node));
            last.push(node);
            nodes.push(node);
        }
        if !last.is_empty() {
            part.last = last;
        }
        Ok(())
    })
}

/// Refuses to use the legacy stream, or to wait for what it waits for, while a blocking stream of its device
/// captures.
///
/// # Errors
/// `STREAM_CAPTURE_IMPLICIT`; the captures are invalid.
pub fn implicit(stream: &Arc<DeviceStream>) -> Result {
    if COUNT.load(Relaxed) == 0 || !stream.is_legacy() {
        return Ok(());
    }
    let blocking = |other: &Joined| other.ordinal == stream.ordinal && other.blocking;
    let captures = ACTIVE.lock();
    let mut hit = captures
        .iter()
        .filter(|capture| capture.streams.lock().iter().any(blocking))
        .peekable();
    if hit.peek().is_none() {
        return Ok(());
    }
    hit.for_each(|capture| capture.invalidate());
    Err(Error::STREAM_CAPTURE_IMPLICIT)
}

/// Refuses a question about a stream that captures: some of them end the capture (driver 580 on an H200 does
/// so for `cudaStreamGetDevice` and `cudaStreamGetId`, in every capture mode).
///
/// # Errors
/// `STREAM_CAPTURE_UNSUPPORTED`; the capture is invalid.
pub fn refuse_question(stream: &Arc<DeviceStream>) -> Result {
    if let Some(part) = stream.part().lock().as_ref() {
        part.capture.invalidate();
        return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

/// Refuses to wait for a stream that captures, or for anything while that is forbidden.
///
/// # Errors
/// `STREAM_CAPTURE_UNSUPPORTED`, and those of [`implicit`]; the captures are invalid.
pub fn refuse(stream: &Arc<DeviceStream>) -> Result {
    if COUNT.load(Relaxed) == 0 {
        return Ok(());
    }
    refuse_question(stream)?;
    implicit(stream)
}

/// Refuses a call that may wait for other work, where a capture forbids such calls to this thread.
///
/// # Errors
/// `STREAM_CAPTURE_UNSUPPORTED`; the captures are invalid.
pub fn forbid() -> Result {
    if COUNT.load(Relaxed) == 0 {
        return Ok(());
    }
    let (own, thread) = (MODE.get(), per_thread::number());
    let captures = ACTIVE.lock();
    let mut hit = captures
        .iter()
        .filter(|capture| match (own, capture.mode) {
            (CaptureMode::Relaxed, _) | (_, CaptureMode::Relaxed) => false,
            (CaptureMode::Global, CaptureMode::Global) => true,
            _ => capture.thread == thread,
        })
        .peekable();
    if hit.peek().is_none() {
        return Ok(());
    }
    hit.for_each(|capture| capture.invalidate());
    Err(Error::STREAM_CAPTURE_UNSUPPORTED)
}

/// Refuses to wait for a device while any stream of it captures.
///
/// # Errors
/// `STREAM_CAPTURE_UNSUPPORTED`; the captures are invalid.
pub fn refuse_device(ordinal: usize) -> Result {
    if COUNT.load(Relaxed) == 0 {
        return Ok(());
    }
    let mut found = Ok(());
    for capture in ACTIVE.lock().iter() {
        if capture
            .streams
            .lock()
            .iter()
            .any(|stream| stream.ordinal == ordinal)
        {
            capture.invalidate();
            found = Err(Error::STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    found
}

/// Records an event in a stream that captures: `false` where it does not.
///
/// # Errors
/// `STREAM_CAPTURE_INVALIDATED`, those of [`implicit`].
pub fn record(stream: &Arc<DeviceStream>, event: &CudaEvent) -> Result<bool> {
    if COUNT.load(Relaxed) == 0 {
        return Ok(false);
    }
    let part = stream.part().lock();
    let Some(part) = part.as_ref() else {
        implicit(stream)?;
        return Ok(false);
    };
    part.check()?;
    event.capture(part.clone());
    Ok(true)
}

/// Lets a stream wait for an event, where one of them captures: `false` where none does.
///
/// # Errors
/// `STREAM_CAPTURE_ISOLATION` for an event from outside, `STREAM_CAPTURE_MERGE` for one of another capture,
/// `CAPTURED_EVENT` for one of a capture that has ended; the captures are invalid.
pub fn wait(stream: &Arc<DeviceStream>, event: &CudaEvent) -> Result<bool> {
    let mut part = stream.part().lock();
    match (part.as_mut(), event.captured()) {
        (None, None) => {
            implicit(stream)?;
            Ok(false)
        }
        (Some(own), None) => {
            if !event.was_recorded() {
                return Ok(true);
            }
            own.capture.invalidate();
            Err(Error::STREAM_CAPTURE_ISOLATION)
        }
        (Some(own), Some(other)) if own.capture.id == other.capture.id => {
            own.check()?;
            let new = other.last.iter().filter(|node| !own.last.contains(node));
            let new: Vec<usize> = new.copied().collect();
            own.last.extend(new);
            Ok(true)
        }
        (Some(own), Some(other)) => {
            own.capture.invalidate();
            other.capture.invalidate();
            Err(Error::STREAM_CAPTURE_MERGE)
        }
        (None, Some(other)) => {
            let lasts = ACTIVE.lock().iter().any(|capture| capture.id == other.capture.id);
            if !lasts {
                return Err(Error::CAPTURED_EVENT);
            }
            other.check()?;
            if stream.is_legacy() {
                other.capture.invalidate();
                return Err(Error::STREAM_CAPTURE_IMPLICIT);
            }
            other.capture.streams.lock().push(stream.joined());
            *part = Some(other);
            Ok(true)
        }
    }
}

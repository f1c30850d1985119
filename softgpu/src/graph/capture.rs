//! Capture: what a stream keeps in a graph instead of doing it. No stream captures so far.

use std::sync::Arc;

use crate::error::Result;
use crate::stream::Stream;
use crate::work::Work;

/// Keeps work in the graph of a stream that captures; gives it back where none does.
///
/// # Errors
/// What forbids the work while streams capture.
pub fn take(_stream: &Arc<Stream>, work: Work) -> Result<Option<Work>> {
    Ok(Some(work))
}

/// Refuses to wait for a stream that captures.
///
/// # Errors
/// What forbids it.
pub fn refuse(_stream: &Arc<Stream>) -> Result {
    Ok(())
}

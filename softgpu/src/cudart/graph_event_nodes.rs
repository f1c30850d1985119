//! Nodes that record events, or wait for them.

use super::graph_nodes::{add, change, kind_of};
use super::{put, runtime};
use crate::error::{Error, Result};
use crate::graph::{NodeKind, exec};
use crate::stream::event;

/// A node that records an event.
pub(super) fn record(event: usize) -> Result<NodeKind> {
    event::find(event)?;
    Ok(NodeKind::Record(event))
}

/// A node that waits for an event.
pub(super) fn wait(event: usize) -> Result<NodeKind> {
    event::find(event)?;
    Ok(NodeKind::Wait(event))
}

runtime! {
    fn cudaGraphAddEventRecordNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, event: usize,
    ) {
        add(node, graph, after, count, record(event)?)
    }

    fn cudaGraphEventRecordNodeGetEvent(node: usize, event: *mut usize) {
        let NodeKind::Record(found) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(event, found);
        Ok(())
    }

    fn cudaGraphEventRecordNodeSetEvent(node: usize, event: usize) {
        change(node, record(event)?)
    }

    fn cudaGraphExecEventRecordNodeSetEvent(handle: usize, node: usize, event: usize) {
        exec::find(handle)?.set(node, record(event)?)
    }

    fn cudaGraphAddEventWaitNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, event: usize,
    ) {
        add(node, graph, after, count, wait(event)?)
    }

    fn cudaGraphEventWaitNodeGetEvent(node: usize, event: *mut usize) {
        let NodeKind::Wait(found) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(event, found);
        Ok(())
    }

    fn cudaGraphEventWaitNodeSetEvent(node: usize, event: usize) {
        change(node, wait(event)?)
    }

    fn cudaGraphExecEventWaitNodeSetEvent(handle: usize, node: usize, event: usize) {
        exec::find(handle)?.set(node, wait(event)?)
    }
}

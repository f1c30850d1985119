//! The nodes of graphs: what all kinds share, and those of child graphs and of nothing.

use super::{put, runtime};
use crate::device::current;
use crate::error::{Error, Result};
use crate::graph::{NodeKind, exec, nodes_at, with};
use crate::work::{Action, DeviceWork};

pub(super) fn work(action: Action) -> Result<NodeKind> {
    let gpu = current::active()?;
    Ok(NodeKind::Work(DeviceWork { gpu, action }))
}

/// Adds a node, and hands out its handle.
pub(super) fn add(
    node: *mut usize,
    graph: usize,
    after: *const usize,
    count: usize,
    kind: NodeKind,
) -> Result {
    if node.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let after = nodes_at(after, count)?;
    put!(node, with(|graphs| graphs.add(graph, after, kind))?);
    Ok(())
}

/// Changes a node of a graph. What it was is dropped outside of the lock.
pub(super) fn change(node: usize, kind: NodeKind) -> Result {
    with(|graphs| graphs.set(node, kind)).map(drop)
}

/// What a node of a graph does.
pub(super) fn kind_of(node: usize) -> Result<NodeKind> {
    with(|graphs| Ok(graphs.node(node)?.kind.clone()))
}

/// The work of a node of a graph.
pub(super) fn action_of(node: usize) -> Result<Action> {
    match kind_of(node)? {
        NodeKind::Work(work) => Ok(work.action),
        _ => Err(Error::INVALID_VALUE),
    }
}

runtime! {
    fn cudaGraphAddChildGraphNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, child: usize,
    ) {
        add(node, graph, after, count, NodeKind::Child(child))
    }

    fn cudaGraphChildGraphNodeGetGraph(node: usize, graph: *mut usize) {
        let NodeKind::Child(child) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(graph, child);
        Ok(())
    }

    fn cudaGraphExecChildGraphNodeSetParams(handle: usize, node: usize, child: usize) {
        let exec = exec::find(handle)?;
        with(|graphs| exec.set_child(graphs, node, child))
    }

    fn cudaGraphAddEmptyNode(node: *mut usize, graph: usize, after: *const usize, count: usize) {
        add(node, graph, after, count, NodeKind::Empty)
    }
}

//! Graphs: making, copying and asking about them, and what comes after what in them.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::fmt::Write;

use super::{put, runtime};
use crate::driver::graph::give;
use crate::error::{Error, Result};
use crate::graph::{CudaGraph, NodeKind, nodes_at, with};
use crate::work::Action;

/// All edges are whole ones: `cudaGraphEdgeData` is zero.
fn clear(edges: *mut u64, count: *const usize) -> Result {
    if !edges.is_null() {
        // SAFETY: `count` was written before; `edges` has as many elements: CUDA's contract.
        unsafe { std::slice::from_raw_parts_mut(edges, *count) }.fill(0);
    }
    Ok(())
}

fn pairs(from: *const usize, to: *const usize, count: usize) -> Result<Vec<(usize, usize)>> {
    let (from, to) = (nodes_at(from, count)?, nodes_at(to, count)?);
    Ok(from.iter().copied().zip(to.iter().copied()).collect())
}

fn dot(graph: &CudaGraph) -> String {
    let mut text = "digraph dot {\n".to_owned();
    for (handle, node) in &graph.nodes {
        let label = match &node.kind {
            NodeKind::Work(work) => match &work.action {
                Action::Kernel(launch) => format!("kernel {}", launch.function.name),
                Action::Copy(transfer) => format!("copy {} bytes", transfer.copy.size.bytes()),
                Action::Fill(fill) => format!("set {} bytes", fill.size.bytes()),
                Action::Host(_) => "host".to_owned(),
            },
            NodeKind::Child(_) => "graph".to_owned(),
            NodeKind::Empty => "empty".to_owned(),
            NodeKind::Wait(_) => "event wait".to_owned(),
            NodeKind::Record(_) => "event record".to_owned(),
            NodeKind::Alloc(memory) => format!("allocate {} bytes", memory.size),
            NodeKind::Free(address) => format!("free {address:#x}"),
        };
        let _ = writeln!(text, "  \"{handle:#x}\" [label=\"{label}\"];");
    }
    for (from, to) in graph.edges() {
        let _ = writeln!(text, "  \"{from:#x}\" -> \"{to:#x}\";");
    }
    text + "}\n"
}

runtime! {
    fn cudaGraphCreate(graph: *mut usize, flags: c_uint) {
        if flags != 0 || graph.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(graph, with(|graphs| graphs.create()));
        Ok(())
    }

    fn cudaGraphDestroy(graph: usize) {
        let gone = with(|graphs| graphs.destroy(graph))?;
        drop(gone);
        Ok(())
    }

    fn cudaGraphClone(clone: *mut usize, graph: usize) {
        if clone.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        put!(clone, with(|graphs| graphs.clone_of(graph))?);
        Ok(())
    }

    fn cudaGraphNodeFindInClone(found: *mut usize, node: usize, clone: usize) {
        put!(found, with(|graphs| graphs.find_in_clone(node, clone))?);
        Ok(())
    }

    fn cudaGraphDestroyNode(node: usize) {
        let gone = with(|graphs| graphs.remove(node))?;
        drop(gone);
        Ok(())
    }

    fn cudaGraphNodeGetType(node: usize, kind: *mut u32) {
        put!(kind, with(|graphs| Ok(graphs.node(node)?.kind.number()))?);
        Ok(())
    }

    fn cudaGraphGetNodes(graph: usize, to: *mut usize, count: *mut usize) {
        let all: Vec<usize> = with(|graphs| Ok(graphs.graph(graph)?.nodes.keys().copied().collect()))?;
        // SAFETY: CUDA's contract of this function.
        unsafe { give(&all, to, count) }
    }

    fn cudaGraphGetRootNodes(graph: usize, to: *mut usize, count: *mut usize) {
        // SAFETY: CUDA's contract of this function.
        unsafe { give(&with(|graphs| Ok(graphs.graph(graph)?.roots()))?, to, count) }
    }

    fn cudaGraphGetEdges(graph: usize, from: *mut usize, to: *mut usize, edges: *mut u64, count: *mut usize) {
        let edges_of = with(|graphs| Ok(graphs.graph(graph)?.edges()))?;
        let (starts, ends): (Vec<usize>, Vec<usize>) = edges_of.into_iter().unzip();
        if from.is_null() != to.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: `count` is null or valid for reads: CUDA's contract. Both answers below start from its
        // first value.
        let room = *unsafe { count.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        // SAFETY: CUDA's contract of this function.
        unsafe { give(&starts, from, count) }?;
        put!(count, room);
        // SAFETY: CUDA's contract of this function.
        unsafe { give(&ends, to, count) }?;
        if from.is_null() { Ok(()) } else { clear(edges, count) }
    }

    fn cudaGraphNodeGetDependencies(node: usize, to: *mut usize, edges: *mut u64, count: *mut usize) {
        // SAFETY: CUDA's contract of this function.
        unsafe { give(&with(|graphs| Ok(graphs.node(node)?.after.clone()))?, to, count) }?;
        if to.is_null() { Ok(()) } else { clear(edges, count) }
    }

    fn cudaGraphNodeGetDependentNodes(node: usize, to: *mut usize, edges: *mut u64, count: *mut usize) {
        let found = with(|graphs| Ok(graphs.graph(graphs.home(node)?)?.dependents(node)))?;
        // SAFETY: CUDA's contract of this function.
        unsafe { give(&found, to, count) }?;
        if to.is_null() { Ok(()) } else { clear(edges, count) }
    }

    fn cudaGraphAddDependencies(
        graph: usize, from: *const usize, to: *const usize, _edges: *const c_void, count: usize,
    ) {
        let pairs = pairs(from, to, count)?;
        with(|graphs| graphs.bind(graph, &pairs))
    }

    fn cudaGraphRemoveDependencies(
        graph: usize, from: *const usize, to: *const usize, _edges: *const c_void, count: usize,
    ) {
        let pairs = pairs(from, to, count)?;
        with(|graphs| graphs.unbind(graph, &pairs))
    }

    fn cudaGraphDebugDotPrint(graph: usize, path: *const c_char, _flags: c_uint) {
        let text = with(|graphs| Ok(dot(graphs.graph(graph)?)))?;
        if path.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: `path` is not null, and a string: CUDA's contract of the function.
        let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
        std::fs::write(path.as_ref(), text).map_err(|_| Error::OPERATING_SYSTEM)
    }
}

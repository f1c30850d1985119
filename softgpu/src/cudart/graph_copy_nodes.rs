//! Copy nodes: of bytes, of boxes, and between memory and device variables.

use std::ffi::c_void;

use mgb_abi::copy3d::{CopySide, CudaExtent, Memcpy3DParms, PitchedPtr};

use super::arguments::read;
use super::copy3d::copy_of;
use super::graph_nodes::{action_of, add, change, work};
use super::{put, runtime};
use crate::device::current;
use crate::error::{Error, Result};
use crate::graph::{NodeKind, exec};
use crate::memory::region::{Side, Size};
use crate::transfer::MemoryCopy;
use crate::transfer::Transfer;
use crate::work::Action;

/// A copy in CUDA's structure. Positions in arrays are reported as addresses.
fn described(transfer: &Transfer) -> Memcpy3DParms {
    let Size { width, height, depth } = transfer.copy.size;
    let side_of = |side: Side| {
        let pitch = if side.pitch == 0 { width } else { side.pitch };
        let ysize = if side.slice == 0 {
            height
        } else {
            side.slice / pitch.max(1)
        };
        CopySide::pitched(PitchedPtr {
            ptr: side.at as *mut c_void,
            pitch,
            xsize: width,
            ysize,
        })
    };
    Memcpy3DParms {
        src: side_of(transfer.copy.from),
        dst: side_of(transfer.copy.to),
        extent: CudaExtent { width, height, depth },
        kind: transfer.way.kind(),
    }
}

/// A copy node.
///
/// # Errors
/// What is wrong with the copy.
pub fn transfer(copy: MemoryCopy, kind: u32) -> Result<NodeKind> {
    work(Action::Copy(Transfer::new(current::active()?, copy, kind)?))
}

/// A box's copy node.
pub(super) fn boxed(parameters: *const Memcpy3DParms) -> Result<NodeKind> {
    let parameters = read(parameters)?;
    transfer(copy_of(&parameters)?, parameters.kind)
}

fn row(to: *mut c_void, from: *const c_void, count: usize, kind: u32) -> Result<NodeKind> {
    transfer(MemoryCopy::bytes(to as usize, from as usize, count), kind)
}

fn to_symbol(
    symbol: *const c_void,
    from: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
) -> Result<NodeKind> {
    let to = super::symbol::part(current::active()?, symbol, offset, count)?;
    row(to as *mut c_void, from, count, kind)
}

fn from_symbol(
    to: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: u32,
) -> Result<NodeKind> {
    let from = super::symbol::part(current::active()?, symbol, offset, count)?;
    row(to, from as *const c_void, count, kind)
}

runtime! {
    fn cudaGraphAddMemcpyNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const Memcpy3DParms,
    ) {
        add(node, graph, after, count, boxed(parameters)?)
    }

    fn cudaGraphAddMemcpyNode1D(
        node: *mut usize, graph: usize, after: *const usize, others: usize, to: *mut c_void,
        from: *const c_void, count: usize, kind: u32,
    ) {
        add(node, graph, after, others, row(to, from, count, kind)?)
    }

    fn cudaGraphAddMemcpyNodeToSymbol(
        node: *mut usize, graph: usize, after: *const usize, others: usize, symbol: *const c_void,
        from: *const c_void, count: usize, offset: usize, kind: u32,
    ) {
        add(node, graph, after, others, to_symbol(symbol, from, count, offset, kind)?)
    }

    fn cudaGraphAddMemcpyNodeFromSymbol(
        node: *mut usize, graph: usize, after: *const usize, others: usize, to: *mut c_void,
        symbol: *const c_void, count: usize, offset: usize, kind: u32,
    ) {
        add(node, graph, after, others, from_symbol(to, symbol, count, offset, kind)?)
    }

    fn cudaGraphMemcpyNodeGetParams(node: usize, to: *mut Memcpy3DParms) {
        let Action::Copy(transfer) = action_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, described(&transfer));
        Ok(())
    }

    fn cudaGraphMemcpyNodeSetParams(node: usize, parameters: *const Memcpy3DParms) {
        change(node, boxed(parameters)?)
    }

    fn cudaGraphMemcpyNodeSetParams1D(
        node: usize, to: *mut c_void, from: *const c_void, count: usize, kind: u32,
    ) {
        change(node, row(to, from, count, kind)?)
    }

    fn cudaGraphMemcpyNodeSetParamsToSymbol(
        node: usize, symbol: *const c_void, from: *const c_void, count: usize, offset: usize, kind: u32,
    ) {
        change(node, to_symbol(symbol, from, count, offset, kind)?)
    }

    fn cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: usize, to: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: u32,
    ) {
        change(node, from_symbol(to, symbol, count, offset, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams(handle: usize, node: usize, parameters: *const Memcpy3DParms) {
        exec::find(handle)?.set(node, boxed(parameters)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(
        handle: usize, node: usize, to: *mut c_void, from: *const c_void, count: usize, kind: u32,
    ) {
        exec::find(handle)?.set(node, row(to, from, count, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        handle: usize, node: usize, symbol: *const c_void, from: *const c_void, count: usize, offset: usize,
        kind: u32,
    ) {
        exec::find(handle)?.set(node, to_symbol(symbol, from, count, offset, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        handle: usize, node: usize, to: *mut c_void, symbol: *const c_void, count: usize, offset: usize,
        kind: u32,
    ) {
        exec::find(handle)?.set(node, from_symbol(to, symbol, count, offset, kind)?)
    }
}

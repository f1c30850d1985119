//! The runtime's functions for set nodes of graphs.

use std::ffi::c_void;

use mgb_abi::graph::MemsetParams;

use super::arguments::read;
use super::graph_nodes::{action_of, add, change, work};
use super::{put, runtime};
use crate::device::current;
use crate::error::{Error, Result};
use crate::graph::{NodeKind, exec};
use crate::memory::region::{Side, Size};
use crate::transfer::Fill;
use crate::work::Action;

/// A set node.
///
/// # Errors
/// What is wrong with the range, or with the element.
pub fn set(parameters: *const MemsetParams) -> Result<NodeKind> {
    let MemsetParams {
        dst,
        pitch,
        value,
        element_size: element,
        width,
        height,
    } = read(parameters)?;
    current::active()?;
    let row = width.checked_mul(element as usize).ok_or(Error::INVALID_VALUE)?;
    if !matches!(element, 1 | 2 | 4) || (height > 1 && pitch < row) {
        return Err(Error::INVALID_VALUE);
    }
    let fill = Fill {
        to: Side::rows(dst as usize, pitch),
        size: Size::plane(row, height),
        value,
        element: element as usize,
    };
    fill.check()?;
    work(Action::Fill(fill))
}

runtime! {
    fn cudaGraphAddMemsetNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const MemsetParams,
    ) {
        add(node, graph, after, count, set(parameters)?)
    }

    fn cudaGraphMemsetNodeGetParams(node: usize, to: *mut MemsetParams) {
        let Action::Fill(fill) = action_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, MemsetParams {
            dst: fill.to.at as *mut c_void,
            pitch: fill.to.pitch,
            value: fill.value,
            element_size: fill.element as u32,
            width: fill.size.width / fill.element,
            height: fill.size.height,
        });
        Ok(())
    }

    fn cudaGraphMemsetNodeSetParams(node: usize, parameters: *const MemsetParams) {
        change(node, set(parameters)?)
    }

    fn cudaGraphExecMemsetNodeSetParams(handle: usize, node: usize, parameters: *const MemsetParams) {
        exec::find(handle)?.set(node, set(parameters)?)
    }
}

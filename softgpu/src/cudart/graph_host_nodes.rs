//! Nodes that call the program.

use std::ffi::c_void;

use super::graph_nodes::{action_of, add, change, read, work};
use super::{put, runtime};
use crate::error::{Error, Result};
use crate::graph::{Kind, exec};
use crate::work::Action;
use crate::work::host::{Function, HostCall, HostFunction, UserData};

/// `cudaHostNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostNodeParams {
    /// The function.
    pub function: Option<HostFunction>,
    /// What it is told.
    pub data: *mut c_void,
}

/// A node that calls the program.
///
/// # Errors
/// `INVALID_VALUE` for no function.
pub fn call(parameters: *const HostNodeParams) -> Result<Kind> {
    let HostNodeParams { function, data } = read(parameters)?;
    let function = Function::Plain(function.ok_or(Error::INVALID_VALUE)?);
    let data = UserData(data);
    work(Action::Host(HostCall { function, data }))
}

runtime! {
    fn cudaGraphAddHostNode(node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const HostNodeParams) {
        add(node, graph, after, count, call(parameters)?)
    }

    fn cudaGraphHostNodeGetParams(node: usize, to: *mut HostNodeParams) {
        let Action::Host(HostCall { function: Function::Plain(function), data }) = action_of(node)? else {
            return Err(Error::INVALID_VALUE);
        };
        put!(to, HostNodeParams { function: Some(function), data: data.0 });
        Ok(())
    }

    fn cudaGraphHostNodeSetParams(node: usize, parameters: *const HostNodeParams) {
        change(node, call(parameters)?)
    }

    fn cudaGraphExecHostNodeSetParams(handle: usize, node: usize, parameters: *const HostNodeParams) {
        exec::find(handle)?.set(node, call(parameters)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<HostNodeParams>(), 16);
    }
}

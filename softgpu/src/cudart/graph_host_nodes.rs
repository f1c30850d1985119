//! Nodes that call the program.

use mgb_abi::graph::HostNodeParams;

use super::arguments::read;
use super::graph_nodes::{action_of, add, change, work};
use super::{put, runtime};
use crate::error::{Error, Result};
use crate::graph::{NodeKind, exec};
use crate::work::Action;
use crate::work::host::{HostCall, HostCallback, UserData};

/// A node that calls the program.
///
/// # Errors
/// `INVALID_VALUE` for no function.
pub fn call(parameters: *const HostNodeParams) -> Result<NodeKind> {
    let HostNodeParams { func, user_data } = read(parameters)?;
    let function = HostCallback::Plain(func.ok_or(Error::INVALID_VALUE)?);
    let data = UserData(user_data);
    work(Action::Host(HostCall { function, data }))
}

runtime! {
    fn cudaGraphAddHostNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const HostNodeParams,
    ) {
        add(node, graph, after, count, call(parameters)?)
    }

    fn cudaGraphHostNodeGetParams(node: usize, to: *mut HostNodeParams) {
        let Action::Host(HostCall { function: HostCallback::Plain(function), data }) = action_of(node)? else {
            return Err(Error::INVALID_VALUE);
        };
        put!(to, HostNodeParams { func: Some(function), user_data: data.0 });
        Ok(())
    }

    fn cudaGraphHostNodeSetParams(node: usize, parameters: *const HostNodeParams) {
        change(node, call(parameters)?)
    }

    fn cudaGraphExecHostNodeSetParams(handle: usize, node: usize, parameters: *const HostNodeParams) {
        exec::find(handle)?.set(node, call(parameters)?)
    }
}

//! Attributes of kernel nodes, and of graphs' memory.

use std::ffi::c_int;
use std::sync::Arc;

use mgb_abi::graph::*;
use mgb_abi::launch::{ATTRIBUTE_CLUSTER_DIMENSION, ATTRIBUTE_COOPERATIVE, LaunchAttributeValue};

use super::graph_nodes::action_of;
use super::{put, runtime};
use crate::address::graph_memory;
use crate::device::node;
use crate::driver::pool::graph_level;
use crate::driver_front;
use crate::error::{Error, Result, say_once};
use crate::graph::{NodeKind, with};
use crate::kernel::launch::{self, CheckedLaunch};
use crate::work::{Action, DeviceWork};

/// Access window, cooperation, clusters, priority, synchronization domains, carve-out: those that kernel
/// nodes have.
fn check(attribute: u32) -> Result {
    if matches!(
        attribute,
        1 | ATTRIBUTE_COOPERATIVE | ATTRIBUTE_CLUSTER_DIMENSION | 5 | 8..=11 | 14
    ) {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

fn kernel_of(node: usize) -> Result<Arc<CheckedLaunch>> {
    match action_of(node)? {
        Action::Kernel(launch) => Ok(launch),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Puts a launch into the node of another.
fn replace(node: usize, launch: CheckedLaunch) -> Result {
    let NodeKind::Work(DeviceWork { gpu, .. }) = with(|graphs| Ok(graphs.node(node)?.kind.clone()))? else {
        return Err(Error::INVALID_VALUE);
    };
    launch::check(gpu.profile(), &launch.function, &launch.shape)?;
    let action = Action::Kernel(Arc::new(launch));
    with(|graphs| graphs.replace(node, NodeKind::Work(DeviceWork { gpu, action }))).map(drop)
}

runtime! {
    fn cudaGraphKernelNodeGetAttribute(node: usize, attribute: u32, to: *mut LaunchAttributeValue) {
        check(attribute)?;
        let launch = kernel_of(node)?;
        let mut value = launch.attributes.get(&attribute).copied().unwrap_or_default();
        match attribute {
            ATTRIBUTE_COOPERATIVE => value.0[0] = launch.shape.cooperative.into(),
            ATTRIBUTE_CLUSTER_DIMENSION if !launch.attributes.contains_key(&attribute) => {
                value.0[..3].fill(1);
            }
            _ => {}
        }
        put!(to, value);
        Ok(())
    }

    fn cudaGraphKernelNodeSetAttribute(node: usize, attribute: u32, from: *const LaunchAttributeValue) {
        check(attribute)?;
        // SAFETY: `from` is null or valid for reads: CUDA's contract of the function.
        let value = *unsafe { from.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if attribute == ATTRIBUTE_CLUSTER_DIMENSION && value.0[..3] != [1, 1, 1] {
            say_once("launches in clusters are not supported by the software GPU");
            return Err(Error::NOT_SUPPORTED);
        }
        let mut launch = kernel_of(node)?.as_ref().clone();
        if attribute == ATTRIBUTE_COOPERATIVE {
            launch.shape.cooperative = value.0[0] != 0;
        }
        launch.attributes.insert(attribute, value);
        replace(node, launch)
    }

    fn cudaGraphKernelNodeCopyAttributes(to: usize, from: usize) {
        let (from, mut launch) = (kernel_of(from)?, kernel_of(to)?.as_ref().clone());
        launch.shape.cooperative = from.shape.cooperative;
        launch.attributes.clone_from(&from.attributes);
        replace(to, launch)
    }

    fn cudaDeviceGraphMemTrim(device: c_int) {
        let gpu = node()?.gpu(device)?;
        match driver_front::front() {
            Some(front) => front.cuDeviceGraphMemTrim(device),
            None => graph_memory::trim(gpu),
        }
    }

    fn cudaDeviceGetGraphMemAttribute(device: c_int, attribute: u32, to: *mut u64) {
        put!(to, graph_level(device, attribute)?);
        Ok(())
    }

    fn cudaDeviceSetGraphMemAttribute(device: c_int, attribute: u32, from: *const u64) {
        let ordinal = node()?.gpu(device)?.ordinal;
        // SAFETY: `from` is null or valid for reads: CUDA's contract. Only the high marks can be set, to
        // zero.
        let value = *unsafe { from.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if !matches!(attribute, GRAPH_MEM_USED_HIGH | GRAPH_MEM_RESERVED_HIGH) || value != 0 {
            return Err(Error::INVALID_VALUE);
        }
        graph_memory::forget_high(ordinal);
        Ok(())
    }
}

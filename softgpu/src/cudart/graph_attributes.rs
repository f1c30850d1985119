//! Attributes of kernel nodes, and of graphs' memory.

use std::ffi::c_int;
use std::sync::Arc;

use super::graph_nodes::action_of;
use super::{put, runtime};
use crate::device::node;
use crate::error::{Error, Result, say_once};
use crate::exec::launch::{self, Launch};
use crate::graph::{Kind, memory, with};
use crate::stream::Attribute;
use crate::work::{Action, Work};

/// `cudaLaunchAttributeCooperative`.
const COOPERATIVE: c_int = 2;
/// `cudaLaunchAttributeClusterDimension`.
const CLUSTER: c_int = 4;

/// Access window, cooperation, clusters, priority, synchronization domains, carve-out: those that kernel nodes have.
fn check(attribute: c_int) -> Result {
    if matches!(attribute, 1 | COOPERATIVE | CLUSTER | 5 | 8..=11 | 14) {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

fn kernel_of(node: usize) -> Result<Arc<Launch>> {
    match action_of(node)? {
        Action::Kernel(launch) => Ok(launch),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Puts a launch into the node of another.
fn replace(node: usize, launch: Launch) -> Result {
    let Kind::Work(Work { gpu, .. }) = with(|graphs| Ok(graphs.node(node)?.kind.clone()))? else {
        return Err(Error::INVALID_VALUE);
    };
    launch::check(gpu.profile(), &launch.function, &launch.shape)?;
    let action = Action::Kernel(Arc::new(launch));
    with(|graphs| graphs.replace(node, Kind::Work(Work { gpu, action }))).map(drop)
}

runtime! {
    fn cudaGraphKernelNodeGetAttribute(node: usize, attribute: c_int, to: *mut Attribute) {
        check(attribute)?;
        let launch = kernel_of(node)?;
        let mut value = launch.attributes.get(&attribute).copied().unwrap_or_default();
        match attribute {
            COOPERATIVE => value[0] = launch.shape.cooperative.into(),
            CLUSTER if !launch.attributes.contains_key(&CLUSTER) => value[..3].fill(1),
            _ => {}
        }
        put!(to, value);
        Ok(())
    }

    fn cudaGraphKernelNodeSetAttribute(node: usize, attribute: c_int, from: *const Attribute) {
        check(attribute)?;
        // SAFETY: null or the caller's value.
        let value = *unsafe { from.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if attribute == CLUSTER && value[..3] != [1, 1, 1] {
            say_once("launches in clusters are not supported by the software GPU");
            return Err(Error::NOT_SUPPORTED);
        }
        let mut launch = kernel_of(node)?.as_ref().clone();
        if attribute == COOPERATIVE {
            launch.shape.cooperative = value[0] != 0;
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
        memory::trim(node()?.gpu(device)?)
    }

    fn cudaDeviceGetGraphMemAttribute(device: c_int, attribute: c_int, to: *mut u64) {
        let (current, high) = memory::used(node()?.gpu(device)?.ordinal);
        put!(to, match attribute {
            // In use, and reserved.
            0 | 2 => current,
            1 | 3 => high,
            _ => return Err(Error::INVALID_VALUE),
        });
        Ok(())
    }

    fn cudaDeviceSetGraphMemAttribute(device: c_int, attribute: c_int, from: *const u64) {
        let ordinal = node()?.gpu(device)?.ordinal;
        // SAFETY: null or the caller's value. Only the high marks can be set, to nothing.
        let value = *unsafe { from.as_ref() }.ok_or(Error::INVALID_VALUE)?;
        if !matches!(attribute, 1 | 3) || value != 0 {
            return Err(Error::INVALID_VALUE);
        }
        memory::forget_high(ordinal);
        Ok(())
    }
}

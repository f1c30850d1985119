//! The nodes of graphs: their parameters, in CUDA's structures, in graphs and in executable ones.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::copy3d::{Memcpy3DParms, Object, Pos};
use super::graph::nodes_at;
use super::memory::{Extent, PitchedPtr};
use super::{Dim3, put, runtime};
use crate::device::current;
use crate::error::{Error, Result, say_once};
use crate::exec::launch::{Launch, Shape};
use crate::exec::registry;
use crate::graph::{GraphMemory, Kind, exec, with};
use crate::memory::region::{Copy, Fill, Side, Size, Way};
use crate::memory::transfer::Transfer;
use crate::stream::event;
use crate::work::host::{Function, HostCall, HostFunction, UserData};
use crate::work::{Action, Work};

/// `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeParams {
    /// The host stub.
    pub function: usize,
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory.
    pub shared: c_uint,
    /// A pointer to each argument.
    pub arguments: *mut *mut c_void,
    /// The other way to give arguments.
    pub extra: *mut *mut c_void,
}

/// `cudaMemsetParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemsetParams {
    /// Where.
    pub to: *mut c_void,
    /// Bytes from row to row.
    pub pitch: usize,
    /// What each element becomes.
    pub value: c_uint,
    /// Bytes of an element.
    pub element: c_uint,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// `cudaHostNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostNodeParams {
    /// The function.
    pub function: Option<HostFunction>,
    /// What it is told.
    pub data: *mut c_void,
}

/// Reads the caller's structure.
fn read<T: std::marker::Copy>(parameters: *const T) -> Result<T> {
    // SAFETY: null or a structure, as CUDA's contract has it.
    unsafe { parameters.as_ref() }
        .copied()
        .ok_or(Error::INVALID_VALUE)
}

fn work(action: Action) -> Result<Kind> {
    let gpu = current::active()?;
    Ok(Kind::Work(Work { gpu, action }))
}

/// A kernel node.
///
/// # Errors
/// Those of a launch.
pub fn kernel(parameters: *const KernelNodeParams) -> Result<Kind> {
    let parameters = read(parameters)?;
    if !parameters.extra.is_null() {
        say_once("kernel nodes with `extra` are not supported by the software GPU; use `kernelParams`");
        return Err(Error::NOT_SUPPORTED);
    }
    let shape = Shape {
        grid: parameters.grid.array(),
        block: parameters.block.array(),
        shared: parameters.shared as usize,
        cooperative: false,
    };
    let function = registry::function(parameters.function)?;
    let arguments = parameters.arguments.cast_const().cast();
    // SAFETY: the caller passes what the kernel's parameters ask for.
    let launch = unsafe { Launch::new(current::active()?, function, shape, arguments)? };
    work(Action::Kernel(Arc::new(launch)))
}

/// A copy node.
///
/// # Errors
/// What is wrong with the copy.
pub fn transfer(copy: Copy, kind: c_int) -> Result<Kind> {
    work(Action::Copy(Transfer::new(current::active()?, copy, kind)?))
}

/// A set node.
///
/// # Errors
/// What is wrong with the range, or with the element.
pub fn set(parameters: *const MemsetParams) -> Result<Kind> {
    let MemsetParams {
        to,
        pitch,
        value,
        element,
        width,
        height,
    } = read(parameters)?;
    current::active()?;
    let row = width.checked_mul(element as usize).ok_or(Error::INVALID_VALUE)?;
    if !matches!(element, 1 | 2 | 4) || (height > 1 && pitch < row) {
        return Err(Error::INVALID_VALUE);
    }
    let fill = Fill {
        to: Side::rows(to as usize, pitch),
        size: Size::plane(row, height),
        value,
        element: element as usize,
    };
    fill.check()?;
    work(Action::Fill(fill))
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

/// A node that records an event.
pub(super) fn record(event: usize) -> Result<Kind> {
    event::find(event)?;
    Ok(Kind::Record(event))
}

/// A node that waits for an event.
pub(super) fn wait(event: usize) -> Result<Kind> {
    event::find(event)?;
    Ok(Kind::Wait(event))
}

/// `cudaMemAllocNodeParams`: properties of a pool, access, bytes, the address.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocNodeParams {
    /// `cudaMemPoolProps`.
    pub pool: super::pool::PoolProps,
    access: *const c_void,
    access_count: usize,
    /// Bytes.
    pub size: usize,
    /// Where they are.
    pub address: *mut c_void,
}

/// Adds a node, and hands out its handle.
pub(super) fn add(node: *mut usize, graph: usize, after: *const usize, count: usize, kind: Kind) -> Result {
    if node.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let after = nodes_at(after, count)?;
    put!(node, with(|graphs| graphs.add(graph, after, kind))?);
    Ok(())
}

/// Changes a node of a graph. What it was is dropped outside of the lock.
pub(super) fn change(node: usize, kind: Kind) -> Result {
    with(|graphs| graphs.set(node, kind)).map(drop)
}

/// What a node of a graph does.
fn kind_of(node: usize) -> Result<Kind> {
    with(|graphs| Ok(graphs.node(node)?.kind.clone()))
}

/// The work of a node of a graph.
pub(super) fn action_of(node: usize) -> Result<Action> {
    match kind_of(node)? {
        Kind::Work(work) => Ok(work.action),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// A copy in CUDA's structure. The places in arrays are told as addresses.
fn described(transfer: &Transfer) -> Memcpy3DParms {
    let Size { width, height, depth } = transfer.copy.size;
    let object = |side: Side| {
        let pitch = if side.pitch == 0 { width } else { side.pitch };
        let ysize = if side.slice == 0 {
            height
        } else {
            side.slice / pitch.max(1)
        };
        let ptr = PitchedPtr {
            ptr: side.at as *mut c_void,
            pitch,
            xsize: width,
            ysize,
        };
        let pos = Pos { x: 0, y: 0, z: 0 };
        Object { array: 0, pos, ptr }
    };
    Memcpy3DParms {
        from: object(transfer.copy.from),
        to: object(transfer.copy.to),
        extent: Extent { width, height, depth },
        kind: match transfer.way {
            Way::Host => 0,
            Way::ToDevice => 1,
            Way::FromDevice => 2,
            Way::Within => 3,
        },
    }
}

/// A box's copy node.
pub(super) fn boxed(parameters: *const Memcpy3DParms) -> Result<Kind> {
    let parameters = read(parameters)?;
    transfer(parameters.copy()?, parameters.kind)
}

fn row(to: *mut c_void, from: *const c_void, count: usize, kind: c_int) -> Result<Kind> {
    transfer(Copy::bytes(to as usize, from as usize, count), kind)
}

fn to_symbol(
    symbol: *const c_void,
    from: *const c_void,
    count: usize,
    offset: usize,
    kind: c_int,
) -> Result<Kind> {
    let to = super::symbol::part(current::active()?, symbol, offset, count)?;
    row(to as *mut c_void, from, count, kind)
}

fn from_symbol(
    to: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: c_int,
) -> Result<Kind> {
    let from = super::symbol::part(current::active()?, symbol, offset, count)?;
    row(to, from as *const c_void, count, kind)
}

runtime! {
    fn cudaGraphAddKernelNode(node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const KernelNodeParams) {
        add(node, graph, after, count, kernel(parameters)?)
    }

    fn cudaGraphKernelNodeGetParams(node: usize, to: *mut KernelNodeParams) {
        let Action::Kernel(launch) = action_of(node)? else { return Err(Error::INVALID_VALUE) };
        let [grid, block] = [launch.shape.grid, launch.shape.block].map(|[x, y, z]| Dim3 { x, y, z });
        // The arguments are there as long as the node is not changed.
        put!(to, KernelNodeParams {
            function: launch.function.stub,
            grid,
            block,
            shared: launch.shape.shared as c_uint,
            arguments: launch.arguments().cast_mut().cast(),
            extra: std::ptr::null_mut(),
        });
        Ok(())
    }

    fn cudaGraphKernelNodeSetParams(node: usize, parameters: *const KernelNodeParams) {
        change(node, kernel(parameters)?)
    }

    fn cudaGraphExecKernelNodeSetParams(handle: usize, node: usize, parameters: *const KernelNodeParams) {
        exec::find(handle)?.set(node, kernel(parameters)?)
    }

    fn cudaGraphAddMemcpyNode(node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const Memcpy3DParms) {
        add(node, graph, after, count, boxed(parameters)?)
    }

    fn cudaGraphAddMemcpyNode1D(node: *mut usize, graph: usize, after: *const usize, others: usize, to: *mut c_void, from: *const c_void, count: usize, kind: c_int) {
        add(node, graph, after, others, row(to, from, count, kind)?)
    }

    fn cudaGraphAddMemcpyNodeToSymbol(node: *mut usize, graph: usize, after: *const usize, others: usize, symbol: *const c_void, from: *const c_void, count: usize, offset: usize, kind: c_int) {
        add(node, graph, after, others, to_symbol(symbol, from, count, offset, kind)?)
    }

    fn cudaGraphAddMemcpyNodeFromSymbol(node: *mut usize, graph: usize, after: *const usize, others: usize, to: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_int) {
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

    fn cudaGraphMemcpyNodeSetParams1D(node: usize, to: *mut c_void, from: *const c_void, count: usize, kind: c_int) {
        change(node, row(to, from, count, kind)?)
    }

    fn cudaGraphMemcpyNodeSetParamsToSymbol(node: usize, symbol: *const c_void, from: *const c_void, count: usize, offset: usize, kind: c_int) {
        change(node, to_symbol(symbol, from, count, offset, kind)?)
    }

    fn cudaGraphMemcpyNodeSetParamsFromSymbol(node: usize, to: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_int) {
        change(node, from_symbol(to, symbol, count, offset, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams(handle: usize, node: usize, parameters: *const Memcpy3DParms) {
        exec::find(handle)?.set(node, boxed(parameters)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(handle: usize, node: usize, to: *mut c_void, from: *const c_void, count: usize, kind: c_int) {
        exec::find(handle)?.set(node, row(to, from, count, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(handle: usize, node: usize, symbol: *const c_void, from: *const c_void, count: usize, offset: usize, kind: c_int) {
        exec::find(handle)?.set(node, to_symbol(symbol, from, count, offset, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(handle: usize, node: usize, to: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_int) {
        exec::find(handle)?.set(node, from_symbol(to, symbol, count, offset, kind)?)
    }

    fn cudaGraphAddMemsetNode(node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *const MemsetParams) {
        add(node, graph, after, count, set(parameters)?)
    }

    fn cudaGraphMemsetNodeGetParams(node: usize, to: *mut MemsetParams) {
        let Action::Fill(fill) = action_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, MemsetParams {
            to: fill.to.at as *mut c_void,
            pitch: fill.to.pitch,
            value: fill.value,
            element: fill.element as c_uint,
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

    fn cudaGraphAddChildGraphNode(node: *mut usize, graph: usize, after: *const usize, count: usize, child: usize) {
        add(node, graph, after, count, Kind::Child(child))
    }

    fn cudaGraphChildGraphNodeGetGraph(node: usize, graph: *mut usize) {
        let Kind::Child(child) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(graph, child);
        Ok(())
    }

    fn cudaGraphExecChildGraphNodeSetParams(handle: usize, node: usize, child: usize) {
        let exec = exec::find(handle)?;
        with(|graphs| exec.set_child(graphs, node, child))
    }

    fn cudaGraphAddEmptyNode(node: *mut usize, graph: usize, after: *const usize, count: usize) {
        add(node, graph, after, count, Kind::Empty)
    }

    fn cudaGraphAddEventRecordNode(node: *mut usize, graph: usize, after: *const usize, count: usize, event: usize) {
        add(node, graph, after, count, record(event)?)
    }

    fn cudaGraphEventRecordNodeGetEvent(node: usize, event: *mut usize) {
        let Kind::Record(found) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(event, found);
        Ok(())
    }

    fn cudaGraphEventRecordNodeSetEvent(node: usize, event: usize) {
        change(node, record(event)?)
    }

    fn cudaGraphExecEventRecordNodeSetEvent(handle: usize, node: usize, event: usize) {
        exec::find(handle)?.set(node, record(event)?)
    }

    fn cudaGraphAddEventWaitNode(node: *mut usize, graph: usize, after: *const usize, count: usize, event: usize) {
        add(node, graph, after, count, wait(event)?)
    }

    fn cudaGraphEventWaitNodeGetEvent(node: usize, event: *mut usize) {
        let Kind::Wait(found) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(event, found);
        Ok(())
    }

    fn cudaGraphEventWaitNodeSetEvent(node: usize, event: usize) {
        change(node, wait(event)?)
    }

    fn cudaGraphExecEventWaitNodeSetEvent(handle: usize, node: usize, event: usize) {
        exec::find(handle)?.set(node, wait(event)?)
    }

    fn cudaGraphAddMemAllocNode(node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *mut AllocNodeParams) {
        let AllocNodeParams { pool, size, .. } = read(parameters.cast_const())?;
        let memory = GraphMemory::new(pool.gpu()?, size)?;
        let address = memory.address as *mut c_void;
        add(node, graph, after, count, Kind::Alloc(memory))?;
        // SAFETY: it was read before.
        unsafe { (*parameters).address = address };
        Ok(())
    }

    fn cudaGraphMemAllocNodeGetParams(node: usize, to: *mut AllocNodeParams) {
        let Kind::Alloc(memory) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, AllocNodeParams {
            pool: super::pool::PoolProps::of(memory.ordinal),
            access: std::ptr::null(),
            access_count: 0,
            size: memory.size,
            address: memory.address as *mut c_void,
        });
        Ok(())
    }

    fn cudaGraphAddMemFreeNode(node: *mut usize, graph: usize, after: *const usize, count: usize, pointer: *mut c_void) {
        if pointer.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        add(node, graph, after, count, Kind::Free(pointer as usize))
    }

    fn cudaGraphMemFreeNodeGetParams(node: usize, to: *mut *mut c_void) {
        let Kind::Free(address) = kind_of(node)? else { return Err(Error::INVALID_VALUE) };
        put!(to, address as *mut c_void);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_cudas() {
        assert_eq!(size_of::<KernelNodeParams>(), 56);
        assert_eq!(size_of::<MemsetParams>(), 40);
        assert_eq!(size_of::<HostNodeParams>(), 16);
        assert_eq!(size_of::<AllocNodeParams>(), 120);
    }
}

//! Memory that graphs allocate, by nodes or by captured calls. The runtime takes it when an executable graph
//! is uploaded or launched for the first time, keeps it until the program trims it, and uses it again for
//! other graphs: on each GPU it is one of the `sources` that are charged what they hold. Before a graph takes
//! its memory there is room for the most that its nodes have at a time, done one after another.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mgb_abi::graph::{
    GraphInstantiateParams, INSTANTIATE_UPLOAD, MemAllocNodeParams, NODE_GRAPH, NODE_MEM_ALLOC, NODE_MEM_FREE,
};
use mgb_abi::pool::MemAccessDesc;
use mgb_core::pace;
use mgb_probe::need::GRANULE;
use parking_lot::Mutex;

use super::locations::{NamesDevice, all_real};
use super::sources::{charged, room, settle_all};
use super::{ordinals, passthrough};
use crate::code::{Answer, Code, Own};
use crate::handles::on;
use crate::native::{self, Stream};
use crate::non_arena_memory::Source;
use crate::thread;

type GraphHandle = *mut c_void;
type NodeHandle = *mut c_void;
type ExecHandle = *mut c_void;

/// The memory of an executable graph.
struct Need {
    /// The peak of bytes, by the GPU's ordinal.
    most: BTreeMap<i32, u64>,
    /// When the graph took its memory, as counted by [`TRIMS`]; `None`: it has none.
    taken: Option<u64>,
}

/// The memory of each executable graph that has any, by handle.
static NEEDS: Mutex<BTreeMap<usize, Need>> = Mutex::new(BTreeMap::new());
/// Whether an executable graph with memory ever existed.
static ANY: AtomicBool = AtomicBool::new(false);
/// How often the program has trimmed the memory of graphs.
static TRIMS: AtomicU64 = AtomicU64::new(0);

/// The parameters with the real numbers, and the list that they point to, which must outlive their use.
///
/// # Safety
/// `access_descs` is null or has `access_desc_count` elements.
pub unsafe fn real(asked: &MemAllocNodeParams) -> Result<(MemAllocNodeParams, Vec<MemAccessDesc>), Own> {
    // SAFETY: `access_descs` is null or has `access_desc_count` elements: contract of this function.
    let list = unsafe { all_real(asked.access_descs, asked.access_desc_count)? };
    let access_descs = if asked.access_descs.is_null() {
        asked.access_descs
    } else {
        list.as_ptr()
    };
    let pool_props = asked.pool_props.real()?;
    Ok((
        MemAllocNodeParams {
            pool_props,
            access_descs,
            ..*asked
        },
        list,
    ))
}

type Add = unsafe extern "C" fn(
    *mut NodeHandle,
    GraphHandle,
    *const NodeHandle,
    usize,
    *mut MemAllocNodeParams,
) -> Code;

/// `cudaGraphAddMemAllocNode`.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphAddMemAllocNode`.
pub unsafe fn add_alloc(
    native: Add,
    node: *mut NodeHandle,
    graph: GraphHandle,
    after: *const NodeHandle,
    count: usize,
    params: *mut MemAllocNodeParams,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: null or valid: contract of this function.
    let Some(asked) = (unsafe { params.as_mut() }) else {
        // SAFETY: the arguments are those that the program passed: contract of `cudaGraphAddMemAllocNode`.
        return passthrough::run(|| unsafe { native(node, graph, after, count, params) });
    };
    // SAFETY: `access_descs` is null or has `access_desc_count` elements: contract of
    // `cudaGraphAddMemAllocNode`.
    let (mut own, _list) = unsafe { real(asked)? };
    // SAFETY: the program's arguments, but `own` for `params`; its list lives in `_list`: contract of
    // `cudaGraphAddMemAllocNode`.
    let answer = passthrough::run(|| unsafe { native(node, graph, after, count, &mut own) });
    asked.dptr = own.dptr;
    answer
}

/// `cudaGraphMemAllocNodeGetParams`. Its list of other devices that have access is the runtime's own, with
/// its numbers.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphMemAllocNodeGetParams`.
pub unsafe fn alloc_params(
    native: unsafe extern "C" fn(NodeHandle, *mut MemAllocNodeParams) -> Code,
    node: NodeHandle,
    params: *mut MemAllocNodeParams,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: `params` is null or writable: contract of `cudaGraphMemAllocNodeGetParams`.
    let answer = passthrough::run(|| unsafe { native(node, params) })?;
    // SAFETY: null, or writable: contract of this function; a success has written it.
    if let Some(params) = unsafe { params.as_mut() }.filter(|_| answer.is_success()) {
        params.pool_props = params.pool_props.of_program();
    }
    Ok(answer)
}

/// What nodes have allocated so far, done one after another.
#[derive(Default)]
struct Count {
    now: HashMap<i32, u64>,
    most: BTreeMap<i32, u64>,
    pieces: HashMap<usize, (i32, u64)>,
}

impl Count {
    fn alloc(&mut self, ordinal: i32, address: usize, bytes: u64) {
        let bytes = bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        self.pieces.insert(address, (ordinal, bytes));
        let now = self.now.entry(ordinal).or_default();
        *now = now.saturating_add(bytes);
        let most = self.most.entry(ordinal).or_default();
        *most = (*most).max(*now);
    }

    fn free(&mut self, address: usize) {
        if let Some((ordinal, bytes)) = self.pieces.remove(&address)
            && let Some(now) = self.now.get_mut(&ordinal)
        {
            *now = now.saturating_sub(bytes);
        }
    }

    /// Visits all nodes of a graph. `None`: the runtime does not list them.
    fn graph(&mut self, graph: GraphHandle) -> Option<()> {
        for (node, kind) in in_order(graph)? {
            // SAFETY: nodes of the graph, of the kinds that the calls are for; they write what they are
            // given, which may be anything before.
            unsafe {
                match kind {
                    NODE_GRAPH => {
                        let mut child = std::ptr::null_mut();
                        done(native::cudaGraphChildGraphNodeGetGraph(node, &mut child))?;
                        self.graph(child)?;
                    }
                    NODE_MEM_ALLOC => {
                        let mut params: MemAllocNodeParams = std::mem::zeroed();
                        done(native::cudaGraphMemAllocNodeGetParams(node, &mut params))?;
                        let ordinal = params.pool_props.location.id;
                        self.alloc(ordinal, params.dptr as usize, params.byte_size as u64);
                    }
                    NODE_MEM_FREE => {
                        let mut address = std::ptr::null_mut();
                        done(native::cudaGraphMemFreeNodeGetParams(node, &mut address))?;
                        self.free(address as usize);
                    }
                    _ => {}
                }
            }
        }
        Some(())
    }
}

fn done(code: Code) -> Option<()> {
    code.is_success().then_some(())
}

/// The nodes of a graph and their kinds, each after those that it comes after. Where none allocates memory
/// the order is not looked for.
fn in_order(graph: GraphHandle) -> Option<Vec<(NodeHandle, u32)>> {
    let null: NodeHandle = std::ptr::null_mut();
    let none = std::ptr::null_mut::<NodeHandle>;
    let mut count = 0;
    // SAFETY: asks for the number alone, then passes lists of that many elements.
    let nodes = unsafe {
        done(native::cudaGraphGetNodes(graph, none(), &mut count))?;
        let mut nodes = vec![null; count];
        done(native::cudaGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count))?;
        nodes
    };
    let mut kinds = Vec::with_capacity(nodes.len());
    for &node in &nodes {
        let mut kind = 0;
        // SAFETY: writes one word.
        done(unsafe { native::cudaGraphNodeGetType(node, &mut kind) })?;
        kinds.push((node, kind));
    }
    if !kinds.iter().any(|(_, kind)| *kind == NODE_MEM_ALLOC) {
        return Some(kinds);
    }
    // SAFETY: asks for the number alone, then passes lists of that many elements; an edge's data are 8
    // bytes.
    let (from, to) = unsafe {
        done(native::cudaGraphGetEdges(graph, none(), none(), null, &mut count))?;
        let (mut from, mut to, mut data) = (vec![null; count], vec![null; count], vec![0u64; count]);
        let (from_at, to_at, data_at) = (from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr().cast());
        done(native::cudaGraphGetEdges(
            graph, from_at, to_at, data_at, &mut count,
        ))?;
        (from, to)
    };
    Some(sorted(kinds, from.into_iter().zip(to)))
}

/// The nodes, each after those from which an edge leads to it.
fn sorted(
    nodes: Vec<(NodeHandle, u32)>,
    edges: impl Iterator<Item = (NodeHandle, NodeHandle)>,
) -> Vec<(NodeHandle, u32)> {
    let mut before: HashMap<NodeHandle, usize> = HashMap::new();
    let mut after: HashMap<NodeHandle, Vec<NodeHandle>> = HashMap::new();
    for (from, to) in edges {
        *before.entry(to).or_default() += 1;
        after.entry(from).or_default().push(to);
    }
    let kinds: HashMap<NodeHandle, u32> = nodes.iter().copied().collect();
    let first = nodes.iter().rev().map(|(node, _)| *node);
    let mut free: Vec<NodeHandle> = first.filter(|node| !before.contains_key(node)).collect();
    let mut sorted = Vec::with_capacity(nodes.len());
    // What became free last comes first: so a branch frees what it allocated before the next one begins.
    while let Some(node) = free.pop() {
        sorted.push((node, kinds.get(&node).copied().unwrap_or_default()));
        for next in after.remove(&node).unwrap_or_default() {
            if let Some(left) = before.get_mut(&next) {
                *left -= 1;
                if *left == 0 {
                    free.push(next);
                }
            }
        }
    }
    sorted
}

/// Notes the memory of a new executable graph.
fn note(exec: ExecHandle, graph: GraphHandle) {
    let mut count = Count::default();
    if count.graph(graph).is_none() {
        // SAFETY: no arguments. The error was a question's of lazyrt's own.
        unsafe { native::cudaGetLastError() };
    }
    let mut needs = NEEDS.lock();
    // The handle may have been an older one's.
    needs.remove(&(exec as usize));
    if !count.most.is_empty() {
        ANY.store(true, Ordering::Release);
        let most = count.most;
        needs.insert(exec as usize, Need { most, taken: None });
    }
}

/// Runs a call that makes an executable graph take its memory.
fn with_memory(exec: ExecHandle, call: impl Fn() -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    if !ANY.load(Ordering::Acquire) {
        return passthrough::run(call);
    }
    let trims = TRIMS.load(Ordering::Acquire);
    let most: Vec<(i32, u64)> = match NEEDS.lock().get(&(exec as usize)) {
        Some(need) if need.taken != Some(trims) => need.most.clone().into_iter().collect(),
        _ => Vec::new(),
    };
    let Some((&(ordinal, bytes), others)) = most.split_first() else {
        return passthrough::run(call);
    };
    for &(ordinal, bytes) in others {
        room(Source::Graphs(ordinal), bytes)?;
    }
    // A launch cannot be undone.
    let answer = charged(Source::Graphs(ordinal), bytes, call, || false)?;
    if answer.is_success()
        && let Some(need) = NEEDS.lock().get_mut(&(exec as usize))
    {
        need.taken = Some(trims);
    }
    Ok(answer)
}

type Instantiate = unsafe extern "C" fn(*mut ExecHandle, GraphHandle, u64) -> Code;

/// `cudaGraphInstantiate`, `cudaGraphInstantiateWithFlags`.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphInstantiate`.
pub unsafe fn instantiate(
    native: Instantiate,
    out: *mut ExecHandle,
    graph: GraphHandle,
    flags: u64,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    passthrough::run(|| {
        // SAFETY: `out` is null or writable: contract of `cudaGraphInstantiate`; a success has written the
        // handle.
        unsafe {
            let code = native(out, graph, flags);
            if code.is_success() {
                note(out.read(), graph);
            }
            code
        }
    })
}

type InstantiateWith =
    unsafe extern "C" fn(*mut ExecHandle, GraphHandle, *mut GraphInstantiateParams) -> Code;

/// `cudaGraphInstantiateWithParams`. What it is to upload is uploaded after it, with room.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphInstantiateWithParams`.
pub unsafe fn instantiate_with(
    native: InstantiateWith,
    out: *mut ExecHandle,
    graph: GraphHandle,
    params: *mut GraphInstantiateParams,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: null or valid: contract of this function.
    let Some(asked) = (unsafe { params.as_mut() }) else {
        // SAFETY: the arguments are those that the program passed: contract of
        // `cudaGraphInstantiateWithParams`.
        return passthrough::run(|| unsafe { native(out, graph, params) });
    };
    let mut own = GraphInstantiateParams {
        flags: asked.flags & !INSTANTIATE_UPLOAD,
        upload_stream: std::ptr::null_mut(),
        ..*asked
    };
    // SAFETY: the program's arguments, but `own` for `params`: contract of `cudaGraphInstantiateWithParams`.
    let answer = unsafe { passthrough::run(|| native(out, graph, &mut own)) };
    (asked.err_node, asked.result) = (own.err_node, own.result);
    if answer != Ok(Code::SUCCESS) {
        return answer;
    }
    // SAFETY: it was a success.
    let exec = unsafe { out.read() };
    note(exec, graph);
    if asked.flags & INSTANTIATE_UPLOAD == 0 {
        return answer;
    }
    let stream = asked.upload_stream;
    with_memory(exec, || {
        // SAFETY: made above, and the caller's stream.
        on(stream, |stream| unsafe { native::cudaGraphUpload(exec, stream) })
    })
}

type Run = unsafe extern "C" fn(ExecHandle, Stream) -> Code;

/// `cudaGraphLaunch`, `cudaGraphUpload`.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphLaunch`.
pub unsafe fn run(native: Run, exec: ExecHandle, stream: Stream) -> Answer {
    pace::before_launch(super::pacing::current_gpu);
    with_memory(exec, || {
        // SAFETY: the program's graph, and the runtime's stream for the program's: contract of
        // `cudaGraphLaunch`.
        on(stream, |stream| unsafe { native(exec, stream) })
    })
}

/// `cudaGraphExecDestroy`. The memory stays the runtime's until it is trimmed.
///
/// # Safety
/// The arguments meet the contract of `cudaGraphExecDestroy`.
pub unsafe fn destroy(native: unsafe extern "C" fn(ExecHandle) -> Code, exec: ExecHandle) -> Answer {
    thread::with(|thread| thread.take_hint());
    if ANY.load(Ordering::Acquire) {
        NEEDS.lock().remove(&(exec as usize));
    }
    // SAFETY: the arguments are those that the program passed: contract of `cudaGraphExecDestroy`.
    passthrough::run(|| unsafe { native(exec) })
}

/// `cudaDeviceGraphMemTrim`.
///
/// # Safety
/// The arguments meet the contract of `cudaDeviceGraphMemTrim`.
pub unsafe fn trim(native: unsafe extern "C" fn(i32) -> Code, device: i32) -> Answer {
    thread::with(|thread| thread.take_hint());
    let ordinal = ordinals::real(device)?;
    TRIMS.fetch_add(1, Ordering::AcqRel);
    // SAFETY: takes a number; the ordinal is of a GPU that the device has.
    let answer = passthrough::run(|| unsafe { native(ordinal) });
    settle_all();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(at: usize) -> NodeHandle {
        at as NodeHandle
    }

    #[test]
    fn what_is_freed_before_counts_once() {
        let mut count = Count::default();
        for round in 0..10 {
            count.alloc(0, round, 3 << 20);
            count.alloc(1, 100 + round, 1);
            count.free(round);
        }
        assert_eq!(count.most[&0], 2 * GRANULE);
        assert_eq!(count.most[&1], 10 * GRANULE);
    }

    #[test]
    fn nodes_come_after_those_before_them() {
        let nodes = (1..=6).map(|at| (node(at), at as u32)).collect();
        let edges = [(5, 1), (1, 3), (5, 3), (3, 2), (6, 2)].map(|(from, to)| (node(from), node(to)));
        let order: Vec<u32> = sorted(nodes, edges.into_iter())
            .iter()
            .map(|(_, kind)| *kind)
            .collect();
        assert_eq!(order, [4, 5, 1, 3, 6, 2]);
    }
}

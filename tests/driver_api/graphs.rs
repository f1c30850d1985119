//! Graphs with memory, captured or made node by node: what their launches leave.

use std::ffi::c_int;

use mgb_abi::graph::{GraphExecUpdateResultInfo, GraphNodeParams, MemAllocNodeParams, NODE_MEM_ALLOC};
use mgb_abi::pool::MemPoolProps;

use crate::driver::{SUCCESS, driver};
use crate::memory::{self, MemoryKind};
use crate::streams;
use crate::world::{GRANULE, ThreadWorld};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE: u64 = 1;

/// What a launch does to an object.
#[derive(Clone, Copy)]
pub struct Effect {
    object: usize,
    /// Its bytes from the start; all of it if there are none.
    bytes: Option<usize>,
    value: u8,
}

impl Effect {
    /// All of an object becomes this.
    pub fn filled(object: usize, value: u8) -> Effect {
        Effect {
            object,
            bytes: None,
            value,
        }
    }

    /// The start of an object becomes this.
    pub fn started(object: usize, bytes: usize, value: u8) -> Effect {
        Effect {
            object,
            bytes: Some(bytes),
            value,
        }
    }
}

/// Memory that a node allocates.
#[derive(Clone, Copy)]
pub struct Temporary {
    /// Its address, which is there with the node.
    pub address: u64,
    /// The size of the memory in bytes.
    pub bytes: usize,
    /// What the graph fills it with.
    pub fill: Option<u8>,
    /// The graph frees it as well.
    pub is_freed: bool,
}

/// A graph that was made.
pub struct TestGraph {
    number: usize,
    handle: usize,
    device: usize,
    effects: Vec<Effect>,
    /// Memory that is there after a launch.
    leaves: Vec<Temporary>,
    /// What its nodes allocate, in granules.
    pub bytes: u64,
    is_dead: bool,
    /// It has an executable graph: one with memory may have no other.
    has_exec: bool,
}

/// An executable graph.
pub struct TestGraphExec {
    number: usize,
    handle: usize,
    device: usize,
    effects: Vec<Effect>,
    leaves: Vec<Temporary>,
    /// The same as [`TestGraph::bytes`].
    pub bytes: u64,
    is_dead: bool,
    auto_free: bool,
    graph: usize,
}

impl TestGraph {
    /// A graph of the thread's.
    pub fn new(
        number: usize,
        handle: usize,
        device: usize,
        effects: Vec<Effect>,
        all: &[Temporary],
    ) -> TestGraph {
        let bytes = all
            .iter()
            .map(|temporary| (temporary.bytes as u64).next_multiple_of(GRANULE))
            .sum();
        let leaves = all
            .iter()
            .filter(|temporary| !temporary.is_freed)
            .copied()
            .collect();
        TestGraph {
            number,
            handle,
            device,
            effects,
            leaves,
            bytes,
            is_dead: false,
            has_exec: false,
        }
    }

    /// An object is gone.
    pub fn lose(&mut self, object: usize) {
        self.is_dead |= self.effects.iter().any(|effect| effect.object == object);
    }

    /// Objects that are not known any more are gone.
    pub fn lose_unless(&mut self, is_known: impl Fn(usize) -> bool) {
        self.is_dead |= !self.effects.iter().all(|effect| is_known(effect.object));
    }
}

impl TestGraphExec {
    /// An object is gone.
    pub fn lose(&mut self, object: usize) {
        self.is_dead |= self.effects.iter().any(|effect| effect.object == object);
    }
}

/// Makes one drawn step.
pub fn step(world: &mut ThreadWorld) {
    match world.draw.below(12) {
        0..2 => make(world),
        2..4 => instantiate(world),
        4..8 => launch(world),
        8 => update(world),
        9 => destroy_exec(world),
        10 => destroy_graph(world),
        _ => trim(world),
    }
}

fn alloc_node(
    world: &mut ThreadWorld,
    graph: usize,
    device: usize,
    bytes: usize,
    after: &[usize],
) -> Option<(usize, u64)> {
    let mut params = MemAllocNodeParams {
        pool_props: MemPoolProps::of_device(device as c_int),
        access_descs: std::ptr::null(),
        access_desc_count: 0,
        byte_size: bytes,
        dptr: std::ptr::null_mut(),
    };
    let mut node = 0;
    if world.draw.one_in(2) {
        let code =
            driver().cuGraphAddMemAllocNode(&mut node, graph, after.as_ptr(), after.len(), &mut params);
        let done = world.expect(&format!("cuGraphAddMemAllocNode {bytes}"), code, SUCCESS);
        return done.then_some((node, params.dptr as u64));
    }
    let mut any = GraphNodeParams {
        kind: NODE_MEM_ALLOC,
        reserved0: [0; 3],
        body: [0; 29],
        reserved2: 0,
    };
    // SAFETY: the union's body has the parameters of this kind, and is larger than they are.
    unsafe { any.body.as_mut_ptr().cast::<MemAllocNodeParams>().write(params) };
    let edges = std::ptr::null();
    let code = driver().cuGraphAddNode_v2(&mut node, graph, after.as_ptr(), edges, after.len(), &mut any);
    let done = world.expect(&format!("cuGraphAddNode {bytes}"), code, SUCCESS);
    // SAFETY: as above.
    let address = unsafe { (*any.body.as_ptr().cast::<MemAllocNodeParams>()).dptr as u64 };
    done.then_some((node, address))
}

/// Makes a graph node by node.
fn make(world: &mut ThreadWorld) {
    let device = world.device();
    if world.graphs.len() >= 4 {
        return;
    }
    world.on(device);
    let mut graph = 0;
    let code = driver().cuGraphCreate(&mut graph, 0);
    if !world.expect("cuGraphCreate", code, SUCCESS) {
        return;
    }
    let (mut all, mut nodes): (Vec<Temporary>, Vec<usize>) = (Vec::new(), Vec::new());
    for _ in 0..1 + world.draw.below(4) {
        let bytes = world.size();
        let so_far: usize = all
            .iter()
            .map(|temporary| temporary.bytes.next_multiple_of(2 << 20))
            .sum();
        if !world.has_room(2 * (so_far + bytes + (2 << 20))) {
            break;
        }
        let after = if world.draw.one_in(2) {
            nodes.clone()
        } else {
            Vec::new()
        };
        let Some((node, address)) = alloc_node(world, graph, device, bytes, &after) else {
            break;
        };
        nodes.push(node);
        all.push(Temporary {
            address,
            bytes,
            fill: None,
            is_freed: false,
        });
    }
    if world.draw.one_in(3) {
        let mut node = 0;
        let code = driver().cuGraphAddEmptyNode(&mut node, graph, nodes.as_ptr(), nodes.len());
        if world.expect("cuGraphAddEmptyNode", code, SUCCESS) {
            nodes.push(node);
        }
    }
    let leaves_some = world.draw.one_in(3);
    for temporary in &mut all {
        if leaves_some && world.draw.one_in(2) {
            continue;
        }
        let mut node = 0;
        let code =
            driver().cuGraphAddMemFreeNode(&mut node, graph, nodes.as_ptr(), nodes.len(), temporary.address);
        temporary.is_freed = world.expect("cuGraphAddMemFreeNode", code, SUCCESS);
    }
    let number = world.number();
    world
        .graphs
        .push(TestGraph::new(number, graph, device, Vec::new(), &all));
}

fn instantiate(world: &mut ThreadWorld) {
    let fits = |graph: &TestGraph| !graph.is_dead && (!graph.has_exec || graph.bytes == 0);
    let all: Vec<usize> = (0..world.graphs.len())
        .filter(|&at| fits(&world.graphs[at]))
        .collect();
    if all.is_empty() || world.execs.len() >= 4 {
        return;
    }
    let at = *world.draw.of(&all);
    let flags = *world.draw.of(&[0, 0, AUTO_FREE, 2, 3]);
    let graph = &world.graphs[at];
    let (number, from, device, bytes) = (graph.number, graph.handle, graph.device, graph.bytes);
    let (effects, leaves) = (graph.effects.clone(), graph.leaves.clone());
    world.on(device);
    let mut handle = 0;
    let code = driver().cuGraphInstantiateWithFlags(&mut handle, from, flags);
    if world.expect(
        &format!("cuGraphInstantiateWithFlags g{number} {flags}"),
        code,
        SUCCESS,
    ) {
        world.graphs[at].has_exec = true;
        let (of, number) = (number, world.number());
        let auto_free = flags & AUTO_FREE != 0;
        world.execs.push(TestGraphExec {
            number,
            handle,
            device,
            effects,
            leaves,
            bytes,
            is_dead: false,
            auto_free,
            graph: of,
        });
    }
}

/// Launches an executable graph a few times.
fn launch(world: &mut ThreadWorld) {
    let may = |exec: &TestGraphExec| {
        let lives = |leaf: &Temporary| world.memory.iter().any(|memory| memory.address == leaf.address);
        !exec.is_dead && (exec.auto_free || !exec.leaves.iter().any(lives))
    };
    let all: Vec<usize> = (0..world.execs.len())
        .filter(|&at| may(&world.execs[at]))
        .collect();
    if all.is_empty() {
        return instantiate(world);
    }
    let at = *world.draw.of(&all);
    let exec = &world.execs[at];
    let (number, handle, device) = (exec.number, exec.handle, exec.device);
    let (effects, leaves) = (exec.effects.clone(), exec.leaves.clone());
    let times = if leaves.is_empty() || exec.auto_free {
        1 + world.draw.below(3)
    } else {
        1
    };
    let Some(stream) = streams::idle_on(world, device) else {
        return;
    };
    world.on(device);
    let name = streams::name(world, stream);
    if world.draw.one_in(5) {
        let code = driver().cuGraphUpload(handle, stream);
        world.expect(&format!("cuGraphUpload x{number} {name}"), code, SUCCESS);
    }
    let mut done = true;
    for _ in 0..times {
        let code = driver().cuGraphLaunch(handle, stream);
        done &= world.expect(&format!("cuGraphLaunch x{number} {name}"), code, SUCCESS);
    }
    if !streams::finish(world, stream) || !done {
        return;
    }
    for effect in effects {
        if let Some(object) = world
            .memory
            .iter_mut()
            .find(|memory| memory.number == effect.object)
        {
            match effect.bytes {
                None => object.filled(effect.value),
                Some(bytes) => object.started(bytes, effect.value),
            }
        }
    }
    for leaf in leaves {
        let known = world
            .memory
            .iter_mut()
            .find(|memory| memory.address == leaf.address);
        if let Some(known) = known {
            known.fill = leaf.fill;
            known.start = None;
            continue;
        }
        memory::add(world, leaf.address, leaf.bytes, MemoryKind::Graph, device);
        world.memory.last_mut().expect("just added").fill = leaf.fill;
    }
}

/// Makes an executable graph like another graph, if it can be.
fn update(world: &mut ThreadWorld) {
    let is_plain = |graph: &TestGraph| graph.bytes == 0 && !graph.is_dead;
    let graphs: Vec<usize> = (0..world.graphs.len())
        .filter(|&at| is_plain(&world.graphs[at]))
        .collect();
    let execs: Vec<usize> = (0..world.execs.len())
        .filter(|&at| world.execs[at].bytes == 0)
        .collect();
    if graphs.is_empty() || execs.is_empty() {
        return;
    }
    let (from, to) = (*world.draw.of(&graphs), *world.draw.of(&execs));
    let (graph, exec) = (&world.graphs[from], &world.execs[to]);
    if graph.device != exec.device {
        return;
    }
    let call = format!("cuGraphExecUpdate x{} g{}", exec.number, graph.number);
    let mut info = GraphExecUpdateResultInfo {
        result: 0,
        error_node: std::ptr::null_mut(),
        error_from_node: std::ptr::null_mut(),
    };
    let code = driver().cuGraphExecUpdate_v2(exec.handle, graph.handle, &mut info);
    if world.note(&format!("{call} result {}", info.result), code) {
        world.execs[to].effects = world.graphs[from].effects.clone();
        world.execs[to].is_dead = false;
    }
}

fn destroy_exec(world: &mut ThreadWorld) {
    let count = world.execs.len();
    if count > 0 {
        let at = world.draw.below(count);
        end_exec(world, at);
    }
}

fn end_exec(world: &mut ThreadWorld, at: usize) {
    let exec = world.execs.swap_remove(at);
    if let Some(graph) = world.graphs.iter_mut().find(|graph| graph.number == exec.graph) {
        graph.has_exec = false;
    }
    let code = driver().cuGraphExecDestroy(exec.handle);
    world.expect(&format!("cuGraphExecDestroy x{}", exec.number), code, SUCCESS);
}

fn destroy_graph(world: &mut ThreadWorld) {
    let count = world.graphs.len();
    if count > 0 {
        let at = world.draw.below(count);
        end_graph(world, at);
    }
}

fn end_graph(world: &mut ThreadWorld, at: usize) {
    let graph = world.graphs.swap_remove(at);
    let code = driver().cuGraphDestroy(graph.handle);
    world.expect(&format!("cuGraphDestroy g{}", graph.number), code, SUCCESS);
}

fn trim(world: &mut ThreadWorld) {
    if world.is_beside || !world.shared.captures().is_empty() {
        return;
    }
    let device = world.device();
    let code = driver().cuDeviceGraphMemTrim(device as c_int);
    world.expect(&format!("cuDeviceGraphMemTrim d{device}"), code, SUCCESS);
}

/// Ends all that the thread has.
pub fn clear(world: &mut ThreadWorld) {
    while !world.execs.is_empty() {
        end_exec(world, 0);
    }
    while !world.graphs.is_empty() {
        end_graph(world, 0);
    }
}

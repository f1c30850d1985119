//! Executable graphs: all nodes in one row, done in one turn of a stream.
//!
//! Nodes that do not come after each other could run at once: the model of device time has them so; the host
//! does one after another, which is one of the orders that CUDA allows.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, RwLock};

use super::objects::UserObject;
use super::{Graphs, NodeKind, capture};
use crate::address::graph_memory::{self, GraphMemory};
use crate::device::Gpu;
use crate::error::{Error, Result};
use crate::stream::{DeviceStream, Fence, Turn, event};

/// One executable graph.
pub struct ExecutableGraph {
    /// As it was asked for.
    pub flags: u64,
    steps: Mutex<Vec<GraphStep>>,
    /// What the graph, and its children, referred to.
    objects: Vec<Arc<UserObject>>,
    /// Its last launch: the next one comes after it, in whatever stream.
    last: Mutex<Option<Fence>>,
}

/// One node of it.
#[derive(Clone)]
struct GraphStep {
    /// The node of the graph it was made from.
    node: usize,
    kind: NodeKind,
    /// The earlier steps that the step waits for.
    after: Vec<usize>,
    enabled: bool,
}

static HANDLES: LazyLock<RwLock<HashMap<usize, Arc<ExecutableGraph>>>> = LazyLock::new(RwLock::default);

/// Handles are numbers that are no addresses of anything.
static NEXT: AtomicUsize = AtomicUsize::new(0x67e4_0000_0000);

/// Makes an executable graph; returns its handle.
///
/// # Errors
/// `INVALID_VALUE` for no graph.
pub fn instantiate(graphs: &Graphs, graph: usize, flags: u64) -> Result<usize> {
    let exec = ExecutableGraph {
        flags,
        steps: Mutex::new(flat(graphs, graph)?),
        objects: referred(graphs, graph)?,
        last: Mutex::new(None),
    };
    let handle = NEXT.fetch_add(16, Relaxed);
    HANDLES.write().insert(handle, Arc::new(exec));
    Ok(handle)
}

/// The executable graph with this handle.
///
/// # Errors
/// `INVALID_VALUE`.
pub fn find(handle: usize) -> Result<Arc<ExecutableGraph>> {
    HANDLES.read().get(&handle).cloned().ok_or(Error::INVALID_VALUE)
}

/// Ends one; launches of it are still done.
///
/// # Errors
/// `INVALID_VALUE`.
pub fn destroy(handle: usize) -> Result {
    let exec = HANDLES.write().remove(&handle);
    exec.map(drop).ok_or(Error::INVALID_VALUE)
}

/// The user objects of a graph and of its children.
fn referred(graphs: &Graphs, graph: usize) -> Result<Vec<Arc<UserObject>>> {
    let graph = graphs.graph(graph)?;
    let mut all: Vec<_> = graph.objects.values().map(|(object, _)| object.clone()).collect();
    for node in graph.nodes.values() {
        if let NodeKind::Child(child) = node.kind {
            all.extend(referred(graphs, child)?);
        }
    }
    Ok(all)
}

fn flat(graphs: &Graphs, graph: usize) -> Result<Vec<GraphStep>> {
    let mut steps = Vec::new();
    flatten(graphs, graph, &[], &mut steps)?;
    Ok(steps)
}

/// Adds a graph's nodes, the first of which come after `before`; returns the last of them.
fn flatten(
    graphs: &Graphs,
    graph: usize,
    before: &[usize],
    steps: &mut Vec<GraphStep>,
) -> Result<Vec<usize>> {
    let graph = graphs.graph(graph)?;
    let mut at: BTreeMap<usize, usize> = BTreeMap::new();
    let mut last = std::collections::BTreeSet::new();
    for handle in graph.in_order() {
        let node = &graph.nodes[&handle];
        let mut after: Vec<usize> = node.after.iter().map(|node| at[node]).collect();
        last.retain(|step| !after.contains(step));
        if after.is_empty() {
            after.extend(before);
        }
        let kind = match node.kind {
            NodeKind::Child(child) => {
                let inner = flatten(graphs, child, &after, steps)?;
                if !inner.is_empty() {
                    after = inner;
                }
                NodeKind::Child(child)
            }
            ref kind => kind.clone(),
        };
        last.insert(steps.len());
        at.insert(handle, steps.len());
        steps.push(GraphStep {
            node: handle,
            kind,
            after,
            enabled: true,
        });
    }
    Ok(last.into_iter().collect())
}

/// Why an executable graph cannot become like a graph: `cudaGraphExecUpdateResult`, and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlike {
    /// Topology: 2, type: 3.
    pub result: i32,
    /// The node of the graph; zero if none can be named.
    pub node: usize,
}

impl ExecutableGraph {
    /// Does all that a graph of the same shape does from now on.
    ///
    /// # Errors
    /// The outer: no graph. The inner: what is unlike; nothing is changed then.
    pub fn update(&self, graphs: &Graphs, graph: usize) -> Result<std::result::Result<(), Unlike>> {
        let new = flat(graphs, graph)?;
        let mut steps = self.steps.lock();
        let unlike = |result, node| Ok(Err(Unlike { result, node }));
        if new.len() != steps.len() {
            return unlike(2, 0);
        }
        for (old, new) in steps.iter().zip(&new) {
            if old.kind.number() != new.kind.number() {
                return unlike(3, new.node);
            }
            if old.after != new.after {
                return unlike(2, new.node);
            }
        }
        for (old, new) in steps.iter_mut().zip(new) {
            old.kind = new.kind;
        }
        Ok(Ok(()))
    }

    fn change<T>(&self, node: usize, change: impl FnOnce(&mut GraphStep) -> Result<T>) -> Result<T> {
        let mut steps = self.steps.lock();
        let step = steps.iter_mut().find(|step| step.node == node);
        change(step.ok_or(Error::INVALID_VALUE)?)
    }

    /// Changes what a node does in later launches.
    ///
    /// # Errors
    /// `INVALID_VALUE` for another kind, or no node.
    pub fn set(&self, node: usize, kind: NodeKind) -> Result {
        self.change(node, |step| {
            if step.kind.number() != kind.number() {
                return Err(Error::INVALID_VALUE);
            }
            step.kind = step.kind.followed_by(kind);
            Ok(())
        })
    }

    /// Puts the nodes of a graph in the place of a child's.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no child, `GRAPH_EXEC_UPDATE_FAILURE` for a graph of another shape.
    pub fn set_child(&self, graphs: &Graphs, node: usize, graph: usize) -> Result {
        let NodeKind::Child(child) = self.change(node, |step| Ok(step.kind.clone()))? else {
            return Err(Error::INVALID_VALUE);
        };
        let (old, new) = (flat(graphs, child)?, flat(graphs, graph)?);
        let alike = |(old, new): (&GraphStep, &GraphStep)| {
            old.kind.number() == new.kind.number() && old.after == new.after
        };
        if old.len() != new.len() || !old.iter().zip(&new).all(alike) {
            return Err(Error::GRAPH_EXEC_UPDATE_FAILURE);
        }
        for (old, new) in old.iter().zip(new) {
            self.set(old.node, new.kind)?;
        }
        Ok(())
    }

    /// Whether a node is done.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no node.
    pub fn enabled(&self, node: usize) -> Result<bool> {
        self.change(node, |step| Ok(step.enabled))
    }

    /// Switches a kernel, copy or set on or off.
    ///
    /// # Errors
    /// `INVALID_VALUE` for other nodes.
    pub fn enable(&self, node: usize, enabled: bool) -> Result {
        self.change(node, |step| {
            if step.kind.number() > 2 {
                return Err(Error::INVALID_VALUE);
            }
            step.enabled = enabled;
            Ok(())
        })
    }

    /// Takes the memory that it allocates, where it has not got it.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION`.
    pub fn take_memory(&self) -> Result {
        let steps = self.steps.lock();
        let mut taken: Vec<&GraphMemory> = Vec::new();
        for step in steps.iter() {
            let NodeKind::Alloc(memory) = &step.kind else {
                continue;
            };
            match memory.be_there() {
                Ok(true) => taken.push(memory),
                Ok(false) => {}
                Err(error) => {
                    // All of it or nothing, as of NVIDIA's driver.
                    for memory in taken {
                        memory.be_gone()?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Does it in a stream's turn; a stream that captures keeps the nodes.
    ///
    /// # Errors
    /// Those of capturing.
    pub fn launch(&self, gpu: &'static Gpu, stream: &Arc<DeviceStream>) -> Result {
        let steps = self.steps.lock().clone();
        if stream.captures() {
            let parts: Vec<_> = steps.into_iter().map(|step| (step.kind, step.after)).collect();
            return capture::keep_all(stream, parts);
        }
        capture::implicit(stream)?;
        let _not_trimmed = graph_memory::keep_from_trim();
        self.take_memory()?;
        let mut fences = gpu.streams.fences(stream);
        let mut stamps = HashMap::new();
        for (at, step) in steps.iter().enumerate() {
            match step.kind {
                NodeKind::Wait(event) => fences.extend(event::find(event)?.fence()?),
                NodeKind::Record(event) => {
                    let stamp = Arc::new(AtomicU64::new(0));
                    stamps.insert(at, (event::find(event)?, stamp));
                }
                _ => {}
            }
        }
        let moments: HashMap<usize, Arc<AtomicU64>> = stamps
            .iter()
            .map(|(&at, (_, stamp))| (at, stamp.clone()))
            .collect();
        let mut last = self.last.lock();
        fences.extend(last.take().filter(|fence| !fence.passed()));
        let objects = self.objects.clone();
        let fence = stream.submit_visible(fences, move |turn| {
            run(&steps, &moments, turn);
            note_memory(&steps);
            drop(objects);
        });
        for (event, stamp) in stamps.into_values() {
            event.mark(fence.clone(), stamp);
        }
        *last = Some(fence);
        Ok(())
    }
}

/// Notes which memory a launch has left allocated: in its stream's turn, so that what was freed before it, in
/// the order of a stream, counts as freed before.
fn note_memory(steps: &[GraphStep]) {
    for step in steps {
        match &step.kind {
            NodeKind::Alloc(memory) => {
                let frees =
                    |other: &GraphStep| matches!(other.kind, NodeKind::Free(at) if at == memory.address);
                memory.allocated(!steps.iter().any(frees));
            }
            NodeKind::Free(address) => graph_memory::freed(*address),
            _ => {}
        }
    }
}

fn run(steps: &[GraphStep], moments: &HashMap<usize, Arc<AtomicU64>>, turn: &mut Turn) {
    let mut ends: Vec<u64> = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        let ready = step
            .after
            .iter()
            .map(|&before| ends[before])
            .fold(turn.ready, u64::max);
        let mut own = Turn {
            ready,
            end: ready,
            ..*turn
        };
        match &step.kind {
            NodeKind::Work(work) if step.enabled => work.run_later(&mut own),
            NodeKind::Record(_) => moments[&at].store(ready, Relaxed),
            _ => {}
        }
        turn.end = turn.end.max(own.end);
        ends.push(own.end);
    }
}

//! Graphs: work that is kept, with what it comes after, to be done again.
//!
//! A program makes one node by node, or lets streams keep what they are given ([`capture`]). From a graph it
//! makes executable ones ([`exec`]), which keep their own copy of all.

pub mod capture;
pub mod exec;
pub mod objects;
pub mod order;

use std::collections::BTreeMap;
use std::sync::Arc;

use mgb_abi::graph::{
    NODE_EMPTY, NODE_EVENT_RECORD, NODE_GRAPH, NODE_MEM_ALLOC, NODE_MEM_FREE, NODE_WAIT_EVENT,
};
use parking_lot::Mutex;

use crate::address::graph_memory::GraphMemory;
use crate::error::{Error, Result};
use crate::work::{Action, DeviceWork};
use objects::{References, UserObject};

/// The caller's array of nodes.
///
/// # Errors
/// `INVALID_VALUE` for null where there should be some.
pub(crate) fn nodes_at<'a>(nodes: *const usize, count: usize) -> Result<&'a [usize]> {
    match (nodes.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::INVALID_VALUE),
        // SAFETY: `nodes` is not null and has `count` elements: CUDA's contract of the functions that pass
        // it.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(nodes, count) }),
    }
}

/// What a node does.
#[derive(Clone)]
pub enum NodeKind {
    /// A kernel, copy, set or call of the program's.
    Work(DeviceWork),
    /// The nodes of a graph of its own.
    Child(usize),
    /// Nothing: others come after it.
    Empty,
    /// Waits for an event.
    Wait(usize),
    /// Records an event.
    Record(usize),
    /// Memory begins to be there.
    Alloc(Arc<GraphMemory>),
    /// Memory at an address ends to be there.
    Free(usize),
}

impl NodeKind {
    /// `cudaGraphNodeType`.
    pub fn number(&self) -> u32 {
        match self {
            NodeKind::Work(work) => work.action.number(),
            NodeKind::Child(_) => NODE_GRAPH,
            NodeKind::Empty => NODE_EMPTY,
            NodeKind::Wait(_) => NODE_WAIT_EVENT,
            NodeKind::Record(_) => NODE_EVENT_RECORD,
            NodeKind::Alloc(_) => NODE_MEM_ALLOC,
            NodeKind::Free(_) => NODE_MEM_FREE,
        }
    }

    /// Another kernel in this one's place keeps this one's attributes.
    fn followed_by(&self, new: NodeKind) -> NodeKind {
        let (NodeKind::Work(old), NodeKind::Work(work)) = (self, &new) else {
            return new;
        };
        match (&old.action, &work.action) {
            (Action::Kernel(old), Action::Kernel(launch)) if launch.attributes.is_empty() => {
                let mut launch = launch.as_ref().clone();
                launch.shape.cooperative = old.shape.cooperative;
                launch.attributes.clone_from(&old.attributes);
                let action = Action::Kernel(Arc::new(launch));
                NodeKind::Work(DeviceWork {
                    gpu: work.gpu,
                    action,
                })
            }
            _ => new,
        }
    }
}

/// A node of a graph.
pub struct GraphNode {
    /// What it does.
    pub kind: NodeKind,
    /// The nodes it comes after.
    pub after: Vec<usize>,
    /// The node it was cloned from.
    origin: usize,
}

/// One graph. Its nodes are in the order in which they were made.
#[derive(Default)]
pub struct CudaGraph {
    /// The nodes of the graph by handle.
    pub nodes: BTreeMap<usize, GraphNode>,
    /// It is a node's: not the program's to destroy.
    owned: bool,
    /// The user objects that it refers to.
    objects: References,
}

/// All graphs of the process.
#[derive(Default)]
pub struct Graphs {
    graphs: BTreeMap<usize, CudaGraph>,
    /// The graph of each node.
    homes: BTreeMap<usize, usize>,
    made: usize,
}

/// Handles are numbers that are no addresses of anything.
const FIRST_HANDLE: usize = 0x67a4_0000_0000;

static GRAPHS: Mutex<Graphs> = Mutex::new(Graphs {
    graphs: BTreeMap::new(),
    homes: BTreeMap::new(),
    made: 0,
});

/// Works on the graphs. What is dropped of them is dropped outside of the lock, hence not here.
pub fn with<T>(body: impl FnOnce(&mut Graphs) -> T) -> T {
    body(&mut GRAPHS.lock())
}

impl Graphs {
    fn handle(&mut self) -> usize {
        self.made += 1;
        FIRST_HANDLE + self.made * 16
    }

    /// A new graph.
    pub fn create(&mut self) -> usize {
        let handle = self.handle();
        self.graphs.insert(handle, CudaGraph::default());
        handle
    }

    /// The graph with this handle.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    pub fn graph(&self, graph: usize) -> Result<&CudaGraph> {
        self.graphs.get(&graph).ok_or(Error::INVALID_VALUE)
    }

    fn graph_mut(&mut self, graph: usize) -> Result<&mut CudaGraph> {
        self.graphs.get_mut(&graph).ok_or(Error::INVALID_VALUE)
    }

    /// The graph of a node.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no node.
    pub fn home(&self, node: usize) -> Result<usize> {
        self.homes.get(&node).copied().ok_or(Error::INVALID_VALUE)
    }

    /// The node with this handle.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    pub fn node(&self, node: usize) -> Result<&GraphNode> {
        let graph = self.graph(self.home(node)?)?;
        graph.nodes.get(&node).ok_or(Error::INVALID_VALUE)
    }

    /// Takes a graph away; its parts are for the caller to drop.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no graph, or one that is a node's.
    pub fn destroy(&mut self, graph: usize) -> Result<Vec<CudaGraph>> {
        if self.graph(graph)?.owned {
            return Err(Error::INVALID_VALUE);
        }
        let mut gone = Vec::new();
        self.take(graph, &mut gone);
        Ok(gone)
    }

    fn take(&mut self, graph: usize, gone: &mut Vec<CudaGraph>) {
        let Some(graph) = self.graphs.remove(&graph) else {
            return;
        };
        for (node, content) in &graph.nodes {
            self.homes.remove(node);
            if let NodeKind::Child(child) = content.kind {
                self.take(child, gone);
            }
        }
        gone.push(graph);
    }

    /// Adds a node that comes after others. A child graph is copied.
    ///
    /// # Errors
    /// `INVALID_VALUE` where the graph, or one of the others in it, is none.
    pub fn add(&mut self, graph: usize, after: &[usize], kind: NodeKind) -> Result<usize> {
        let nodes = &self.graph(graph)?.nodes;
        let unlike = |(at, node)| !after[..at].contains(node) && nodes.contains_key(node);
        if !after.iter().enumerate().all(unlike) {
            return Err(Error::INVALID_VALUE);
        }
        let kind = match kind {
            NodeKind::Child(child) => NodeKind::Child(self.copy(child, true)?),
            kind => kind,
        };
        let handle = self.handle();
        let node = GraphNode {
            kind,
            after: after.to_vec(),
            origin: 0,
        };
        self.graph_mut(graph)?.nodes.insert(handle, node);
        self.homes.insert(handle, graph);
        Ok(handle)
    }

    /// Changes what a node does into something of the same kind, but for a kernel's attributes; returns what
    /// it did.
    ///
    /// # Errors
    /// `INVALID_VALUE` for another kind, or no node.
    pub fn set(&mut self, node: usize, kind: NodeKind) -> Result<NodeKind> {
        let kind = self.node(node)?.kind.followed_by(kind);
        self.replace(node, kind)
    }

    /// The same, with the attributes.
    ///
    /// # Errors
    /// As [`Graphs::set`].
    pub fn replace(&mut self, node: usize, kind: NodeKind) -> Result<NodeKind> {
        let home = self.home(node)?;
        let node = self.graph_mut(home)?.nodes.get_mut(&node);
        let node = node.ok_or(Error::INVALID_VALUE)?;
        if node.kind.number() != kind.number() {
            return Err(Error::INVALID_VALUE);
        }
        Ok(std::mem::replace(&mut node.kind, kind))
    }

    /// Removes a node, and what binds others to it.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no node.
    pub fn remove(&mut self, node: usize) -> Result<Vec<CudaGraph>> {
        let home = self.home(node)?;
        let graph = self.graph_mut(home)?;
        let content = graph.nodes.remove(&node).ok_or(Error::INVALID_VALUE)?;
        for other in graph.nodes.values_mut() {
            other.after.retain(|&before| before != node);
        }
        self.homes.remove(&node);
        let mut gone = Vec::new();
        if let NodeKind::Child(child) = content.kind {
            self.take(child, &mut gone);
        }
        Ok(gone)
    }

    /// A copy of a graph, with its children.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no graph.
    pub fn clone_of(&mut self, graph: usize) -> Result<usize> {
        self.copy(graph, false)
    }

    fn copy(&mut self, graph: usize, owned: bool) -> Result<usize> {
        let nodes = &self.graph(graph)?.nodes;
        let nodes: Vec<(usize, NodeKind, Vec<usize>)> = nodes
            .iter()
            .map(|(&handle, node)| (handle, node.kind.clone(), node.after.clone()))
            .collect();
        // The copies come in the same order, whatever the order in which nodes were bound.
        let copies: BTreeMap<usize, usize> = nodes
            .iter()
            .map(|&(handle, ..)| (handle, self.handle()))
            .collect();
        let mut copy = CudaGraph {
            owned,
            objects: self.graph(graph)?.objects.clone(),
            ..CudaGraph::default()
        };
        let home = self.handle();
        for (handle, kind, after) in nodes {
            let kind = match kind {
                NodeKind::Child(child) => NodeKind::Child(self.copy(child, true)?),
                kind => kind,
            };
            let after = after
                .iter()
                .filter_map(|node| copies.get(node).copied())
                .collect();
            let node = GraphNode {
                kind,
                after,
                origin: handle,
            };
            copy.nodes.insert(copies[&handle], node);
            self.homes.insert(copies[&handle], home);
        }
        self.graphs.insert(home, copy);
        Ok(home)
    }

    /// The copy of a node in a clone.
    ///
    /// # Errors
    /// `INVALID_VALUE` where there is none.
    pub fn find_in_clone(&self, node: usize, clone: usize) -> Result<usize> {
        let nodes = &self.graph(clone)?.nodes;
        let found = nodes.iter().find(|(_, copy)| copy.origin == node);
        found.map(|(&handle, _)| handle).ok_or(Error::INVALID_VALUE)
    }

    /// Has a graph refer to a user object.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no graph.
    pub fn refer(&mut self, graph: usize, handle: usize, object: Arc<UserObject>, count: u32) -> Result {
        let objects = &mut self.graph_mut(graph)?.objects;
        objects.entry(handle).or_insert((object, 0)).1 += count;
        Ok(())
    }

    /// Takes references of a graph's away; the object, if these were its last.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no graph, or fewer references.
    pub fn refer_no_more(
        &mut self,
        graph: usize,
        handle: usize,
        count: u32,
    ) -> Result<Option<Arc<UserObject>>> {
        objects::take(&mut self.graph_mut(graph)?.objects, handle, count)
    }
}

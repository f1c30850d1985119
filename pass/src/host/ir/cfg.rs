//! The control-flow graph of one function: dominators, loops, and the order of instructions.
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet, VecDeque};

use inkwell::llvm_sys::LLVMOpcode;
use petgraph::algo::dominators::{Dominators, simple_fast};
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, Reversed};

use crate::host::ir::{BasicBlock, Value, is_alone};

/// A place in front of an instruction: the block, and how many instructions of it come before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// The block's number; the entry is 0.
    pub block: usize,
    /// The instruction's number in its block.
    pub at: usize,
}

/// A loop: blocks that can run again without the function being called again.
pub struct Loop {
    /// The block through which it is entered.
    pub header: usize,
    /// Its blocks, the header included.
    pub body: HashSet<usize>,
}

/// The graph of one function. Blocks are numbered in the order they stand.
pub struct Cfg {
    /// The function whose control flow this is.
    pub function: Value,
    blocks: Vec<BasicBlock>,
    numbers: HashMap<BasicBlock, usize>,
    graph: DiGraph<(), ()>,
    dominators: Dominators<NodeIndex>,
    loops: Vec<Loop>,
    points: HashMap<Value, Point>,
    alone: OnceCell<bool>,
}

impl Cfg {
    /// The graph of a function with a body.
    pub fn new(function: Value) -> Self {
        let blocks: Vec<BasicBlock> = function.blocks().collect();
        let numbers: HashMap<BasicBlock, usize> = blocks
            .iter()
            .enumerate()
            .map(|(at, &block)| (block, at))
            .collect();
        let graph = graph_of(&blocks, &numbers);
        let dominators = simple_fast(&graph, NodeIndex::new(0));
        let mut points = HashMap::new();
        for (block, handle) in blocks.iter().enumerate() {
            for (at, instruction) in handle.instructions().enumerate() {
                points.insert(instruction, Point { block, at });
            }
        }
        let mut cfg = Self {
            function,
            blocks,
            numbers,
            graph,
            dominators,
            loops: Vec::new(),
            points,
            alone: OnceCell::new(),
        };
        cfg.loops = cfg.find_loops();
        cfg
    }

    /// Whether no code of other files can run while the module's `main` does.
    pub fn is_alone(&self) -> bool {
        *self.alone.get_or_init(|| is_alone(self.function.module()))
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The block with this number.
    pub fn block(&self, number: usize) -> BasicBlock {
        self.blocks[number]
    }

    /// The number of a block.
    pub fn number(&self, block: BasicBlock) -> usize {
        self.numbers[&block]
    }

    /// Where an instruction of this function stands.
    pub fn point(&self, instruction: Value) -> Point {
        self.points[&instruction]
    }

    /// Whether control can come to a block at all.
    pub fn is_reachable(&self, block: usize) -> bool {
        self.dominators.dominators(NodeIndex::new(block)).is_some()
    }

    /// The blocks control may go to next, each once.
    pub fn successors(&self, block: usize) -> Vec<usize> {
        neighbours(&self.graph, block, petgraph::Outgoing)
    }

    /// The blocks control may come from, each once.
    pub fn predecessors(&self, block: usize) -> Vec<usize> {
        neighbours(&self.graph, block, petgraph::Incoming)
    }

    /// Whether every way to `block` leads through `by` (also true for itself).
    pub fn dominates_block(&self, by: usize, block: usize) -> bool {
        let by = NodeIndex::new(by);
        self.dominators
            .dominators(NodeIndex::new(block))
            .is_some_and(|mut all| all.any(|one| one == by))
    }

    /// Whether every way to `point` leads through the instruction at `by`, and past it.
    pub fn dominates(&self, by: Point, point: Point) -> bool {
        if by.block == point.block {
            by.at < point.at
        } else {
            self.dominates_block(by.block, point.block)
        }
    }

    /// Whether every way to an instruction leads through the place `point`, in front of another.
    pub fn passes_before(&self, point: Point, instruction: Point) -> bool {
        if point.block == instruction.block {
            point.at <= instruction.at
        } else {
            self.dominates_block(point.block, instruction.block)
        }
    }

    /// Whether the value of an instruction is there at `point`.
    pub fn is_defined_at(&self, value: Value, point: Point) -> bool {
        if !value.is_instruction() {
            return true;
        }
        let by = self.point(value);
        if !value.is(LLVMOpcode::LLVMInvoke) {
            return self.dominates(by, point);
        }
        // An invoke's value exists on its normal edge only.
        let normal = self.number(value.normal_successor());
        self.predecessors(normal).len() == 1 && self.dominates_block(normal, point.block)
    }

    /// The block that immediately dominates this one; none for the entry.
    pub fn immediate_dominator(&self, block: usize) -> Option<usize> {
        self.dominators
            .immediate_dominator(NodeIndex::new(block))
            .map(NodeIndex::index)
    }

    /// The last block that all ways to any of these lead through.
    pub fn common_dominator(&self, blocks: impl IntoIterator<Item = usize>) -> Option<usize> {
        blocks.into_iter().reduce(|a, b| {
            let of_a: HashSet<_> = self
                .dominators
                .dominators(NodeIndex::new(a))
                .into_iter()
                .flatten()
                .collect();
            let mut of_b = self
                .dominators
                .dominators(NodeIndex::new(b))
                .into_iter()
                .flatten();
            of_b.find(|block| of_a.contains(block))
                .map_or(0, NodeIndex::index)
        })
    }

    /// The loops that hold a block.
    pub fn loops_around(&self, block: usize) -> impl Iterator<Item = &Loop> {
        self.loops.iter().filter(move |one| one.body.contains(&block))
    }

    /// The blocks from which a loop branches back to its header.
    pub fn latches(&self, one: &Loop) -> impl Iterator<Item = usize> {
        let before = self.predecessors(one.header).into_iter();
        before.filter(|block| one.body.contains(block))
    }

    /// The blocks from which one of `targets` can be reached, the targets included.
    pub fn reaching(&self, targets: impl IntoIterator<Item = usize>) -> HashSet<usize> {
        let reversed = Reversed(&self.graph);
        let mut seen = HashSet::new();
        for target in targets {
            let mut search = Dfs::new(&reversed, NodeIndex::new(target));
            while let Some(block) = search.next(&reversed) {
                seen.insert(block.index());
            }
        }
        seen
    }

    /// Whether control can go from the one place to the other, by at least one step.
    pub fn reaches(&self, from: Point, to: Point) -> bool {
        if from.block == to.block && from.at < to.at {
            return true;
        }
        self.successors(from.block)
            .into_iter()
            .any(|next| self.reaching([to.block]).contains(&next))
    }

    /// Natural loops, and what is left of cycles that have several entries.
    fn find_loops(&self) -> Vec<Loop> {
        let mut loops: HashMap<usize, HashSet<usize>> = HashMap::new();
        for latch in (0..self.len()).filter(|&block| self.is_reachable(block)) {
            for header in self.successors(latch) {
                if self.dominates_block(header, latch) {
                    loops
                        .entry(header)
                        .or_insert_with(|| HashSet::from([header]))
                        .extend(self.body(header, latch));
                }
            }
        }
        let natural = loops.into_iter().map(|(header, body)| Loop { header, body });
        let mut all: Vec<Loop> = natural.collect();
        for cycle in tarjan_scc(&self.graph) {
            let body: HashSet<usize> = cycle.iter().map(|block| block.index()).collect();
            let reached = body.iter().all(|&block| self.is_reachable(block));
            if body.len() > 1 && reached && !all.iter().any(|one| one.body.is_superset(&body)) {
                let header = self.common_dominator(body.iter().copied()).unwrap_or(0);
                all.push(Loop { header, body });
            }
        }
        all.sort_by_key(|one| (one.header, one.body.len()));
        all
    }

    /// The blocks from which `latch` is reached without going through `header`.
    fn body(&self, header: usize, latch: usize) -> HashSet<usize> {
        let mut body = HashSet::from([header]);
        let mut queue = VecDeque::from([latch]);
        while let Some(block) = queue.pop_front() {
            if body.insert(block) {
                queue.extend(
                    self.predecessors(block)
                        .into_iter()
                        .filter(|&before| self.is_reachable(before)),
                );
            }
        }
        body
    }
}

fn graph_of(blocks: &[BasicBlock], numbers: &HashMap<BasicBlock, usize>) -> DiGraph<(), ()> {
    let mut graph = DiGraph::with_capacity(blocks.len(), 2 * blocks.len());
    for _ in blocks {
        graph.add_node(());
    }
    for (from, block) in blocks.iter().enumerate() {
        for to in block.successors() {
            graph.update_edge(NodeIndex::new(from), NodeIndex::new(numbers[&to]), ());
        }
    }
    graph
}

/// Sorted, so that nothing that follows depends on the order of insertion.
fn neighbours(graph: &DiGraph<(), ()>, block: usize, direction: petgraph::Direction) -> Vec<usize> {
    let mut all: Vec<usize> = graph
        .neighbors_directed(NodeIndex::new(block), direction)
        .map(NodeIndex::index)
        .collect();
    all.sort_unstable();
    all
}

/// Whether a function's graph has a cycle.
pub fn has_cycle(function: Value) -> bool {
    let blocks: Vec<BasicBlock> = function.blocks().collect();
    let numbers = blocks
        .iter()
        .enumerate()
        .map(|(at, &block)| (block, at))
        .collect();
    petgraph::algo::is_cyclic_directed(&graph_of(&blocks, &numbers))
}

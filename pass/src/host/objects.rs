//! Objects: which memory objects stand behind the pointers that GPU ops are given.
//!
//! Pointers that may be the same are put into one class (union-find, whatever the order in which
//! things happen), from the variables that `cudaMalloc` fills through loads, stores, phis, selects
//! and address arithmetic to the arguments of ops. A swap of two pointers in a loop thus puts both
//! objects into one class. Whatever a class takes part in that is not understood is noted with it:
//! it makes the tasks of that class lazy.
mod search;

use std::collections::HashMap;

use petgraph::unionfind::UnionFind;

use super::cfg::Cfg;
use super::collect::Collected;
use super::ir::Value;
use super::launches::Launch;
use super::ops::Op;
use super::place::Why;
use super::variables::Variables;

/// What pointers are kept in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// A value of the IR.
    Value(Value),
    /// The bytes of a local variable from an offset.
    Slot(Value, i64),
    /// Those of a local variable whose offsets are known at run time only, and all of it where it is handed on whole.
    Any(Value),
}

/// The classes of one function's device pointers, and the ops on them.
pub struct Objects {
    /// The ops, in the order they stand.
    pub ops: Vec<Op>,
    /// What is not understood, by node.
    pub obstacles: Vec<(usize, Why)>,
    classes: UnionFind<usize>,
    numbers: HashMap<Node, usize>,
    stores: HashMap<usize, Vec<Value>>,
}

impl Objects {
    /// Looks at a prepared function.
    pub fn find(collected: &Collected, variables: &Variables, cfg: &Cfg, launches: &[Launch]) -> Self {
        search::search(collected, variables, cfg, launches)
    }

    /// The class of a node.
    pub fn class(&self, node: usize) -> usize {
        self.classes.find(node)
    }

    /// How many nodes there are; classes are numbered by one of their nodes.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// The number of a node, if pointers were followed to it.
    pub fn number(&self, node: Node) -> Option<usize> {
        self.numbers.get(&node).copied()
    }

    /// The node with this number.
    pub fn node(&self, number: usize) -> Option<Node> {
        self.numbers
            .iter()
            .find(|(_, at)| **at == number)
            .map(|(&node, _)| node)
    }

    /// The stores to a slot.
    pub fn stores_to(&self, slot: usize) -> &[Value] {
        self.stores.get(&slot).map_or(&[], Vec::as_slice)
    }
}

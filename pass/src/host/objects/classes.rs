//! Classes: the device pointers of one function, those that may be the same object in one class.
use std::collections::HashMap;

use petgraph::unionfind::UnionFind;

use crate::host::ir::Value;
use crate::host::objects::ops::GpuOp;
use crate::host::reason::Why;

/// What pointers are kept in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PointerStore {
    /// A value of the IR.
    Value(Value),
    /// The bytes of a local variable from an offset.
    Slot(Value, i64),
    /// The bytes of a local variable whose offsets are known at run time only, and all of it where it is
    /// passed on as a whole.
    Any(Value),
}

/// The classes of one function's device pointers, and the ops on them.
pub struct Objects {
    /// The ops, in the order they stand.
    pub ops: Vec<GpuOp>,
    /// What is not understood, by node.
    pub obstacles: Vec<(usize, Why)>,
    pub(super) classes: UnionFind<usize>,
    pub(super) numbers: HashMap<PointerStore, usize>,
    pub(super) stores: HashMap<usize, Vec<Value>>,
}

impl Objects {
    /// The class of a node.
    pub fn class(&self, node: usize) -> usize {
        self.classes.find(node)
    }

    /// How many nodes there are; classes are numbered by one of their nodes.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// The number of a node, if pointers were followed to it.
    pub fn number(&self, node: PointerStore) -> Option<usize> {
        self.numbers.get(&node).copied()
    }

    /// The node with this number.
    pub fn node(&self, number: usize) -> Option<PointerStore> {
        self.numbers
            .iter()
            .find(|(_, at)| **at == number)
            .map(|(&node, _)| node)
    }

    /// All nodes that pointers were followed to, with their numbers, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = (PointerStore, usize)> {
        self.numbers.iter().map(|(&node, &number)| (node, number))
    }

    /// The stores to a slot.
    pub fn stores_to(&self, slot: usize) -> &[Value] {
        self.stores.get(&slot).map_or(&[], Vec::as_slice)
    }
}

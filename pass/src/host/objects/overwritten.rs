//! Overwritten copies: `Graph on_gpu = graph;`, and then an allocation into every pointer of it. What the
//! copy brought is gone before anything reads it, so that the pointers of the source are not among those of
//! the copy.
use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::prelude::LLVMModuleRef;

use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::helpers;
use crate::host::objects::slots::{POINTER, SlotAccess, VariableBytes};

/// The most pointers of a structure that are looked at.
const MAX_POINTERS: usize = 64;

/// The copies into a variable that leave no pointer in it: each is overwritten before it can be read.
pub fn copies(module: LLVMModuleRef, cfg: &Cfg, variable: Value, accesses: &[SlotAccess]) -> HashSet<Value> {
    let Some(slots) = pointers(module, variable) else {
        return HashSet::new();
    };
    let copies = accesses.iter().filter_map(|one| match *one {
        SlotAccess::Copy { call, into: true, .. } | SlotAccess::Fill { call } => Some(call),
        _ => None,
    });
    let is_gone = |copy: &Value| {
        let mut slots = slots.iter();
        slots.all(|&slot| is_overwritten(module, cfg, accesses, *copy, slot))
    };
    copies.filter(is_gone).collect()
}

/// The offsets of all pointers in a local variable, where its type shows them.
fn pointers(module: LLVMModuleRef, variable: Value) -> Option<Vec<i64>> {
    if !variable.is(LLVMOpcode::LLVMAlloca) || variable.operand(0).constant() != Some(1) {
        return None;
    }
    helpers::pointer_offsets(module, variable.allocated_type(), MAX_POINTERS).filter(|all| !all.is_empty())
}

/// Whether another pointer is put into a slot on every way from a copy to where the slot may be read.
pub fn is_overwritten(
    module: LLVMModuleRef,
    cfg: &Cfg,
    accesses: &[SlotAccess],
    copy: Value,
    slot: i64,
) -> bool {
    let is_here = |part: VariableBytes, bytes: i64| part.overlaps(bytes, VariableBytes::at(slot), POINTER);
    let size = |value: Value| helpers::type_size(module, value.ty()) as i64;
    let (mut reads, mut writes): (Vec<Point>, Vec<Point>) = (Vec::new(), Vec::new());
    for access in accesses {
        match *access {
            SlotAccess::Load { load, part } if is_here(part, size(load)) => reads.push(cfg.point(load)),
            SlotAccess::Store { store, part }
                if part.exact() == Some(slot) && size(store.operand(0)) == POINTER =>
            {
                writes.push(cfg.point(store));
            }
            SlotAccess::Allocation { call, part } if part.exact() == Some(slot) => {
                writes.push(cfg.point(call))
            }
            SlotAccess::Argument { call, .. } => reads.push(cfg.point(call)),
            SlotAccess::Copy { call, into, .. } if !into => reads.push(cfg.point(call)),
            SlotAccess::Called { call, part, bytes } if is_here(part, bytes) => reads.push(cfg.point(call)),
            SlotAccess::Escape(_) => return false,
            _ => {}
        }
    }
    let from = cfg.point(copy);
    let mut seen = HashSet::new();
    let mut queue = vec![Point {
        at: from.at + 1,
        ..from
    }];
    while let Some(point) = queue.pop() {
        let first = |all: &[Point]| {
            let here = all
                .iter()
                .filter(|one| one.block == point.block && one.at >= point.at);
            here.map(|one| one.at).min()
        };
        match (first(&reads), first(&writes)) {
            (Some(read), write) if write.is_none_or(|write| read <= write) => return false,
            (_, Some(_)) => {}
            _ => {
                let next = cfg
                    .successors(point.block)
                    .into_iter()
                    .filter(|&next| seen.insert(next));
                queue.extend(next.map(|block| Point { block, at: 0 }));
            }
        }
    }
    true
}

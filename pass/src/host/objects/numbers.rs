//! Numbers: whether the bytes of a pointer are read as a number, or go to a kernel as one, where they lie or
//! where they are copied to. A kernel makes an address of them again, and no op shows that it is given one.
use std::collections::HashSet;

use mgb_catalogue::report::ReasonCode;

use crate::host::collect::Collected;
use crate::host::ir::Value;
use crate::host::ir::cfg::Cfg;
use crate::host::objects::launches::KernelLaunch;
use crate::host::objects::slots::{self, POINTER, SlotAccess, VariableBytes};
use crate::host::reason::Why;

/// The most copies that one pointer is followed through.
const COPIES: usize = 64;

/// A search along the copies of one pointer.
pub struct Numbers<'a> {
    collected: &'a Collected,
    cfg: &'a Cfg,
    launches: &'a [KernelLaunch],
    seen: HashSet<(Value, VariableBytes)>,
}

impl<'a> Numbers<'a> {
    /// Nothing is followed yet.
    pub fn new(collected: &'a Collected, cfg: &'a Cfg, launches: &'a [KernelLaunch]) -> Self {
        Self {
            collected,
            cfg,
            launches,
            seen: HashSet::new(),
        }
    }

    /// Where the bytes of a pointer in `variable` become a number.
    pub fn find(&mut self, variable: Value, pointer: VariableBytes) -> Option<Why> {
        let accesses = slots::accesses(self.collected, self.cfg, self.launches, variable);
        accesses
            .iter()
            .find_map(|access| self.becomes_number(access, pointer))
    }

    fn becomes_number(&mut self, access: &SlotAccess, pointer: VariableBytes) -> Option<Why> {
        let module = self.collected.module;
        match *access {
            // What is read as a pointer is followed as one.
            SlotAccess::Load { load, part } => {
                let is_number = !load.ty().is_pointer() && slots::overlaps(module, load, part, pointer);
                is_number.then(|| read_as_bytes(load))
            }
            SlotAccess::Argument { call, part, ty } => {
                (!pointer.is_typed(module, part, ty)).then(|| given_as_bytes(call))
            }
            SlotAccess::Copy {
                call,
                part,
                bytes,
                other,
                there,
                into: false,
            } if bytes.is_none_or(|bytes| part.overlaps(bytes, pointer, POINTER)) => {
                let copied = pointer.copied(part, there);
                if self.seen.len() >= COPIES {
                    return Some(slots::copied(call));
                }
                match self.seen.insert((other, copied)) {
                    true => self.find(other, copied),
                    false => None,
                }
            }
            _ => None,
        }
    }
}

/// Why a pointer is not followed that is read, or written, as something else.
pub fn read_as_bytes(at: Value) -> Why {
    let text = "a device pointer is read or written as bytes";
    Why::new(ReasonCode::AddressEscapes, text, at)
}

/// Why a pointer is not followed that lies in an argument whose type has none there.
fn given_as_bytes(call: Value) -> Why {
    let text = "a kernel is given a device pointer in bytes whose type does not show it";
    Why::new(ReasonCode::AddressEscapes, text, call)
}

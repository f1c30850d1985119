//! Effects: whether a function that is given an address only reads what is there.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::LLVMOpcode;

use crate::host::ir::Value;
use crate::host::ir::helpers;

/// Whether a call, of a function that is not the CUDA runtime's, leaves what this argument points to as it
/// is, and keeps no way to it but through what it returns, by which nothing is written either.
pub fn only_reads(call: Value, argument: u32) -> bool {
    let mut search = EffectSearch::default();
    let mut returned = false;
    search.reads_only(call, argument, &mut returned) && !returned
}

/// Whether a call that is given a pointer neither writes through it nor keeps it anywhere: also not in memory
/// of a library, of which an attribute says only that it does not write.
pub fn only_reads_and_forgets(call: Value, argument: u32) -> bool {
    let mut search = EffectSearch {
        forgets: true,
        ..EffectSearch::default()
    };
    let mut returned = false;
    search.reads_only(call, argument, &mut returned) && !returned
}

/// What is known of parameters.
#[derive(Default)]
struct EffectSearch {
    /// Whether nothing is written through them, and whether they are returned; none while that is being found
    /// out.
    parameters: HashMap<Value, Option<(bool, bool)>>,
    seen: HashSet<Value>,
    /// Whether attributes count only if they also promise that the address is not kept.
    forgets: bool,
}

impl EffectSearch {
    fn reads_only(&mut self, call: Value, argument: u32, returned: &mut bool) -> bool {
        let is_kept = || self.forgets && !helpers::is_not_captured(call, argument);
        if call.is_marker() || (helpers::is_only_read(call, argument) && !is_kept()) {
            return true;
        }
        let Some(callee) = call.callee().filter(|callee| !callee.is_declaration()) else {
            return false;
        };
        let Some(parameter) = callee.parameters().nth(argument as usize) else {
            return false;
        };
        let (reads, returns) = match self.parameters.get(&parameter) {
            Some(Some(known)) => *known,
            // A recursive query: the rest of the function decides.
            Some(None) => return true,
            None => {
                self.parameters.insert(parameter, None);
                let mut returns = false;
                let reads = self.is_only_read(parameter, &mut returns);
                self.parameters.insert(parameter, Some((reads, returns)));
                (reads, returns)
            }
        };
        // The caller may get the address back, of an element of a vector for one.
        reads && (!returns || self.is_only_read(call, returned))
    }

    /// Whether nothing is written through an address in its function, without optimisation too: parameters
    /// are then kept in variables of their own. Tells whether the function returns it.
    fn is_only_read(&mut self, address: Value, returned: &mut bool) -> bool {
        address.users().into_iter().all(|user| match user.opcode() {
            Some(LLVMOpcode::LLVMLoad | LLVMOpcode::LLVMICmp) => true,
            Some(LLVMOpcode::LLVMRet) => {
                *returned = true;
                true
            }
            Some(
                LLVMOpcode::LLVMGetElementPtr
                | LLVMOpcode::LLVMBitCast
                | LLVMOpcode::LLVMPHI
                | LLVMOpcode::LLVMSelect
                | LLVMOpcode::LLVMFreeze,
            ) => !self.seen.insert(user) || self.is_only_read(user, returned),
            Some(LLVMOpcode::LLVMStore) => {
                let mut are_only_read = |copies: Vec<Value>| {
                    let mut copies = copies.into_iter();
                    copies.all(|copy| !self.seen.insert(copy) || self.is_only_read(copy, returned))
                };
                user.operand(0) == address && copies(user.operand(1)).is_some_and(&mut are_only_read)
            }
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
                let given: Vec<u32> = user
                    .arguments()
                    .enumerate()
                    .filter(|(_, argument)| *argument == address)
                    .map(|(at, _)| at as u32)
                    .collect();
                given.into_iter().all(|at| self.reads_only(user, at, returned))
            }
            _ => false,
        })
    }
}

/// What is read back from a variable that only holds an address; none where more is done with it.
pub fn copies(variable: Value) -> Option<Vec<Value>> {
    if !variable.is(LLVMOpcode::LLVMAlloca) {
        return None;
    }
    let mut copies = Vec::new();
    for user in variable.users() {
        match user.opcode()? {
            LLVMOpcode::LLVMLoad => copies.push(user),
            LLVMOpcode::LLVMStore if user.operand(1) == variable => {}
            _ if user.is_marker() => {}
            _ => return None,
        }
    }
    Some(copies)
}

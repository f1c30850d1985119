//! Summaries: what a function of this module does with an address that it is given, where it is not inlined.
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use inkwell::llvm_sys::LLVMOpcode;
use mgb_catalogue::Class;

use crate::host::collect::{Callee, Collected};
use crate::host::ir::{Value, effects, helpers, memory};

/// How deep calls are followed.
const DEPTH: u32 = 4;
/// Functions of the libraries that print what they are given, an address as a number, to the standard output.
const PRINTING: [&str; 2] = ["printf", "__printf_chk"];
/// The same, to the stream that they are given first.
const PRINTING_TO: [&str; 3] = ["fprintf", "__fprintf_chk", "_ZNSolsEPKv"];
/// Streams that no program reads back from.
const TERMINALS: [&str; 5] = ["stdout", "stderr", "_ZSt4cout", "_ZSt4cerr", "_ZSt4clog"];
/// What the names of functions begin with that return the stream that they are given first.
const INSERTING: [&str; 2] = ["_ZNSols", "_ZStls"];
/// How many insertions into one stream are followed.
const INSERTIONS: usize = 64;

/// Whether a call keeps and passes on nothing of a device pointer: it compares, prints or ignores it.
pub fn is_forgotten(call: Value, pointer: Value) -> bool {
    let prints = || {
        let name = call
            .callee()
            .filter(|callee| callee.is_declaration())
            .map(|callee| callee.name());
        name.is_some_and(|name| {
            PRINTING.contains(&name.as_str())
                || (PRINTING_TO.contains(&name.as_str()) && is_terminal(call.operand(0)))
        })
    };
    let mut given = call
        .arguments()
        .enumerate()
        .filter(|(_, argument)| *argument == pointer);
    given.all(|(at, _)| {
        let at = at as u32;
        (helpers::byval_type(call, at).is_none() && effects::only_reads_and_forgets(call, at)) || prints()
    })
}

/// Whether a stream is one of [`TERMINALS`].
fn is_terminal(stream: Value) -> bool {
    let inserted = |call: Value| {
        let name = call.callee()?.name();
        INSERTING
            .iter()
            .any(|prefix| name.starts_with(prefix))
            .then(|| call.operand(0))
    };
    let mut at = stream;
    for _ in 0..INSERTIONS {
        match inserted(at) {
            Some(before) => at = before,
            None => break,
        }
    }
    if at.is(LLVMOpcode::LLVMLoad) {
        at = at.operand(0);
    }
    at.is_global() && TERMINALS.contains(&at.name().as_str())
}

/// Whether a call registers a destructor of a global for the end of the process, which at most frees what is
/// in it.
pub fn is_freed_at_exit(collected: &Collected, call: Value, global: Value) -> bool {
    let registers = |callee: Value| callee.name() == "__cxa_atexit" && callee.is_declaration();
    if !call.callee().is_some_and(registers) || call.operand(1) != global {
        return false;
    }
    // It may be named by an alias.
    let destructor = helpers::base_and_offset(call.operand(0)).0;
    let mut seen = HashSet::from([destructor]);
    let mut queue = vec![destructor];
    while let Some(function) = queue.pop() {
        if !function.is_function() || (function.is_declaration() && function == destructor) {
            return false;
        }
        for one in function.instructions() {
            match collected.callee(one) {
                Some(Callee::Runtime(entry))
                    if matches!(entry.class, Class::Free | Class::Sync | Class::Query) => {}
                Some(Callee::Runtime(_) | Callee::Stub(_) | Callee::Unknown) => return false,
                Some(Callee::Other(callee)) if seen.insert(callee) => queue.push(callee),
                _ => {}
            }
        }
    }
    true
}

/// Which bytes behind this argument a called function, and those that it calls, read or write; none where it
/// may access others, or keep the address.
pub fn touched(collected: &Collected, call: Value, pointer: Value) -> Option<Vec<Range<i64>>> {
    let mut search = SummarySearch {
        collected,
        found: Vec::new(),
        seen: HashMap::new(),
    };
    search.follow_call(call, pointer, 0, DEPTH)?;
    Some(search.found)
}

struct SummarySearch<'a> {
    collected: &'a Collected,
    found: Vec<Range<i64>>,
    /// Addresses, each with where it points.
    seen: HashMap<Value, i64>,
}

impl SummarySearch<'_> {
    fn follow_call(&mut self, call: Value, pointer: Value, offset: i64, depth: u32) -> Option<()> {
        if call.is_marker() {
            return Some(());
        }
        let Some(Callee::Other(function)) = self.collected.callee(call) else {
            return None;
        };
        if let Some(bytes) = block_access(call, pointer) {
            self.found.push(offset..offset.checked_add(bytes)?);
            return Some(());
        }
        if depth == 0 || !self.collected.is_fixed(function) {
            return None;
        }
        for (at, argument) in call.arguments().enumerate() {
            if argument != pointer {
                continue;
            }
            if helpers::byval_type(call, at as u32).is_some() {
                return None;
            }
            self.follow(function.parameters().nth(at)?, offset, depth - 1)?;
        }
        Some(())
    }

    /// Follows an address that is `offset` bytes behind the one that the call was given.
    fn follow(&mut self, address: Value, offset: i64, depth: u32) -> Option<()> {
        match self.seen.insert(address, offset) {
            Some(before) if before == offset => return Some(()),
            // It moves on, in a loop: how far is not known.
            Some(_) => return None,
            None => {}
        }
        for user in address.users() {
            match user.opcode()? {
                LLVMOpcode::LLVMICmp => {}
                LLVMOpcode::LLVMLoad => self.access(user, offset)?,
                LLVMOpcode::LLVMStore if user.operand(1) == address && user.operand(0) != address => {
                    self.access(user.operand(0), offset)?;
                }
                LLVMOpcode::LLVMStore => {
                    for copy in effects::copies(user.operand(1))? {
                        self.follow(copy, offset, depth)?;
                    }
                }
                LLVMOpcode::LLVMGetElementPtr => {
                    let (base, further) = memory::address(user);
                    let (from, before) = memory::address(address);
                    if base != from {
                        return None;
                    }
                    self.follow(user, offset.checked_add(further?.checked_sub(before?)?)?, depth)?;
                }
                LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMSelect | LLVMOpcode::LLVMFreeze => {
                    self.follow(user, offset, depth)?;
                }
                LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke => {
                    self.follow_call(user, address, offset, depth)?
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn access(&mut self, value: Value, offset: i64) -> Option<()> {
        let bytes = helpers::type_size(self.collected.module, value.ty()) as i64;
        self.found.push(offset..offset.checked_add(bytes)?);
        Some(())
    }
}

/// The bytes that an intrinsic copies or sets at this address.
fn block_access(call: Value, pointer: Value) -> Option<i64> {
    let name = call.callee()?.name();
    let is_block = ["llvm.memcpy.", "llvm.memmove.", "llvm.memset."]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    let bytes = is_block.then(|| call.operand(2).constant())??;
    let mut given = call.arguments();
    given.any(|argument| argument == pointer).then_some(bytes as i64)
}

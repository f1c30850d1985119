//! The host stubs of kernels, in the forms in which clang and nvcc write them.
//!
//! clang writes one function, which takes the pushed configuration and calls `cudaLaunchKernel`. The front
//! end of nvcc writes such a function too, named after the kernel; it launches through a function of the CUDA
//! headers, a *relay*. The kernel's own name is a function that forwards to it, directly or, for a template,
//! through another. A kernel of another file is declared as the stub if clang compiled that file; for nvcc
//! only the kernel's own name is declared, and called where a configuration was pushed.
use inkwell::llvm_sys::core::{LLVMGetEnumAttributeAtIndex, LLVMGetEnumAttributeKindForName};
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode, LLVMTypeKind};
use mgb_catalogue::Class;

use super::{Callee, Collected, HostKernel};
use crate::host::ir::helpers;
use crate::host::ir::{self, BasicBlock, Value};

/// What clang and nvcc put before a kernel's name to name its host stub.
const STUB_PREFIX: &str = "__device_stub__";
/// The constructor that nvcc's front end writes into every file.
const REGISTERS_ALL: &str = "__sti____cudaRegisterAll";
/// How many blocks the arguments of a launch may take.
const ARGUMENTS: usize = 32;

impl Collected {
    /// Finds all stubs, and the kernel of each.
    pub(super) fn find_stubs(&mut self) {
        self.find_relays();
        for function in ir::functions(self.module) {
            let name = function.name();
            let declared = function.is_declaration();
            let is_stub = if declared {
                !self.runtime.contains_key(&function) && name.contains(STUB_PREFIX)
            } else {
                self.launches_itself(function)
            };
            if is_stub {
                self.stubs.insert(function, HostKernel::of(function, !declared));
            }
            self.by_nvcc |= name.contains(REGISTERS_ALL);
        }
        while self.find_forwarding() {}
        self.find_declared();
    }

    /// Functions that launch with a configuration that they are given, by the handle that only nvcc's stubs
    /// have.
    fn find_relays(&mut self) {
        let launches_by_handle = |&function: &Value| {
            let mut called = function.instructions().filter_map(|one| self.entry(one));
            called.any(|entry| entry.name == "__cudaLaunchKernel") && !self.pops(function)
        };
        self.relays = ir::functions(self.module).filter(launches_by_handle).collect();
    }

    fn pops(&self, function: Value) -> bool {
        let mut called = function.instructions().filter_map(|one| self.entry(one));
        called.any(|entry| entry.name == "__cudaPopCallConfiguration")
    }

    fn launches_itself(&self, function: Value) -> bool {
        let launches = function.instructions().any(|one| match self.callee(one) {
            Some(Callee::Runtime(entry)) => entry.class == Class::Launch,
            Some(Callee::Other(callee)) => self.relays.contains(&callee),
            _ => false,
        });
        launches && self.pops(function)
    }

    /// Functions that only forward to a stub. True if there were some.
    fn find_forwarding(&mut self) -> bool {
        let calls = self.stubs.keys().flat_map(|stub| stub.users());
        let found: Vec<Value> = calls
            .filter(|user| user.is_call())
            .map(|call| call.block().function())
            .filter(|&function| !self.is_stub(function) && self.only_forwards(function))
            .collect();
        let any = !found.is_empty();
        let kernels = found.into_iter().map(|one| (one, HostKernel::of(one, true)));
        self.stubs.extend(kernels);
        any
    }

    fn only_forwards(&self, function: Value) -> bool {
        let mut launches = 0;
        for instruction in function.instructions() {
            match self.callee(instruction) {
                Some(Callee::Stub(_)) => launches += 1,
                Some(Callee::Runtime(_) | Callee::Unknown) => return false,
                _ => {}
            }
        }
        launches == 1
    }

    /// Kernels of other files that are declared by their own names.
    fn find_declared(&mut self) {
        let push = self
            .runtime
            .iter()
            .find(|(_, entry)| entry.name == "__cudaPushCallConfiguration");
        let pushes = push.map_or(Vec::new(), |(function, _)| function.users());
        let kernels: Vec<Value> = pushes
            .into_iter()
            .filter_map(|push| self.only_candidate(guarded(push)?))
            .collect();
        let kernels = kernels.into_iter().map(|one| (one, HostKernel::of(one, false)));
        self.stubs.extend(kernels);
    }

    /// The one function that may be a kernel, among those that are called where a configuration was pushed:
    /// the others put its arguments together.
    fn only_candidate(&self, launch: Vec<BasicBlock>) -> Option<Value> {
        let mut found = None;
        for call in launch.into_iter().flat_map(BasicBlock::instructions) {
            match self.callee(call) {
                Some(Callee::Stub(_) | Callee::Unknown) => return None,
                Some(Callee::Other(function)) if may_be_kernel(function, call) => match found {
                    Some(other) if other != function => return None,
                    _ => found = Some(function),
                },
                _ => {}
            }
        }
        found
    }
}

/// The blocks that run only where this push succeeded, up to where both ways meet again.
fn guarded(push: Value) -> Option<Vec<BasicBlock>> {
    let compare = push
        .users()
        .into_iter()
        .find(|user| user.is(LLVMOpcode::LLVMICmp))?;
    let branch = compare
        .users()
        .into_iter()
        .find(|user| user.is(LLVMOpcode::LLVMBr))?;
    let successors = branch.block().successors();
    let &[when_true, when_false] = successors.as_slice() else {
        return None;
    };
    let (launches, skips) = match compare.predicate() {
        LLVMIntPredicate::LLVMIntNE => (when_false, when_true),
        LLVMIntPredicate::LLVMIntEQ => (when_true, when_false),
        _ => return None,
    };
    let end = match (skips.instructions().count(), skips.successors().as_slice()) {
        (1, &[only]) => only,
        _ => skips,
    };
    let mut blocks = vec![launches];
    let mut at = 0;
    while let Some(&block) = blocks.get(at) {
        at += 1;
        let terminator = block.terminator()?;
        let next = if terminator.is_call() {
            vec![terminator.normal_successor()]
        } else {
            block.successors()
        };
        for one in next {
            if one != end && !blocks.contains(&one) {
                blocks.push(one);
            }
        }
        if blocks.len() > ARGUMENTS {
            return None;
        }
    }
    Some(blocks)
}

/// Whether a function of another file, called like this, may be a kernel: not one that gives something back,
/// or makes or destroys an object.
fn may_be_kernel(function: Value, call: Value) -> bool {
    const SPECIAL: [&str; 7] = ["C1E", "C2E", "C3E", "C4E", "D0E", "D1E", "D2E"];
    let name = function.name();
    let special = name.starts_with("_ZN") && SPECIAL.iter().any(|mark| name.contains(mark));
    let into_memory = "sret";
    // SAFETY: the name's address and length; a live function.
    let gives_back = unsafe {
        let kind = LLVMGetEnumAttributeKindForName(into_memory.as_ptr().cast(), into_memory.len());
        !LLVMGetEnumAttributeAtIndex(function.raw(), 1, kind).is_null()
    };
    function.is_declaration()
        && call.ty().kind() == LLVMTypeKind::LLVMVoidTypeKind
        && !name.starts_with("llvm.")
        && !special
        && !gives_back
}

impl HostKernel {
    fn of(stub: Value, defined: bool) -> Self {
        Self {
            name: helpers::demangle(&stub.name()).replacen(STUB_PREFIX, "", 1),
            defined,
        }
    }
}

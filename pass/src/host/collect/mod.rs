//! Collect: which functions of the module are the CUDA runtime, which are host stubs of kernels, and
//! which calls are GPU ops.
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::core::LLVMGetModuleFlag;
use inkwell::llvm_sys::prelude::LLVMModuleRef;
use mgb_catalogue::{Class, Role, RuntimeFunction};

use crate::device;
use crate::host::ir::{self, Value};

mod nvcc_source;
pub mod open;
pub mod parts;
pub mod resources;
pub mod sources;
mod stubs;
pub mod twelve;
pub mod variables;

/// What a call in host code calls.
#[derive(Clone, Copy)]
pub enum Callee<'m> {
    /// A function of the CUDA runtime.
    Runtime(&'static RuntimeFunction),
    /// The host stub of a kernel: the call is the launch.
    Stub(&'m HostKernel),
    /// A function that the catalogue does not have.
    Other(Value),
    /// A function known at run time only, or inline assembly.
    Unknown,
}

/// A kernel, as the host side knows it.
#[derive(Clone, Debug)]
pub struct HostKernel {
    /// As the source spells it, with its parameter types.
    pub name: String,
    /// Whether its stub has a body in this module: the kernel is compiled here too.
    pub defined: bool,
}

/// What the module holds of CUDA.
pub struct Collected {
    /// The module itself.
    pub module: LLVMModuleRef,
    runtime: HashMap<Value, &'static RuntimeFunction>,
    stubs: HashMap<Value, HostKernel>,
    /// Functions of CUDA's headers through which nvcc's stubs launch.
    relays: HashSet<Value>,
    /// Whether nvcc compiles the device code.
    pub by_nvcc: bool,
    /// What nvcc's front end wrote, from which the module is made.
    front_end: Option<PathBuf>,
    /// Whether its device code is linked with that of other files.
    pub across_files: bool,
    /// Whether kernels of this module may share state through device variables.
    pub device_variables: bool,
}

impl Collected {
    /// What a module holds.
    pub fn new(module: LLVMModuleRef) -> Self {
        let runtime: HashMap<_, _> = ir::functions(module)
            .filter(|function| function.is_declaration())
            .filter_map(|function| Some((function, mgb_catalogue::lookup(&function.name())?)))
            .collect();
        let mut collected = Self {
            module,
            runtime,
            stubs: HashMap::new(),
            relays: HashSet::new(),
            by_nvcc: false,
            front_end: None,
            across_files: device::is_left(module) || device::nvcc::is_relocatable(module),
            device_variables: false,
        };
        if !collected.runtime.is_empty() {
            collected.device_variables = collected.has_device_variables();
        }
        collected.find_stubs();
        if collected.by_nvcc {
            collected.front_end = nvcc_source::name(module);
        }
        collected
    }

    /// Whether the module neither calls the runtime nor has stubs.
    pub fn is_empty(&self) -> bool {
        self.runtime.is_empty() && self.stubs.is_empty()
    }

    /// The declarations of runtime functions, sorted by name.
    pub fn runtime(&self) -> Vec<(Value, &'static RuntimeFunction)> {
        let mut all: Vec<_> = self
            .runtime
            .iter()
            .map(|(&function, &entry)| (function, entry))
            .collect();
        all.sort_by_key(|(_, entry)| entry.name);
        all
    }

    /// Whether a function is the host stub of a kernel, or what such stubs launch through.
    pub fn is_stub(&self, function: Value) -> bool {
        self.stubs.contains_key(&function) || self.relays.contains(&function)
    }

    /// The kernel whose stub this is.
    pub fn kernel(&self, stub: Value) -> Option<&HostKernel> {
        self.stubs.get(&stub)
    }

    /// What an instruction calls; none if it is not a call.
    pub fn callee(&self, instruction: Value) -> Option<Callee<'_>> {
        if !instruction.is_call() {
            return None;
        }
        let Some(function) = instruction.callee() else {
            return Some(Callee::Unknown);
        };
        Some(match (self.runtime.get(&function), self.stubs.get(&function)) {
            (Some(entry), _) => Callee::Runtime(entry),
            (_, Some(kernel)) => Callee::Stub(kernel),
            _ => Callee::Other(function),
        })
    }

    /// The runtime function an instruction calls.
    pub fn entry(&self, instruction: Value) -> Option<&'static RuntimeFunction> {
        match self.callee(instruction) {
            Some(Callee::Runtime(entry)) => Some(entry),
            _ => None,
        }
    }

    /// The calls of one of the runtime's functions.
    pub fn calls_of(&self, name: &str) -> Vec<Value> {
        let named = self.runtime.iter().filter(|(_, entry)| entry.name == name);
        let users = named.flat_map(|(function, _)| function.users());
        users.filter(|user| user.is_call()).collect()
    }

    /// The calls of `cudaSetDevice`, but for those in CUB, Thrust and libcu++, which leave the device as they
    /// found it.
    pub fn choices_of_device(&self) -> Vec<Value> {
        let mut calls = self.calls_of("cudaSetDevice");
        calls.retain(|call| !is_of_cuda_library(&call.block().function().name()));
        calls
    }

    /// The functions with such a call, and those that call them by their names.
    pub fn choosing_device(&self) -> HashSet<Value> {
        let mut found = HashSet::new();
        let mut calls = self.choices_of_device();
        while let Some(call) = calls.pop() {
            let function = call.block().function();
            if found.insert(function) {
                let users = function.users().into_iter();
                calls.extend(users.filter(|user| user.callee() == Some(function)));
            }
        }
        found
    }

    /// Whether an instruction is a GPU op that tasks are made of.
    pub fn is_op(&self, instruction: Value) -> bool {
        match self.callee(instruction) {
            Some(Callee::Runtime(entry)) => matches!(
                entry.class,
                Class::Alloc
                    | Class::Free
                    | Class::Copy
                    | Class::Set
                    | Class::Launch
                    | Class::Configure
                    | Class::Symbol
            ),
            Some(Callee::Stub(_)) => true,
            _ => false,
        }
    }

    /// Whether a function with a body holds GPU ops of its own. Stubs do not count: they are ops.
    pub fn holds_ops(&self, function: Value) -> bool {
        !function.is_declaration()
            && !self.is_stub(function)
            && function.instructions().any(|instruction| self.is_op(instruction))
    }

    /// Whether the body here is the one that a call runs, whatever it is linked with.
    pub fn is_fixed(&self, function: Value) -> bool {
        let name = "SemanticInterposition";
        let replaceable = || {
            // SAFETY: a live module, and the name's address and length.
            !unsafe { LLVMGetModuleFlag(self.module, name.as_ptr().cast(), name.len()) }.is_null()
        };
        !function.is_declaration()
            && match function.linkage() {
                LLVMLinkage::LLVMInternalLinkage
                | LLVMLinkage::LLVMPrivateLinkage
                | LLVMLinkage::LLVMLinkOnceODRLinkage
                | LLVMLinkage::LLVMWeakODRLinkage => true,
                LLVMLinkage::LLVMExternalLinkage => !replaceable(),
                _ => false,
            }
    }

    /// Device variables are registered here or used by symbol. Their host shadows, which are never read, are
    /// the only globals that clang leaves undefined.
    fn has_device_variables(&self) -> bool {
        let used = self.runtime.iter().any(|(function, entry)| {
            let registers = matches!(entry.name, "__cudaRegisterVar" | "__cudaRegisterManagedVar");
            (registers || entry.class == Class::Symbol) && function.has_uses()
        });
        used || self.across_files || ir::globals(self.module).any(Value::is_undefined_variable)
    }
}

/// Whether a symbol is of CUB, Thrust or libcu++, or of something local to one of their functions.
fn is_of_cuda_library(symbol: &str) -> bool {
    let name = symbol.trim_start_matches(['_', 'Z', 'N', 'K']);
    ["3cub", "6thrust", "4cuda3__"]
        .iter()
        .any(|space| name.starts_with(space))
}

/// The place of an argument in the call, from its place in the declaration: a `dim3` takes two.
pub fn argument_at(entry: &RuntimeFunction, parameter: usize) -> u32 {
    let before = &entry.params[..parameter];
    let halves = before
        .iter()
        .filter(|param| matches!(param.role, Role::Grid | Role::Block))
        .count();
    (parameter + halves) as u32
}

/// The call's arguments that have this role.
pub fn arguments_with(call: Value, entry: &'static RuntimeFunction, role: Role) -> Vec<Value> {
    let count = call.argument_count();
    entry
        .positions(role)
        .map(|at| argument_at(entry, at))
        .filter(|&at| at < count)
        .map(|at| call.operand(at))
        .collect()
}

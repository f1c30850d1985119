//! Which kernels touch which device variables, from the device IR as clang made it.
//!
//! A kernel touches the variables that it, or a function that it may call, mentions. The address of each
//! variable is followed through casts, offsets, local variables and parameters to the instructions that read
//! and write there. An address that goes anywhere else has escaped: then any kernel may use and write the
//! variable.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMTypeKind};
use serde::{Deserialize, Serialize};

use super::callgraph::{CallGraph, is_of_system};
use super::escape::{self, Published};
use super::ir::*;
use super::layout::Layout;
use super::parts::{self, PartsKind};
use super::{gpu_dependence, module, side_files, translate};

/// What the kernels of one source do to its device variables; all by the device's symbols.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uses {
    /// The variables, with their bytes.
    pub variables: BTreeMap<String, u64>,
    /// The variables that each kernel may touch; none where it may touch any.
    pub kernels: BTreeMap<String, Option<BTreeSet<String>>>,
    /// The variables that some kernel may write.
    pub written: BTreeSet<String>,
    /// What keeps the data of each kernel's launches on their GPU: a few words for each thing; none listed
    /// where everything is known and nothing does.
    #[serde(default)]
    pub ties: BTreeMap<String, BTreeSet<String>>,
    /// How each kernel may keep addresses that it is given; a kernel that is not listed may in any way.
    #[serde(default)]
    pub published: Published,
    /// How each kernel can be run in parts, where that was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, PartsKind>,
}

/// What is known of a source; none where its device modules are not kept or cannot be read.
pub fn of_source(source: &str) -> Option<Uses> {
    let mut all = Uses::default();
    // Code may differ between architectures, and which one will run is not known.
    let paths = side_files::find_all(&side_files::folder()?, source);
    for path in &paths {
        let context = translate::LlvmContext::new();
        let module = module::Module::read(context.0, path).ok()?;
        all.add(of_module(module.raw()));
    }
    (!paths.is_empty()).then_some(all)
}

impl Uses {
    /// Adds what is known of another image of the same source: any of them may run.
    pub fn add(&mut self, other: Uses) {
        self.variables.extend(other.variables);
        self.written.extend(other.written);
        for (kernel, ties) in other.ties {
            self.ties.entry(kernel).or_default().extend(ties);
        }
        for (kernel, parts) in other.parts {
            let both = match self.parts.remove(&kernel) {
                Some(known) => known.and(parts),
                None => parts,
            };
            self.parts.insert(kernel, both);
        }
        for (kernel, ways) in other.published {
            self.published.entry(kernel).or_default().extend(ways);
        }
        for (kernel, touched) in other.kernels {
            let both = match (self.kernels.remove(&kernel), touched) {
                (None, touched) => touched,
                (Some(Some(mut one)), Some(another)) => {
                    one.extend(another);
                    Some(one)
                }
                _ => None,
            };
            self.kernels.insert(kernel, both);
        }
    }
}

fn of_module(module: LLVMModuleRef) -> Uses {
    let layout = Layout::of(module);
    let mut uses = Uses::default();
    let mut symbols: HashMap<LLVMValueRef, String> = HashMap::new();
    let mut everywhere: BTreeSet<String> = BTreeSet::new();
    let assembly = assembly(module);
    for variable in globals(module).into_iter().filter(|&at| is_variable(at)) {
        let name = name(variable);
        uses.variables
            .insert(name.clone(), layout.size(value_type(variable)));
        let mut found = VariableUses::default();
        found.follow(variable);
        found.escapes |= is_declaration(variable) || assembly.iter().any(|text| text.contains(&name));
        if found.writes || found.escapes {
            uses.written.insert(name.clone());
        }
        if found.escapes {
            everywhere.insert(name.clone());
        }
        symbols.insert(variable, name);
    }
    uses.published = escape::of_module(module);
    let graph = CallGraph::new(module);
    for kernel in module::kernels(module) {
        if parts::is_twin(&name(kernel)) {
            continue;
        }
        uses.parts
            .extend(parts::of(kernel).map(|parts| (name(kernel), parts)));
        let reach = graph.reach(kernel);
        let known = reach.functions.iter().all(|&at| is_known(at));
        // Who touches a variable has its address from a function that mentions it, unless it has escaped.
        let touched = || {
            let own = reach.globals.iter().filter_map(|at| symbols.get(at));
            own.chain(&everywhere).cloned().collect()
        };
        uses.kernels.insert(name(kernel), known.then(touched));
        uses.ties.insert(
            name(kernel),
            gpu_dependence::of(&graph, &reach, known, &everywhere, &symbols),
        );
    }
    uses
}

/// Whether a global can change, and keeps what it holds from launch to launch.
fn is_variable(global: LLVMValueRef) -> bool {
    let changes = llvm!(LLVMIsGlobalConstant(global)) == 0 || llvm!(LLVMIsExternallyInitialized(global)) != 0;
    let shared = address_space(global) == 3;
    // Null if it is not defined; clang declares `threadIdx` and the like so, for `this`.
    let is_weak = llvm!(LLVMGetLinkage(global)) == LLVMLinkage::LLVMExternalWeakLinkage;
    changes && !shared && !is_weak && !name(global).starts_with("llvm.")
}

/// Whether a function's body is here, or is known to touch no variable by itself.
fn is_known(function: LLVMValueRef) -> bool {
    let name = name(function);
    !is_declaration(function) || name.starts_with("llvm.") || name.starts_with("__nv_") || is_of_system(&name)
}

/// The texts of all inline assembly, which may name a variable.
fn assembly(module: LLVMModuleRef) -> Vec<String> {
    let mut length = 0;
    // SAFETY: LLVM gives address and length of a string that the module owns.
    let mut texts = vec![unsafe { text_of(LLVMGetModuleInlineAsm(module, &mut length), length) }];
    let mut seen = HashSet::new();
    for call in defined_functions(module)
        .into_iter()
        .flat_map(instructions)
        .filter(|&at| is_call(at))
    {
        let callee = llvm!(LLVMGetCalledValue(call));
        if !llvm!(LLVMIsAInlineAsm(callee)).is_null() && seen.insert(callee) {
            let mut length = 0;
            // SAFETY: LLVM gives address and length of a string that the context owns.
            texts.push(unsafe { text_of(LLVMGetInlineAsmAsmString(callee, &mut length), length) });
        }
    }
    texts
}

/// What was found out about one variable.
#[derive(Default)]
struct VariableUses {
    writes: bool,
    escapes: bool,
}

impl VariableUses {
    fn follow(&mut self, variable: LLVMValueRef) {
        let mut seen = HashSet::from([variable]);
        let mut waiting = vec![variable];
        while let Some(address) = waiting.pop() {
            for user in users(address) {
                let more = if is_instruction(user) {
                    self.instruction(address, user)
                } else {
                    self.constant(user)
                };
                waiting.extend(more.into_iter().filter(|&one| seen.insert(one)));
            }
        }
    }

    /// A constant that mentions the address: an expression, or the first value of another global.
    fn constant(&mut self, user: LLVMValueRef) -> Vec<LLVMValueRef> {
        if !llvm!(LLVMIsAConstantExpr(user)).is_null() {
            return vec![user];
        }
        // Lists such as `llvm.used` hold addresses in arrays.
        let is_list = |at: LLVMValueRef| matches!(name(at).as_str(), "llvm.used" | "llvm.compiler.used");
        let holders = users(user);
        let is_kept = llvm!(LLVMIsAGlobalVariable(user)).is_null()
            && !holders.is_empty()
            && holders.into_iter().all(is_list);
        self.escapes |= !is_kept;
        Vec::new()
    }

    /// What an instruction does with the address; the values that hold it from there on.
    fn instruction(&mut self, address: LLVMValueRef, user: LLVMValueRef) -> Vec<LLVMValueRef> {
        let operand = |at| llvm!(LLVMGetOperand(user, at));
        match opcode(user) {
            LLVMOpcode::LLVMGetElementPtr
            | LLVMOpcode::LLVMBitCast
            | LLVMOpcode::LLVMAddrSpaceCast
            | LLVMOpcode::LLVMPHI
            | LLVMOpcode::LLVMSelect
            | LLVMOpcode::LLVMFreeze => return vec![user],
            LLVMOpcode::LLVMICmp | LLVMOpcode::LLVMLoad => {}
            LLVMOpcode::LLVMStore if operand(0) != address => self.writes = true,
            LLVMOpcode::LLVMStore => return self.kept_in(operand(1)),
            LLVMOpcode::LLVMAtomicRMW if operand(1) != address => self.writes = true,
            LLVMOpcode::LLVMAtomicCmpXchg if operand(1) != address && operand(2) != address => {
                self.writes = true;
            }
            LLVMOpcode::LLVMCall => return self.call(address, user),
            _ => self.escapes = true,
        }
        Vec::new()
    }

    /// The address is stored: into a local variable it is followed to where that is read.
    fn kept_in(&mut self, place: LLVMValueRef) -> Vec<LLVMValueRef> {
        let is_cast = |at| {
            is_instruction(at)
                && matches!(
                    opcode(at),
                    LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast
                )
        };
        let mut variable = place;
        while is_cast(variable) {
            variable = llvm!(LLVMGetOperand(variable, 0));
        }
        if !is_instruction(variable) || opcode(variable) != LLVMOpcode::LLVMAlloca {
            self.escapes = true;
            return Vec::new();
        }
        let (mut loads, mut names) = (Vec::new(), vec![variable]);
        while let Some(local) = names.pop() {
            for user in users(local) {
                match opcode(user) {
                    LLVMOpcode::LLVMLoad if kind(llvm!(LLVMTypeOf(user))) == POINTER => loads.push(user),
                    LLVMOpcode::LLVMStore if llvm!(LLVMGetOperand(user, 0)) != local => {}
                    _ if is_cast(user) => names.push(user),
                    LLVMOpcode::LLVMCall if is_marker(user) => {}
                    _ => self.escapes = true,
                }
            }
        }
        loads
    }

    fn call(&mut self, address: LLVMValueRef, call: LLVMValueRef) -> Vec<LLVMValueRef> {
        let Some(callee) = callee(call) else {
            self.escapes = true;
            return Vec::new();
        };
        let arguments = operands(call);
        let given = |at: usize| arguments[at] == address;
        let name = name(callee);
        if is_marker(call) {
            return Vec::new();
        }
        if name.starts_with("llvm.") {
            // Intrinsics keep no address; some return the one they are given.
            let is_copy = name.starts_with("llvm.memcpy.") || name.starts_with("llvm.memmove.");
            let only_reads = (is_copy && !given(0))
                || name.starts_with("llvm.nvvm.ldg.")
                || name.starts_with("llvm.nvvm.ldu.");
            self.writes |= !only_reads;
            let hands_on = kind(llvm!(LLVMTypeOf(call))) == POINTER;
            return hands_on.then_some(call).into_iter().collect();
        }
        let parameters = parameters(callee);
        if is_declaration(callee) || parameters.len() + 1 != arguments.len() {
            self.escapes = true;
            return Vec::new();
        }
        let taken = parameters.into_iter().enumerate().filter(|&(at, _)| given(at));
        taken.map(|(_, parameter)| parameter).collect()
    }
}

const POINTER: LLVMTypeKind = LLVMTypeKind::LLVMPointerTypeKind;

/// Whether a call is a marker that does not access memory.
fn is_marker(call: LLVMValueRef) -> bool {
    const MARKERS: [&str; 3] = ["llvm.lifetime.", "llvm.dbg.", "llvm.assume"];
    let name = callee(call).map(name).unwrap_or_default();
    MARKERS.iter().any(|marker| name.starts_with(marker))
}

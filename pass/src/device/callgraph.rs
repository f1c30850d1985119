//! The call graph of a module: which functions each function reaches, and which globals they use.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;

/// What one function does by itself.
#[derive(Default)]
struct FunctionEffects {
    calls: HashSet<LLVMValueRef>,
    uses: HashSet<LLVMValueRef>,
    calls_pointer: bool,
    /// It uses the address of a function otherwise than to call it.
    takes_function: bool,
}

/// The calls of a module.
pub struct CallGraph {
    nodes: HashMap<LLVMValueRef, FunctionEffects>,
    /// Functions whose address is taken: where a call through a pointer may go.
    taken: HashSet<LLVMValueRef>,
}

/// What a function can reach.
pub struct Reach {
    /// Itself and the functions that it may call, directly or not; declarations too.
    pub functions: HashSet<LLVMValueRef>,
    /// The global variables that those use.
    pub globals: HashSet<LLVMValueRef>,
    /// Whether a call through a pointer is among the calls.
    pub calls_pointer: bool,
}

impl CallGraph {
    /// Reads a module.
    pub fn new(module: LLVMModuleRef) -> Self {
        let mut graph = Self {
            nodes: HashMap::new(),
            taken: HashSet::new(),
        };
        let mut globals_of = HashMap::new();
        for function in functions(module) {
            let mut node = FunctionEffects::default();
            let ours = string_attribute(function, "softgpu-runtime").is_some();
            for instruction in instructions(function) {
                let callee = is_call(instruction).then(|| llvm!(LLVMGetCalledValue(instruction)));
                match callee {
                    Some(callee) if is_function(callee) => {
                        node.calls.insert(callee);
                    }
                    // The services of the software GPU are no code of the program's.
                    Some(_) if ours => {}
                    Some(callee) => node.calls_pointer |= llvm!(LLVMIsAInlineAsm(callee)).is_null(),
                    None => {}
                }
                let passed = operands(instruction);
                let passed = if callee.is_some() {
                    &passed[..passed.len() - 1]
                } else {
                    &passed[..]
                };
                for &operand in passed {
                    let found = globals_of.entry(operand).or_insert_with(|| mentioned(operand));
                    for &global in &*found {
                        if is_function(global) {
                            node.takes_function = true;
                            graph.taken.insert(global);
                        } else {
                            node.uses.insert(global);
                        }
                    }
                }
            }
            graph.nodes.insert(function, node);
        }
        for global in globals(module)
            .into_iter()
            .filter(|&global| !is_declaration(global))
        {
            let found = mentioned(llvm!(LLVMGetInitializer(global)));
            graph
                .taken
                .extend(found.into_iter().filter(|&found| is_function(found)));
        }
        graph
    }

    /// The functions whose addresses are taken: where a call through a pointer may go.
    pub fn taken(&self) -> impl Iterator<Item = LLVMValueRef> {
        self.taken.iter().copied()
    }

    /// Whether what was reached uses addresses of functions, or globals that hold some.
    pub fn gives_functions(&self, reach: &Reach) -> bool {
        let takes = |function| self.nodes.get(function).is_some_and(|node| node.takes_function);
        let holds = |global: &&LLVMValueRef| {
            !is_declaration(**global)
                && mentioned(llvm!(LLVMGetInitializer(**global)))
                    .into_iter()
                    .any(is_function)
        };
        reach.functions.iter().any(takes) || reach.globals.iter().any(|global| holds(&global))
    }

    /// What `start` can reach.
    pub fn reach(&self, start: LLVMValueRef) -> Reach {
        let mut reach = Reach {
            functions: HashSet::new(),
            globals: HashSet::new(),
            calls_pointer: false,
        };
        let mut waiting = vec![start];
        while let Some(function) = waiting.pop() {
            if !reach.functions.insert(function) {
                continue;
            }
            let Some(node) = self.nodes.get(&function) else {
                continue;
            };
            waiting.extend(&node.calls);
            reach.globals.extend(&node.uses);
            if node.calls_pointer && !reach.calls_pointer {
                reach.calls_pointer = true;
                waiting.extend(&self.taken);
            }
        }
        reach
    }
}

/// Whether a function is one of CUDA's own that touches no variable of a program.
pub fn is_of_system(name: &str) -> bool {
    const KNOWN: [&str; 5] = ["malloc", "free", "vprintf", "__assertfail", "__nvvm_reflect"];
    KNOWN.contains(&name)
}

/// The globals that a constant mentions; none for other values.
pub fn mentioned(value: LLVMValueRef) -> Vec<LLVMValueRef> {
    let mut found = Vec::new();
    let (mut seen, mut waiting) = (HashSet::new(), vec![value]);
    while let Some(value) = waiting.pop() {
        if value.is_null() || llvm!(LLVMIsAConstant(value)).is_null() || !seen.insert(value) {
            continue;
        }
        if llvm!(LLVMIsAGlobalValue(value)).is_null() {
            waiting.extend(operands(value));
        } else {
            found.push(value);
        }
    }
    found
}

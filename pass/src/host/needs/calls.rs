//! Calls: which of them surely return, and which leave the pointers of others alone.
//!
//! A read may be moved up past a call only if the call surely returns: a function that ends the process,
//! throws or jumps away may be how the program guards the read. A read through a pointer or an index that is
//! itself read early also needs that pointer or index to be what it will be later, which a call of an unknown
//! function may change.
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::LLVMOpcode;

use crate::host::collect::{Callee, Collected};
use crate::host::ir::{BasicBlock, Value, helpers, memory};

/// Functions that LLVM knows from the libraries and that do not return.
const ENDING: [&str; 4] = ["abort", "exit", "_ZSt9terminatev", "__cxa_throw"];

/// Functions of the libraries that return, write only through their arguments, and are not among LLVM's.
const RETURNING: [&str; 20] = [
    "__isoc23_fscanf",
    "__isoc23_scanf",
    "__isoc23_sscanf",
    "__isoc23_strtol",
    "__isoc99_fscanf",
    "__isoc99_scanf",
    "__isoc99_sscanf",
    "clock",
    "clock_gettime",
    "drand48",
    "getpid",
    "lrand48",
    "omp_get_wtime",
    "rand",
    "rand_r",
    "sleep",
    "srand",
    "srand48",
    "time",
    "usleep",
];

/// The inserters and manipulators of `std::ostream`, and the clocks of `std::chrono`.
const RETURNING_PREFIXES: [&str; 6] = [
    "_ZNSolsE",
    "_ZNSo3put",
    "_ZNSo5flush",
    "_ZNSo9_M_insert",
    "_ZStls",
    "_ZNSt6chrono",
];

/// What is known of the calls of a module.
pub struct ModuleCalls<'a> {
    collected: &'a Collected,
    known: RefCell<HashMap<Value, FunctionFacts>>,
}

/// What is known of a function.
#[derive(Clone, Copy, Default)]
struct FunctionFacts {
    /// It surely returns to its caller.
    returns: bool,
    /// It stores no pointer but to variables of its own, and calls nothing that may.
    keeps_pointers: bool,
}

impl FunctionFacts {
    const ALL: Self = Self {
        returns: true,
        keeps_pointers: true,
    };
}

impl<'a> ModuleCalls<'a> {
    /// Of a module.
    pub fn new(collected: &'a Collected) -> Self {
        Self {
            collected,
            known: RefCell::default(),
        }
    }

    /// Whether a call surely returns, and does not throw.
    pub fn returns(&self, call: Value) -> bool {
        self.of_call(call).returns
    }

    /// Whether a call leaves every pointer in memory as it is, except through the arguments that it is given.
    pub fn keeps_pointers(&self, call: Value) -> bool {
        self.of_call(call).keeps_pointers
    }

    fn of_call(&self, call: Value) -> FunctionFacts {
        match self.collected.callee(call) {
            _ if call.is_marker() => FunctionFacts::ALL,
            Some(Callee::Runtime(_) | Callee::Stub(_)) => FunctionFacts::ALL,
            Some(Callee::Other(function)) => {
                let known = self.of_function(function);
                FunctionFacts {
                    returns: known.returns || helpers::surely_returns(call),
                    ..known
                }
            }
            Some(Callee::Unknown) | None => FunctionFacts::default(),
        }
    }

    fn of_function(&self, function: Value) -> FunctionFacts {
        if let Some(&known) = self.known.borrow().get(&function) {
            return known;
        }
        // A function that calls itself is not known to return.
        self.known.borrow_mut().insert(function, FunctionFacts::default());
        let known = if function.is_declaration() {
            of_declaration(function)
        } else if self.collected.is_fixed(function) {
            self.of_body(function)
        } else {
            FunctionFacts::default()
        };
        self.known.borrow_mut().insert(function, known);
        known
    }

    /// What the instructions of a function say that control may come to.
    fn of_body(&self, function: Value) -> FunctionFacts {
        let mut known = FunctionFacts::ALL;
        let mut seen = HashSet::new();
        let mut queue: Vec<BasicBlock> = function.blocks().take(1).collect();
        while let Some(block) = queue.pop() {
            if !seen.insert(block) {
                continue;
            }
            for one in block.instructions() {
                let of_one = self.of_instruction(one);
                known.returns &= of_one.returns;
                known.keeps_pointers &= of_one.keeps_pointers;
            }
            match block.terminator() {
                // It does not throw.
                Some(last) if last.is(LLVMOpcode::LLVMInvoke) && self.returns(last) => {
                    queue.push(last.normal_successor());
                }
                _ => queue.extend(block.successors()),
            }
        }
        known
    }

    fn of_instruction(&self, one: Value) -> FunctionFacts {
        let (returns, keeps_pointers) = match one.opcode() {
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => return self.of_call(one),
            Some(LLVMOpcode::LLVMUnreachable | LLVMOpcode::LLVMResume) => (false, true),
            Some(LLVMOpcode::LLVMCallBr) => (false, false),
            Some(LLVMOpcode::LLVMStore) => {
                let is_own = memory::address(one.operand(1)).0.is(LLVMOpcode::LLVMAlloca);
                (true, is_own || !one.operand(0).ty().is_pointer())
            }
            _ => (true, true),
        };
        FunctionFacts {
            returns,
            keeps_pointers,
        }
    }
}

/// What is known of a function without a body here: of one of the libraries', that it returns and writes only
/// through its arguments. Of an intrinsic, the attributes of its calls say whether it returns.
fn of_declaration(function: Value) -> FunctionFacts {
    let name = function.name();
    let name = name.as_str();
    let is_intrinsic = name.starts_with("llvm.");
    let returns = RETURNING.contains(&name)
        || RETURNING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || (!ENDING.contains(&name) && helpers::is_library_function(function));
    FunctionFacts {
        returns: returns && !is_intrinsic,
        keeps_pointers: returns || is_intrinsic,
    }
}

//! Inlining: which functions are inlined into their callers because they work on device memory of the caller,
//! such as one that launches a kernel in a loop and measures the time, or because they return memory that
//! they allocate. Once inlined, their ops join the tasks of that memory.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};
use mgb_catalogue::{Class, RuntimeFunction, Treatment};

use crate::host::collect::{Callee, Collected};
use crate::host::ir::memory;
use crate::host::ir::{self, Value};
use crate::host::prepare::memory_flow;

/// The most instructions of a helper, as clang writes them without optimisation: a few launches each.
const LIMIT: usize = 600;
/// The most instructions of a helper that is called in one place only, and is dropped once it is inlined
/// there.
const LIMIT_OF_ONE_CALL: usize = 3_000;
/// The same for one that stays for other files, or that they may have as well, such as a template.
const LIMIT_OF_ONE_COPY: usize = 1_500;

/// The helpers of a module. `wrappers` are those functions that are inlined anyway.
pub fn find(collected: &Collected, wrappers: &HashSet<Value>) -> HashSet<Value> {
    let mut found: HashSet<Value> = HashSet::new();
    let candidates: Vec<Value> = ir::functions(collected.module)
        .filter(|&function| !collected.is_stub(function) && !wrappers.contains(&function))
        .filter(|&function| collected.is_fixed(function))
        .filter(|&function| {
            let limit = match once_called(function) {
                Some(LLVMLinkage::LLVMInternalLinkage) => LIMIT_OF_ONE_CALL,
                Some(_) => LIMIT_OF_ONE_COPY,
                None => LIMIT,
            };
            function.instructions().take(limit + 1).count() <= limit
        })
        .collect();
    let calls = InlineCallGraph::new(collected);
    let makers = makers(&calls, wrappers, &candidates);
    let mut keeping = keeping(collected, |one| {
        makers.contains(&one) || (wrappers.contains(&one) && calls.allocates(one))
    });
    calls.add_callers(&mut keeping);
    // A function that works only on objects of its own is analysed by itself.
    let joins_callers = |function: Value, found: &HashSet<Value>| {
        let launches = |one: Value| found.contains(&one) || (wrappers.contains(&one) && calls.works(one));
        makers.contains(&function)
            || keeping.contains(&function)
            || (is_given_pointers(function)
                && (!calls.allocates(function)
                    || calls.given.contains(&function)
                    || memory_flow::launches_on_given(collected, launches, function)))
    };
    // Helpers of helpers, until there are no more.
    loop {
        let before = found.len();
        for &function in &candidates {
            let works = makers.contains(&function)
                || keeping.contains(&function)
                || calls.touches(function)
                || calls.of(function).any(|callee| {
                    found.contains(&callee) || (wrappers.contains(&callee) && calls.works(callee))
                });
            if works
                && joins_callers(function, &found)
                && !calls.anchors(function)
                && !calls.reaches_itself(function)
            {
                found.insert(function);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The candidates that return memory which they, or other makers, allocate.
fn makers(calls: &InlineCallGraph, wrappers: &HashSet<Value>, candidates: &[Value]) -> HashSet<Value> {
    let mut found: HashSet<Value> = HashSet::new();
    loop {
        let allocates =
            |one: Value| found.contains(&one) || (wrappers.contains(&one) && calls.allocates(one));
        let more: Vec<Value> = candidates
            .iter()
            .copied()
            .filter(|one| !found.contains(one) && memory_flow::hands_out(calls.collected, allocates, *one))
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// The functions of a whole program that use globals in which device memory is kept: inlined into `main`, if
/// they can be, what they do can be followed. `allocators` are functions that allocate.
fn keeping(collected: &Collected, allocators: impl Fn(Value) -> bool) -> HashSet<Value> {
    let is_main = |function: &Value| function.name() == "main" && !function.is_declaration();
    if !ir::functions(collected.module).any(|function| is_main(&function)) {
        return HashSet::new();
    }
    let is_alone = ir::is_alone(collected.module);
    let is_filled = |user: &Value, global: Value| {
        // An element that is chosen at run time.
        let mut users = vec![*user];
        if user.is(LLVMOpcode::LLVMGetElementPtr) {
            users = user.users();
        }
        users.into_iter().any(|user| {
            let allocates = match collected.callee(user) {
                Some(Callee::Runtime(entry)) => entry.class == Class::Alloc,
                Some(Callee::Other(function)) => allocators(function),
                _ => false,
            };
            let mut given = user.arguments().filter(|argument| argument.ty().is_pointer());
            allocates && given.any(|argument| memory::address(argument).0 == global)
        })
    };
    ir::globals(collected.module)
        .filter(|&global| memory::is_kept_here(global, || is_alone))
        .filter_map(|global| Some((global, memory::users_of_global(global)?)))
        .filter(|(global, users)| users.iter().any(|user| is_filled(user, *global)))
        .flat_map(|(_, users)| users)
        .map(|user| user.block().function())
        .collect()
}

/// The linkage of a function that is called in one place only.
fn once_called(function: Value) -> Option<LLVMLinkage> {
    let linkage = function.linkage();
    let users = function.users();
    let is_once = users.len() == 1 && users.iter().all(|user| user.callee() == Some(function));
    is_once.then_some(linkage)
}

fn is_given_pointers(function: Value) -> bool {
    function.parameters().any(|parameter| parameter.ty().is_pointer())
}

/// The call graph of the module, and what each function does to the GPU by itself.
struct InlineCallGraph<'a> {
    collected: &'a Collected,
    callees: HashMap<Value, Vec<Value>>,
    /// Those that are given functions.
    given: HashSet<Value>,
}

impl<'a> InlineCallGraph<'a> {
    fn new(collected: &'a Collected) -> Self {
        let mut callees: HashMap<Value, Vec<Value>> = HashMap::new();
        let mut given: HashSet<Value> = HashSet::new();
        for function in ir::functions(collected.module).filter(|one| !one.is_declaration()) {
            for call in function.instructions() {
                let Some(Callee::Other(callee)) = collected.callee(call) else {
                    continue;
                };
                if callee.is_declaration() {
                    continue;
                }
                callees.entry(function).or_default().push(callee);
                // One that is given functions may call them.
                let functions = call
                    .arguments()
                    .filter(|one| one.is_function() && !one.is_declaration());
                for called in functions {
                    callees.entry(callee).or_default().push(called);
                    given.insert(callee);
                }
            }
        }
        Self {
            collected,
            callees,
            given,
        }
    }

    fn of(&self, function: Value) -> impl Iterator<Item = Value> {
        self.callees.get(&function).into_iter().flatten().copied()
    }

    /// Every function that a call of this one may run, itself only if it can be called again meanwhile.
    fn reached(&self, function: Value) -> HashSet<Value> {
        let mut reached = HashSet::new();
        let mut next: Vec<Value> = self.of(function).collect();
        while let Some(one) = next.pop() {
            if reached.insert(one) {
                next.extend(self.of(one));
            }
        }
        reached
    }

    /// Adds the functions that call one of these, and their callers.
    fn add_callers(&self, functions: &mut HashSet<Value>) {
        loop {
            let calls_one = |one: &&Value| self.of(**one).any(|callee| functions.contains(&callee));
            let callers = self.callees.keys().filter(|one| !functions.contains(one));
            let more: Vec<Value> = callers.filter(calls_one).copied().collect();
            if more.is_empty() {
                return;
            }
            functions.extend(more);
        }
    }

    fn reaches_itself(&self, function: Value) -> bool {
        self.reached(function).contains(&function)
    }

    /// Whether it launches, copies, sets or frees.
    fn touches(&self, function: Value) -> bool {
        function
            .instructions()
            .any(|one| match self.collected.callee(one) {
                Some(Callee::Stub(_)) => true,
                Some(Callee::Runtime(entry)) => {
                    matches!(
                        entry.class,
                        Class::Copy | Class::Set | Class::Launch | Class::Free
                    )
                }
                _ => false,
            })
    }

    /// Whether it, or what it calls, launches, copies, sets or frees.
    fn works(&self, function: Value) -> bool {
        self.touches(function) || self.reached(function).into_iter().any(|one| self.touches(one))
    }

    /// Whether it, or what it calls, allocates.
    fn allocates(&self, function: Value) -> bool {
        self.does(function, |entry| entry.class == Class::Alloc)
    }

    /// Whether it, or a function that it calls, anchors a function to one GPU: its tasks are then better kept
    /// apart.
    fn anchors(&self, function: Value) -> bool {
        self.does(function, |entry| entry.treatment == Treatment::Anchors)
    }

    /// Whether it, or what it calls, calls such a function of the runtime.
    fn does(&self, function: Value, what: impl Fn(&RuntimeFunction) -> bool) -> bool {
        let does = |function: Value| {
            let mut entries = function
                .instructions()
                .filter_map(|one| self.collected.entry(one));
            entries.any(&what)
        };
        does(function) || self.reached(function).into_iter().any(does)
    }
}

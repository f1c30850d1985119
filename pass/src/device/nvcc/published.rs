//! Which kernels may keep an address that they are given, from PTX: the rules of `escape` for a whole module.
//!
//! PTX has no pointers, only numbers of 64 bits. A parameter of that size counts as an address where the host's
//! stub does not say that it is a number. Of a structure, each eight bytes that are read as one number, or as
//! several that cover them, count as one.
use std::collections::{HashMap, HashSet};

use super::flow::ModuleNames;
use super::ptx::{Instruction, Operand, PtxFunction, PtxModule};
use crate::device::callgraph;
use crate::device::escape::given::{GivenAddress, Published, published};
use crate::device::escape::ptx::{AssemblyOperand, bytes_of};
use crate::device::escape::set::Token;
use crate::device::escape::solve::{EscapeRule, MemoryId, Solver, ValueId};

/// The bytes of an address.
const ADDRESS: i64 = 8;

/// What the kernels of a module may keep. `is_number` says of a kernel's parameter, from 0, that the host knows
/// it to be no address.
pub fn of_module(module: &PtxModule, is_number: impl Fn(&str, usize) -> bool) -> Published {
    let names = ModuleNames::new(module);
    let kernels = (0..module.functions.len()).filter(|&at| module.functions[at].is_kernel);
    // Apart, so that what may call anything opens nothing to others.
    let (open, closed): (Vec<Reached>, Vec<Reached>) = kernels
        .map(|at| Reached::new(module, &names, at))
        .partition(|one| one.is_open);
    let mut all = Published::new();
    for kernels in [open, closed].iter().filter(|kernels| !kernels.is_empty()) {
        let symbols = kernels
            .iter()
            .map(|one| module.functions[one.kernel].name.to_owned());
        let (given, solver) = PublishedReader::read(module, &names, kernels, &is_number);
        all.extend(published(symbols, &given, solver));
    }
    all
}

/// A kernel, and what it reaches, by their numbers.
struct Reached {
    kernel: usize,
    functions: HashSet<usize>,
    /// Whether code that is not seen may run in it.
    is_open: bool,
}

impl Reached {
    fn new(module: &PtxModule, names: &ModuleNames, kernel: usize) -> Self {
        let (mut functions, mut waiting) = (HashSet::from([kernel]), vec![kernel]);
        let mut is_open = false;
        while let Some(at) = waiting.pop() {
            let calls = module.functions[at].instructions.iter();
            for call in calls.filter(|one| one.opcode[0] == "call") {
                match names.callee(call) {
                    Some(callee) => {
                        is_open |= is_opaque(&module.functions[callee]);
                        waiting.extend(Some(callee).filter(|&one| functions.insert(one)));
                    }
                    None => {
                        is_open = true;
                        let all = 0..module.functions.len();
                        waiting.extend(all.filter(|&one| functions.insert(one)));
                    }
                }
            }
        }
        Self {
            kernel,
            functions,
            is_open,
        }
    }
}

/// Whether what a call of this function does is not seen.
fn is_opaque(function: &PtxFunction) -> bool {
    function.passes_registers || (!function.is_defined && !callgraph::is_of_system(function.name))
}

struct PublishedReader<'m, 'a> {
    module: &'m PtxModule<'a>,
    names: &'m ModuleNames<'m>,
    solver: Solver,
    /// Registers, by their function.
    nodes: HashMap<(usize, &'m str), ValueId>,
    /// Parameters, those of calls too.
    places: HashMap<(usize, &'m str), MemoryId>,
    /// Variables in shared and local memory, by their function; outside of functions by none.
    memories: HashMap<(Option<usize>, &'m str), MemoryId>,
    /// All shared memory whose size the launch gives: it lies at one address.
    dynamic: Option<MemoryId>,
    given: Vec<GivenAddress>,
}

impl<'m, 'a> PublishedReader<'m, 'a> {
    /// The addresses that these kernels are given, and the rules of all that they reach.
    fn read(
        module: &'m PtxModule<'a>,
        names: &'m ModuleNames<'m>,
        kernels: &[Reached],
        is_number: &impl Fn(&str, usize) -> bool,
    ) -> (Vec<GivenAddress>, Solver) {
        let mut reader = Self {
            module,
            names,
            solver: Solver::default(),
            nodes: HashMap::new(),
            places: HashMap::new(),
            memories: HashMap::new(),
            dynamic: None,
            given: Vec::new(),
        };
        let mut owners = Vec::new();
        for one in kernels {
            reader.given(one.kernel, is_number);
            owners.resize(reader.given.len(), one);
        }
        let is_open = kernels.iter().any(|one| one.is_open);
        for (at, function) in module.functions.iter().enumerate() {
            if !kernels.iter().any(|one| one.functions.contains(&at)) {
                continue;
            }
            let sees = owners.iter().map(|owner| owner.functions.contains(&at));
            reader.solver.scope(sees.collect());
            if is_open && !function.is_kernel {
                reader.enter_from_elsewhere(at);
            }
            for instruction in &function.instructions {
                reader.instruction(at, instruction);
            }
        }
        if is_open {
            reader.solver.scope(Vec::new());
            reader.open_memories();
        }
        (reader.given, reader.solver)
    }

    /// The addresses that a kernel is given.
    fn given(&mut self, at: usize, is_number: &impl Fn(&str, usize) -> bool) {
        let kernel = &self.module.functions[at];
        for (number, name) in kernel.parameters.iter().enumerate() {
            let place = self.place(at, name);
            self.solver.fill(place, None, Token::Unknown);
            let offsets = match kernel.structures.get(name) {
                Some(&bytes) => addresses_in(kernel, name, bytes),
                None if is_number(kernel.name, number) => Vec::new(),
                None => vec![0],
            };
            if offsets.is_empty() {
                continue;
            }
            let token = Token::Address(self.given.len() as u32);
            for offset in offsets {
                self.solver.fill(place, Some((offset, offset + ADDRESS)), token);
            }
            self.given.push(GivenAddress {
                kernel: kernel.name.to_owned(),
                parameter: (number + 1, String::new()),
            });
        }
    }

    /// A function that code which is not seen may call: with anything, and it gets the result.
    fn enter_from_elsewhere(&mut self, at: usize) {
        let function = &self.module.functions[at];
        for name in &function.parameters {
            let place = self.place(at, name);
            self.solver.fill(place, None, Token::Unknown);
        }
        let how = self.solver.way("gives it to code that is not known");
        for name in &function.results {
            let from = self.place(at, name);
            self.solver.rule(EscapeRule::PublishAll { from, how });
        }
    }

    fn open_memories(&mut self) {
        let how = self
            .solver
            .way("leaves it in shared memory to code that is not known");
        let all: Vec<MemoryId> = self.memories.values().copied().chain(self.dynamic).collect();
        for place in all {
            let from = self.solver.node();
            self.solver.hold(from, Token::anywhere(place));
            self.solver.rule(EscapeRule::Expose { from, how });
        }
    }

    fn place(&mut self, at: usize, name: &'m str) -> MemoryId {
        let solver = &mut self.solver;
        *self.places.entry((at, name)).or_insert_with(|| solver.place())
    }

    /// The memory of a variable in shared or local memory.
    fn memory(&mut self, at: usize, name: &'m str) -> Option<MemoryId> {
        let key = match self.module.functions[at].memories.contains(name) {
            true => (Some(at), name),
            false => (None, name),
        };
        let outside = self.module.memories.iter().find(|(one, _)| *one == name);
        let is_dynamic = match (key.0, outside) {
            (None, None) => return None,
            (None, Some((_, is_extern))) => *is_extern,
            (Some(_), _) => false,
        };
        if let Some(&known) = self.memories.get(&key) {
            return Some(known);
        }
        let place = match (is_dynamic, self.dynamic) {
            (true, Some(place)) => place,
            _ => self.solver.place(),
        };
        if is_dynamic {
            self.dynamic = Some(place);
        }
        self.memories.insert(key, place);
        Some(place)
    }

    /// What stands for a name in an operand: a register, or the address of something.
    fn node(&mut self, at: usize, name: &'m str) -> ValueId {
        let function = &self.module.functions[at];
        if function.places.contains(name) {
            let (place, node) = (self.place(at, name), self.solver.node());
            self.solver.hold(node, Token::Local(place, 0, 0));
            return node;
        }
        if let Some(place) = self.memory(at, name) {
            let node = self.solver.node();
            self.solver.hold(node, Token::Local(place, 0, 0));
            return node;
        }
        let is_outside = self.module.variables.iter().any(|one| one.name == name)
            || self.module.functions.iter().any(|one| one.name == name);
        if is_outside {
            return self.solver.unknown();
        }
        let solver = &mut self.solver;
        *self.nodes.entry((at, name)).or_insert_with(|| solver.node())
    }

    /// A parameter that is named directly, and the offset in it.
    fn named_place(&mut self, at: usize, operand: &'m Operand) -> Option<(MemoryId, i64)> {
        match operand.names.as_slice() {
            [name] if self.module.functions[at].places.contains(name) => {
                Some((self.place(at, name), operand.number?))
            }
            _ => None,
        }
    }

    fn instruction(&mut self, at: usize, one: &'m Instruction) {
        let is_of_parameter = one.opcode.get(1).is_some_and(|part| part.starts_with("param"));
        let size = bytes_of(&one.opcode);
        match (one.opcode[0], one.operands.as_slice(), size) {
            ("call", ..) => return self.call(at, one),
            ("ld", [results, address, ..], Some(size)) if is_of_parameter => {
                if let Some((from, offset)) = self.named_place(at, address) {
                    for (number, name) in results.names.iter().enumerate() {
                        let (to, at) = (self.node(at, name), offset + size * number as i64);
                        self.solver.rule(EscapeRule::Extract { to, from, at, size });
                    }
                    return;
                }
            }
            ("st", [address, values @ ..], Some(size)) if is_of_parameter => {
                if let Some((to, offset)) = self.named_place(at, address) {
                    // A number between names has no name, so that what is behind it may lie at any offset.
                    let names = values.iter().flat_map(|one| &one.names).enumerate();
                    let count = values.iter().map(|one| one.names.len()).sum::<usize>() as i64;
                    for (number, name) in names {
                        let from = self.node(at, name);
                        let (at, size) = match parts_of(one) {
                            parts if parts == count => (offset + size * number as i64, size),
                            parts => (offset, size * parts),
                        };
                        self.solver.rule(EscapeRule::Insert { to, at, size, from });
                    }
                    return;
                }
            }
            _ => {}
        }
        let operands: Vec<AssemblyOperand> = one
            .operands
            .iter()
            .map(|operand| self.part(at, operand))
            .collect();
        self.solver.instruction(&one.opcode, &operands);
    }

    fn part(&mut self, at: usize, operand: &'m Operand) -> AssemblyOperand {
        let nodes = operand.names.iter().filter(|name| !name.is_empty());
        AssemblyOperand {
            nodes: nodes.map(|name| self.node(at, name)).collect(),
            is_address: operand.is_address,
            number: operand.number,
        }
    }

    fn call(&mut self, at: usize, call: &'m Instruction) {
        let callee = self.names.callee(call);
        let results = call.operands.first().filter(|first| first.is_list);
        let behind = call.operands.iter().skip_while(|operand| operand.is_list).skip(1);
        let arguments: Vec<&'m String> = behind
            .take_while(|one| one.is_list)
            .flat_map(|one| &one.names)
            .collect();
        let results: Vec<&'m String> = results.into_iter().flat_map(|one| &one.names).collect();
        let function = callee.map(|callee| &self.module.functions[callee]);
        match (callee, function) {
            (Some(callee), Some(function)) if function.is_defined && !is_opaque(function) => {
                for (argument, name) in arguments.into_iter().zip(&function.parameters) {
                    let to = self.place(callee, name);
                    self.pass(at, argument, to);
                }
                for (result, name) in results.into_iter().zip(&function.results) {
                    let (to, from) = (self.place(at, result), self.place(callee, name));
                    self.solver.rule(EscapeRule::InsertFrom { to, at: 0, from });
                }
            }
            (Some(_), Some(function)) if callgraph::is_of_system(function.name) => self.open(at, &results),
            _ => {
                let words = match function {
                    Some(function) => format!(
                        "passes it to {}, whose code is not known",
                        crate::device::helpers::demangle(function.name)
                    ),
                    None => "passes it to a function that it calls through a pointer".to_owned(),
                };
                let how = self.solver.way(&words);
                for argument in arguments {
                    let from = self.solver.place();
                    self.pass(at, argument, from);
                    self.solver.rule(EscapeRule::PublishAll { from, how });
                }
                self.open(at, &results);
                if function.is_none() {
                    self.any_result(at, &results);
                }
            }
        }
    }

    /// What is called through a pointer may give back what any function gives back.
    fn any_result(&mut self, at: usize, results: &[&'m String]) {
        for (callee, function) in self.module.functions.iter().enumerate() {
            for (result, name) in results.iter().zip(&function.results) {
                let (to, from) = (self.place(at, result), self.place(callee, name));
                self.solver.rule(EscapeRule::InsertFrom { to, at: 0, from });
            }
        }
    }

    /// A parameter of a call is given what an argument holds.
    fn pass(&mut self, at: usize, argument: &'m str, to: MemoryId) {
        if self.module.functions[at].places.contains(argument) {
            let from = self.place(at, argument);
            self.solver.rule(EscapeRule::InsertFrom { to, at: 0, from });
        } else if !argument.is_empty() {
            let from = self.node(at, argument);
            self.solver.rule(EscapeRule::Insert {
                to,
                at: 0,
                size: ADDRESS,
                from,
            });
        }
    }

    fn open(&mut self, at: usize, results: &[&'m String]) {
        for result in results {
            let place = self.place(at, result);
            self.solver.fill(place, None, Token::Unknown);
        }
    }
}

/// How many elements an instruction moves.
fn parts_of(one: &Instruction) -> i64 {
    let vector = one.opcode.iter().find_map(|part| match *part {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    });
    vector.unwrap_or(1)
}

/// Where a structure may hold addresses: where integers that cover eight bytes are read. Everywhere, if its
/// address is used otherwise.
fn addresses_in(kernel: &PtxFunction, name: &str, bytes: u64) -> Vec<i64> {
    let mut read = vec![false; bytes as usize];
    for one in &kernel.instructions {
        for (number, operand) in one.operands.iter().enumerate() {
            if !operand.names.iter().any(|one| one == name) {
                continue;
            }
            let is_read = one.opcode[0] == "ld" && number == 1 && one.opcode[1].starts_with("param");
            let size = bytes_of(&one.opcode);
            let (true, [_], Some(offset), Some(size)) = (is_read, &operand.names[..], operand.number, size)
            else {
                read.fill(true);
                continue;
            };
            if one.opcode.last().is_some_and(|ty| ty.starts_with('f')) {
                continue;
            }
            let end = offset + size * parts_of(one);
            let bytes = read.iter_mut().enumerate();
            bytes
                .filter(|(at, _)| (offset..end).contains(&(*at as i64)))
                .for_each(|(_, byte)| *byte = true);
        }
    }
    let whole = read.chunks_exact(ADDRESS as usize).enumerate();
    whole
        .filter(|(_, bytes)| bytes.iter().all(|&one| one))
        .map(|(at, _)| at as i64 * ADDRESS)
        .collect()
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;

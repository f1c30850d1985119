//! Where addresses of variables go in PTX, and what each kernel reaches.
//!
//! An address is followed through registers and parameters, whatever the order of the instructions: what may
//! hold it at some time counts as holding it. An instruction that is not known to keep nothing, given the
//! address of a variable, lets it escape; so does one that puts it into memory.
use std::collections::{BTreeSet, HashMap, HashSet};

use super::ptx::{Instruction, Operand, PtxFunction, PtxModule};

/// Instructions whose first operand is a result that the others make.
const COMPUTES: [&str; 32] = [
    "mov", "add", "sub", "mul", "mad", "mul24", "mad24", "fma", "cvta", "cvt", "selp", "slct", "shl", "shr",
    "shf", "and", "or", "xor", "not", "neg", "abs", "min", "max", "prmt", "bfe", "bfi", "lop3", "addc",
    "subc", "madc", "div", "rem",
];
/// Instructions that only compare.
const COMPARES: [&str; 4] = ["setp", "set", "isspacep", "testp"];
/// Instructions of textures and surfaces.
const TEXTURES: [&str; 9] = [
    "tex", "tld4", "suld", "sust", "sured", "suq", "txq", "istypep", "sulea",
];

/// The variables of a module, by their numbers.
type VariableSet = BTreeSet<usize>;

/// What is known of a module's variables and kernels.
#[derive(Default, Debug)]
pub struct Flow {
    /// The variables that are written through their addresses.
    pub written: VariableSet,
    /// The variables whose addresses go where they are not followed.
    pub escaped: VariableSet,
}

/// What a kernel reaches: itself and the functions that it calls, directly or not.
#[derive(Default, Debug)]
pub struct Reach<'a> {
    /// The variables that those mention.
    pub variables: VariableSet,
    /// The functions without a body among those.
    pub declared: BTreeSet<&'a str>,
    /// Whether one of them calls through a pointer.
    pub calls_pointer: bool,
    /// Whether one of them uses the address of a function, or a variable that holds some.
    pub gives_functions: bool,
    /// Whether one of them uses textures or surfaces.
    pub uses_textures: bool,
}

/// A module's names.
pub struct ModuleNames<'m> {
    variables: HashMap<&'m str, usize>,
    functions: HashMap<&'m str, usize>,
}

impl<'m> ModuleNames<'m> {
    /// Of a module.
    pub fn new(module: &'m PtxModule) -> Self {
        let variables = module.variables.iter().map(|one| one.name);
        let functions = module.functions.iter().map(|one| one.name);
        Self {
            variables: variables.zip(0..).collect(),
            functions: functions.zip(0..).collect(),
        }
    }

    /// The function that a call names; none of a call through a pointer.
    pub fn callee(&self, call: &Instruction) -> Option<usize> {
        let target = target(call)?;
        let [name] = target.names.as_slice() else {
            return None;
        };
        self.functions.get(name.as_str()).copied()
    }
}

fn target<'a>(call: &'a Instruction) -> Option<&'a Operand> {
    call.operands.iter().find(|operand| !operand.is_list)
}

/// Follows the addresses of all variables.
pub fn follow(module: &PtxModule) -> Flow {
    let names = ModuleNames::new(module);
    let mut flow = Flow::default();
    for variable in &module.variables {
        // An address in the first value of a variable is one in memory.
        let held = variable
            .mentions
            .iter()
            .filter_map(|name| names.variables.get(name));
        flow.escaped.extend(held);
    }
    let mut states: Vec<HashMap<&str, VariableSet>> = vec![HashMap::new(); module.functions.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (at, function) in module.functions.iter().enumerate() {
            let mut given = Vec::new();
            let mut state = FunctionFlow {
                names: &names,
                function,
                held: &mut states[at],
                flow: &mut flow,
                changed: false,
            };
            for instruction in &function.instructions {
                state.instruction(instruction, &mut given);
            }
            for name in &function.results {
                state.escape(&VariableSet::from_iter(state.of_name(name)));
            }
            changed |= state.changed;
            for (callee, position, set) in given {
                let known = &module.functions[callee];
                match known.parameters.get(position) {
                    Some(name) if known.is_defined => {
                        let held = states[callee].entry(name).or_default();
                        let before = held.len();
                        held.extend(&set);
                        changed |= held.len() != before;
                    }
                    _ => flow.escaped.extend(set),
                }
            }
        }
    }
    flow
}

/// A function while its instructions are looked at.
struct FunctionFlow<'s, 'm> {
    names: &'s ModuleNames<'m>,
    function: &'m PtxFunction<'m>,
    /// The variables whose addresses each register or parameter may hold.
    held: &'s mut HashMap<&'m str, VariableSet>,
    flow: &'s mut Flow,
    changed: bool,
}

impl<'m> FunctionFlow<'_, 'm> {
    fn of_name(&self, name: &str) -> VariableSet {
        let mut set = self.held.get(name).cloned().unwrap_or_default();
        set.extend(self.names.variables.get(name));
        set
    }

    fn of(&self, operands: &[Operand]) -> VariableSet {
        let names = operands.iter().flat_map(|operand| &operand.names);
        names.flat_map(|name| self.of_name(name)).collect()
    }

    fn escape(&mut self, set: &VariableSet) {
        self.flow.escaped.extend(set);
    }

    fn hold(&mut self, operand: &'m Operand, set: &VariableSet) {
        if set.is_empty() {
            return;
        }
        for name in &operand.names {
            let held = self.held.entry(name).or_default();
            let before = held.len();
            held.extend(set);
            self.changed |= held.len() != before;
        }
    }

    /// Whether an operand is the place of a parameter, named directly.
    fn is_place(&self, operand: &Operand) -> bool {
        matches!(operand.names.as_slice(), [name] if self.function.places.contains(name))
    }

    /// What one instruction does. `given` gets what calls are given: callee, position, variables.
    fn instruction(&mut self, one: &'m Instruction, given: &mut Vec<(usize, usize, VariableSet)>) {
        let operands = one.operands.as_slice();
        let is_of_parameter = one.opcode.get(1).is_some_and(|part| part.starts_with("param"));
        match (one.opcode[0], operands) {
            ("ld", [result, address, ..]) if is_of_parameter && self.is_place(address) => {
                self.hold(result, &self.of(std::slice::from_ref(address)));
            }
            ("st", [address, values @ ..]) if is_of_parameter && self.is_place(address) => {
                self.hold(address, &self.of(values));
            }
            ("call", _) => self.call(one, given),
            (opcode, _) => {
                // The address of a parameter's place: what is there may then be read and kept by it.
                for name in operands.iter().flat_map(|operand| &operand.names) {
                    if self.function.places.contains(name) {
                        self.escape(&self.of_name(name));
                    }
                }
                match operands {
                    // What is behind the address is a cache policy, at most.
                    [_, address, ..] if matches!(opcode, "ld" | "ldu") && address.is_address => {}
                    [address, values @ ..] if opcode == "st" && address.is_address => {
                        let written = self.of(std::slice::from_ref(address));
                        self.flow.written.extend(written);
                        self.escape(&self.of(values));
                    }
                    _ if matches!(opcode, "atom" | "red") => {
                        for operand in operands {
                            let set = self.of(std::slice::from_ref(operand));
                            match operand.is_address {
                                true => self.flow.written.extend(set),
                                false => self.escape(&set),
                            }
                        }
                    }
                    [result, sources @ ..] if COMPUTES.contains(&opcode) => {
                        self.hold(result, &self.of(sources));
                    }
                    _ if COMPARES.contains(&opcode) => {}
                    _ => self.escape(&self.of(operands)),
                }
            }
        }
    }

    fn call(&mut self, call: &'m Instruction, given: &mut Vec<(usize, usize, VariableSet)>) {
        let Some(callee) = self.names.callee(call) else {
            self.escape(&self.of(&call.operands));
            return;
        };
        let behind = call.operands.iter().skip_while(|operand| operand.is_list).skip(1);
        for (position, name) in behind.flat_map(|operand| &operand.names).enumerate() {
            let set = self.of_name(name);
            if !set.is_empty() {
                given.push((callee, position, set));
            }
        }
    }
}

/// What the function of that number reaches.
pub fn reach<'m>(module: &'m PtxModule, start: usize) -> Reach<'m> {
    let names = ModuleNames::new(module);
    let mut reach = Reach::default();
    let (mut seen, mut waiting) = (HashSet::from([start]), vec![start]);
    while let Some(at) = waiting.pop() {
        let function = &module.functions[at];
        if !function.is_defined {
            reach.declared.insert(function.name);
        }
        for instruction in &function.instructions {
            let callee = (instruction.opcode[0] == "call").then(|| names.callee(instruction));
            reach.calls_pointer |= callee == Some(None);
            reach.uses_textures |= TEXTURES.contains(&instruction.opcode[0]);
            let callee = callee.flatten();
            waiting.extend(callee.filter(|&callee| seen.insert(callee)));
            for name in instruction.operands.iter().flat_map(|operand| &operand.names) {
                reach.variables.extend(names.variables.get(name.as_str()));
                let function = names.functions.get(name.as_str());
                reach.gives_functions |= function.is_some_and(|function| Some(*function) != callee);
            }
        }
    }
    reach.gives_functions |= reach.variables.iter().any(|&at| {
        let mentions = &module.variables[at].mentions;
        mentions.iter().any(|name| names.functions.contains_key(name))
    });
    reach
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::nvcc::ptx;

    /// The variables `a`, `b` and `c`: which are written, which escape, and what the kernel reaches.
    fn look(code: &str) -> (String, String, String) {
        let text =
            format!(".target sm_90\n.global .u32 a; .global .u32 b; .const .u64 c = generic(b);\n{code}");
        let text = match code.contains("generic") {
            true => text,
            false => text.replace(" = generic(b)", ""),
        };
        let module = ptx::read(&text).unwrap();
        let flow = follow(&module);
        let kernel = module.functions.iter().position(|one| one.is_kernel).unwrap();
        let shown = |set: &VariableSet| {
            set.iter()
                .map(|&at| module.variables[at].name)
                .collect::<String>()
        };
        let reached = shown(&reach(&module, kernel).variables);
        (shown(&flow.written), shown(&flow.escaped), reached)
    }

    fn check(code: &str, written: &str, escaped: &str, reached: &str) {
        let found = look(code);
        let expected = (written.to_owned(), escaped.to_owned(), reached.to_owned());
        assert_eq!(found, expected, "{code}");
    }

    fn check_kernel(body: &str, written: &str, escaped: &str, reached: &str) {
        check(
            &format!(".entry k(.param .u64 p) {{ {body} }}"),
            written,
            escaped,
            reached,
        );
    }

    #[test]
    fn through_registers() {
        check_kernel("ld.const.u32 %r1, [c+4]; st.global.u32 [a], %r1;", "a", "", "ac");
        check_kernel(
            "mov.u64 %d1, a; add.s64 %d2, %d1, %d0; st.u32 [%d2+4], %r1;",
            "a",
            "",
            "a",
        );
        // A loop: the value comes from below.
        check_kernel(
            "L: st.u32 [%d2], %r1; mov.u64 %d2, %d1; mov.u64 %d1, b; bra L;",
            "b",
            "",
            "b",
        );
        check_kernel("mov.u64 %d1, a; atom.global.add.u32 %r1, [%d1], 1;", "a", "", "a");
        check_kernel("mov.u64 %d1, a; setp.eq.u64 %p1, %d1, 0; @%p1 ret;", "", "", "a");
        check_kernel(
            "mov.b64 {%r1, %r2}, a; mov.b64 %d1, {%r1, %r2}; red.add.u32 [%d1], 1;",
            "a",
            "",
            "a",
        );
    }

    #[test]
    fn what_lets_an_address_escape() {
        check_kernel("mov.u64 %d1, a; st.local.u64 [%d2], %d1;", "", "a", "a");
        check_kernel("mov.u64 %d1, a; shfl.sync.b32 %r1, %d1, 0, 0, 0;", "", "a", "a");
        check_kernel("atom.exch.b64 %d1, [%d2], a;", "", "a", "a");
        check_kernel("mov.u64 %d1, c; /* generic */", "", "b", "c");
        check_kernel("cp.async.ca.shared.global [%r1], [a], 4;", "", "a", "a");
    }

    #[test]
    fn through_calls() {
        let calls = |callee: &str, call: &str| format!("{callee} .entry k(.param .u64 p) {{ {call} }}");
        let gives =
            "{ .param .b64 p0; st.param.b64 [p0], a; call f, (p0); } { .param .b64 p0; call g, (p0); }";
        let writes = ".func f(.param .b64 q) { ld.param.u64 %d1, [q]; st.u32 [%d1], 1; }";
        let keeps = ".func g(.param .b64 q) { ld.param.u64 %d1, [q]; st.u64 [%d2], %d1; }";
        check(&calls(&format!("{writes} {keeps}"), gives), "a", "", "a");
        // By the address of the parameter, as what is returned, to what has no body, through a pointer.
        let by_address =
            ".func f(.param .b64 q) { mov.u64 %d1, q; ld.param.u64 %d2, [%d1]; } .func g(.param .b64 q);";
        check(&calls(by_address, gives), "", "a", "a");
        let returns = ".func (.param .b64 r) f() { st.param.b64 [r], b; ret; }";
        check(
            &calls(returns, "call (r0), f; ld.param.b64 %d1, [r0];"),
            "",
            "b",
            "b",
        );
        let returns = ".func (.reg .b64 r) f() { mov.b64 r, b; ret; }";
        check(&calls(returns, "call (%d1), f;"), "", "b", "b");
        check(
            &calls(".extern .func f(.param .b64 q); .func g(.param .b64 q);", gives),
            "",
            "a",
            "a",
        );
        check(
            &calls(
                "",
                "{ .param .b64 p0; st.param.b64 [p0], a; call %d1, (p0), proto; }",
            ),
            "",
            "a",
            "a",
        );
        check(
            &calls(".func f(.param .b64 q) { ret; } .alias h, f;", "call h, (a);"),
            "",
            "",
            "a",
        );
    }

    #[test]
    fn what_a_kernel_reaches() {
        let text = ".target sm_90\n.global .u64 v[1] = {f}; .extern .func e();
            .func f() { call g; } .func g() { tex.1d.v4.f32.s32 {%f1}, [x, {%r1}]; call e; }
            .entry one() { call f; } .entry two() { call %d1, (), p; } .entry three() { ld.u64 %d1, [v]; }
            .entry four() { mov.u64 %d1, g; } .entry five() { ret; }";
        let module = ptx::read(text).unwrap();
        let found = |name: &str| {
            let at = module.functions.iter().position(|one| one.name == name).unwrap();
            let reach = reach(&module, at);
            (
                reach.declared.into_iter().collect::<String>(),
                [reach.calls_pointer, reach.gives_functions, reach.uses_textures],
            )
        };
        assert_eq!(found("one"), ("e".to_owned(), [false, false, true]));
        assert_eq!(found("two"), (String::new(), [true, false, false]));
        assert_eq!(found("three"), (String::new(), [false, true, false]));
        assert_eq!(found("four"), (String::new(), [false, true, false]));
        assert_eq!(found("five"), (String::new(), [false, false, false]));
    }
}

//! What is read of a module of PTX.

use std::collections::{HashMap, HashSet};

/// A module of PTX.
#[derive(Default, Debug)]
pub struct PtxModule<'a> {
    /// What `.target` says: `sm_90a`.
    pub target: &'a str,
    /// The variables in global and constant memory.
    pub variables: Vec<PtxVariable<'a>>,
    /// The functions; one that is declared and defined stands here once.
    pub functions: Vec<PtxFunction<'a>>,
    /// The variables in shared and local memory outside of functions; those whose size the launch gives.
    pub memories: Vec<(&'a str, bool)>,
}

/// A variable of a module.
#[derive(Debug)]
pub struct PtxVariable<'a> {
    /// The symbol of the variable.
    pub name: &'a str,
    /// Whether another file defines it.
    pub is_extern: bool,
    /// Whether other files may use it, where device code is linked.
    pub is_visible: bool,
    /// The names in its first value.
    pub mentions: Vec<&'a str>,
    /// The bytes of the variable.
    pub bytes: u64,
}

/// A function of a module.
#[derive(Default, Debug)]
pub struct PtxFunction<'a> {
    /// The symbol of the function.
    pub name: &'a str,
    /// Whether the host launches it.
    pub is_kernel: bool,
    /// Whether its body is here.
    pub is_defined: bool,
    /// The names of its parameters, in order.
    pub parameters: Vec<String>,
    /// The names of what it returns, in order.
    pub results: Vec<String>,
    /// The names of all parameters, its own and those of its calls.
    pub places: HashSet<String>,
    /// The bytes of its parameters that are arrays of bytes: structures.
    pub structures: HashMap<String, u64>,
    /// Whether parameters or results of it are registers.
    pub passes_registers: bool,
    /// The names of its variables in shared and local memory.
    pub memories: HashSet<&'a str>,
    /// The instructions of its body, in order.
    pub instructions: Vec<Instruction<'a>>,
}

/// An instruction of a function's body.
#[derive(Default, Debug)]
pub struct Instruction<'a> {
    /// Its opcode, at the dots.
    pub opcode: Vec<&'a str>,
    /// Its operands, in order.
    pub operands: Vec<Operand>,
}

/// An operand of an instruction.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The names in it; of a list one for each part, empty for a number.
    pub names: Vec<String>,
    /// Whether it is an address: in brackets.
    pub is_address: bool,
    /// Whether it is a list of parameters: in parentheses.
    pub is_list: bool,
    /// The number that it is, or that is added to its address; none where there are several names.
    pub number: Option<i64>,
}

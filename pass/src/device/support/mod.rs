//! What stands on the host for each thing that device code takes from the GPU: NVVM's intrinsics,
//! CUDA's device system calls, libdevice, and PTX in inline assembly.
//!
//! Each is a function of LLVM IR text: the families here are regular, so that a body is its name
//! taken apart, and text is both the shortest way to write IR and the one that LLVM checks itself.
//! Only what a module uses is written out and parsed (see [`super::foreign`]).
mod atomics;
mod float;
mod integer;
mod libdevice;
mod ptx;
mod quarters;
mod registers;
pub(super) mod services;
mod synchronise;

use std::collections::BTreeSet;

/// The texts every translated module gets.
pub const PRELUDE: [&str; 4] = [
    include_str!("prelude.ll"),
    include_str!("halves.ll"),
    include_str!("quarters.ll"),
    include_str!("barriers.ll"),
];

/// A foreign function: its name and its type, as LLVM writes them.
pub struct Foreign<'a> {
    /// The symbol, or for inline assembly the PTX text.
    pub name: &'a str,
    /// The type it returns.
    pub returns: String,
    /// The types of its parameters, which bodies know as `%a0`, `%a1` ...
    pub takes: Vec<String>,
}

/// The body that stands for a foreign function.
#[derive(Default)]
pub struct Body {
    /// Instructions, the last a terminator.
    pub text: String,
    /// Lines that declare the host's functions which the text calls; intrinsics need none.
    pub declarations: BTreeSet<String>,
    /// Attributes; `alwaysinline` when empty.
    pub attributes: &'static str,
}

impl Body {
    /// A body that is inlined where it is used.
    pub fn inline(text: impl Into<String>) -> Option<Self> {
        Some(Self {
            text: text.into(),
            ..Self::default()
        })
    }
}

impl Foreign<'_> {
    /// Whether the types are these.
    fn is(&self, returns: &str, takes: &[&str]) -> bool {
        self.returns == returns && self.takes == takes
    }

    /// The types of its results: of inline assembly with several outputs, the fields.
    fn result_types(&self) -> Vec<&str> {
        let fields = self.returns.trim_matches(['{', '}', ' ']);
        fields.split(',').map(str::trim).collect()
    }

    /// The arguments as a call writes them, from one on.
    fn arguments(&self) -> String {
        let argument = |(at, ty): (usize, &String)| format!("{ty} %a{at}");
        self.takes
            .iter()
            .enumerate()
            .map(argument)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// A body that hands all arguments on to `callee` and its result back.
    fn forward(&self, callee: &str) -> String {
        let arguments = self.arguments();
        match self.returns.as_str() {
            "void" => format!("call void @{callee}({arguments})\n ret void"),
            ty => format!("%r = call {ty} @{callee}({arguments})\n ret {ty} %r"),
        }
    }
}

/// The body for a function that device code declares.
pub fn function(foreign: &Foreign) -> Option<Body> {
    if foreign.name.starts_with("__nv_") {
        return libdevice::body(foreign);
    }
    let Some(name) = foreign.name.strip_prefix("llvm.nvvm.") else {
        return services::body(foreign);
    };
    registers::body(name, foreign)
        .or_else(|| synchronise::body(name, foreign))
        .or_else(|| atomics::body(name, foreign))
        .or_else(|| quarters::body(name, foreign))
        .or_else(|| float::body(name, foreign))
        .or_else(|| integer::body(name, foreign))
        .or_else(|| services::intrinsic(name, foreign))
}

/// Whether a libdevice function is replaced as a whole, rather than translated from its body.
pub fn replaces_libdevice(name: &str) -> bool {
    libdevice::is_known(name)
}

/// Whether a symbol is a function of the C library that translated code may call.
pub fn is_host_function(name: &str) -> bool {
    libdevice::is_library(name)
}

/// The body for inline assembly with LLVM's constraints; an error is the statement that is not known.
pub fn assembly(foreign: &Foreign, constraints: &str) -> Result<Body, String> {
    ptx::body(foreign, constraints)
}

#[cfg(test)]
mod tests;

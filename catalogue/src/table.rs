//! The table itself: one entry per function of the runtime.

use crate::kinds::{Class, Role, Treatment};

/// One argument of a function.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// As the header names it; empty where it has no name.
    pub name: &'static str,
    /// The C type, in one spelling (`const void *`).
    pub ty: &'static str,
    /// What it is.
    pub role: Role,
}

/// One function of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeFunction {
    /// The symbol that the library exports.
    pub name: &'static str,
    /// The C return type; empty for functions that no header declares.
    pub ret: &'static str,
    /// Its arguments; empty for functions that no header declares.
    pub params: &'static [Param],
    /// The family, for the support table: `memory`, `stream`, `graph`, …
    pub family: &'static str,
    /// What it is.
    pub class: Class,
    /// How MGB treats it.
    pub treatment: Treatment,
    /// Whether the native call may create a context on the current device.
    pub creates_context: bool,
    /// Whether it may return before its work is done.
    pub asynchronous: bool,
    /// Declared in a header.
    pub declared: bool,
    /// Exported by libcudart.
    pub exported: bool,
    /// For `_ptsz` and `_ptds` forms, the plain function. A form has all properties of its base.
    pub base: Option<&'static str>,
    /// Why it is treated so, or what does not work; may be empty.
    pub note: &'static str,
}

impl RuntimeFunction {
    /// The position of the first argument with this role.
    pub fn position(&self, role: Role) -> Option<usize> {
        self.params.iter().position(|param| param.role == role)
    }

    /// The positions of all arguments with this role.
    pub fn positions(&self, role: Role) -> impl Iterator<Item = usize> {
        (0..self.params.len()).filter(move |&at| self.params[at].role == role)
    }

    /// The plain function of this form: its base, or itself.
    pub fn plain_name(&self) -> &'static str {
        self.base.unwrap_or(self.name)
    }
}

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// Every function, sorted by name.
pub fn all() -> &'static [RuntimeFunction] {
    TABLE
}

/// The function of this name.
pub fn lookup(name: &str) -> Option<&'static RuntimeFunction> {
    TABLE
        .binary_search_by(|entry| entry.name.cmp(name))
        .ok()
        .map(|at| &TABLE[at])
}

/// The CUDA version the table was made from, as `13.0`.
pub fn cuda_version() -> &'static str {
    CUDA_VERSION
}

//! The driver's functions: what `cuda.h` declares and what NVIDIA's `libcuda.so.1` exports, in all versions.
//! The driver front exports each of them.

/// One argument of a function.
#[derive(Clone, Copy, Debug)]
pub struct DriverParam {
    /// As the header names it; empty where it has no name.
    pub name: &'static str,
    /// The C type, in one spelling (`const void *`).
    pub ty: &'static str,
}

/// One function of the driver. Its result is a `CUresult`, unless no header declares it.
#[derive(Clone, Copy, Debug)]
pub struct DriverFunction {
    /// The symbol, with its version (`cuMemAlloc_v2`).
    pub name: &'static str,
    /// Its arguments; empty for functions that no header declares.
    pub params: &'static [DriverParam],
    /// Declared in the header.
    pub declared: bool,
    /// Exported by the driver that the table was made from.
    pub exported: bool,
    /// For `_ptsz` and `_ptds` forms, the function for the legacy default stream.
    pub base: Option<&'static str>,
}

include!(concat!(env!("OUT_DIR"), "/driver.rs"));

/// Every function, sorted by name.
pub fn all() -> &'static [DriverFunction] {
    TABLE
}

/// The function of this name.
pub fn lookup(name: &str) -> Option<&'static DriverFunction> {
    let found = TABLE.binary_search_by(|function| function.name.cmp(name));
    found.ok().map(|at| &TABLE[at])
}

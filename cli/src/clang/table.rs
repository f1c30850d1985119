//! clang's options, as far as the wrapper must know them: sorted tables.
//!
//! `EXACT` lists whole options, among them every option whose value is the next argument, so that a value is
//! never taken for an input. `PREFIX` lists options whose value is joined to them. Everything else that
//! starts with `-` is clang's own business.

/// What an option means to the wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Takes a value that the wrapper does not look at.
    Value,
    /// `-x`: the language of the inputs that follow.
    Language,
    /// Stops before code is generated: the pass has nothing to do.
    FrontEnd,
    /// Generates code and stops before linking.
    NoLink,
    /// Links into another relocatable object: libraries come later.
    Relocatable,
    /// Links statically: no shared library can be added.
    Static,
    /// The user chose the CUDA toolkit.
    CudaPath,
    /// The user chose the GPU to generate code for.
    GpuArch,
    /// The user chose a linker.
    Linker,
    /// Link time optimisation, or none.
    Lto,
    /// Machine code and bitcode in one object.
    FatObjects,
    /// `-l`: a library whose name follows.
    Library,
    /// The CUDA runtime, static or not, which becomes the shared one of CUDA 13.
    Runtime,
    /// Goes to the linker: one argument that follows, or a comma-separated list joined to it.
    ToLinker,
}

use Meaning::*;

/// Whole options. Those for which `takes_value` holds are followed by their value.
pub const EXACT: &[(&str, Meaning)] = &[
    ("--analyze", FrontEnd),
    ("--analyzer-output", Value),
    ("--assemble", NoLink),
    ("--compile", NoLink),
    ("--dependencies", FrontEnd),
    ("--imacros", Value),
    ("--include", Value),
    ("--language", Language),
    ("--output", Value),
    ("--param", Value),
    ("--precompile", FrontEnd),
    ("--preprocess", FrontEnd),
    ("--serialize-diagnostics", Value),
    ("--static", Static),
    ("--user-dependencies", FrontEnd),
    ("--vfsoverlay", Value),
    ("-A", Value),
    ("-B", Value),
    ("-D", Value),
    ("-E", FrontEnd),
    ("-F", Value),
    ("-G", Value),
    ("-I", Value),
    ("-L", Value),
    ("-M", FrontEnd),
    ("-MF", Value),
    ("-MJ", Value),
    ("-MM", FrontEnd),
    ("-MQ", Value),
    ("-MT", Value),
    ("-S", NoLink),
    ("-T", Value),
    ("-Tbss", Value),
    ("-Tdata", Value),
    ("-Ttext", Value),
    ("-U", Value),
    ("-Xanalyzer", Value),
    ("-Xarch_device", Value),
    ("-Xarch_host", Value),
    ("-Xassembler", Value),
    ("-Xclang", Value),
    ("-Xclangas", Value),
    ("-Xcuda-fatbinary", Value),
    ("-Xcuda-ptxas", Value),
    ("-Xlinker", ToLinker),
    ("-Xoffload-linker", Value),
    ("-Xopenmp-target", Value),
    ("-Xpreprocessor", Value),
    ("-arch", Value),
    ("-b", Value),
    ("-c", NoLink),
    ("-cxx-isystem", Value),
    ("-dependency-dot", Value),
    ("-dependency-file", Value),
    ("-dumpdir", Value),
    ("-e", Value),
    ("-emit-ast", FrontEnd),
    ("-ffat-lto-objects", FatObjects),
    ("-flto", Lto),
    ("-fno-lto", Lto),
    ("-framework", Value),
    ("-fsyntax-only", FrontEnd),
    ("-idirafter", Value),
    ("-iframework", Value),
    ("-imacros", Value),
    ("-include", Value),
    ("-include-pch", Value),
    ("-iprefix", Value),
    ("-iquote", Value),
    ("-isysroot", Value),
    ("-isystem", Value),
    ("-isystem-after", Value),
    ("-ivfsoverlay", Value),
    ("-iwithprefix", Value),
    ("-iwithprefixbefore", Value),
    ("-iwithsysroot", Value),
    ("-l", Library),
    ("-l:libcudart_static.a", Runtime),
    ("-lcudart", Runtime),
    ("-lcudart_static", Runtime),
    ("-mllvm", Value),
    ("-mmlir", Value),
    ("-mthread-model", Value),
    ("-o", Value),
    ("-r", Relocatable),
    ("-resource-dir", Value),
    ("-rpath", Value),
    ("-serialize-diagnostics", Value),
    ("-static", Static),
    ("-static-pie", Static),
    ("-stdlib++-isystem", Value),
    ("-target", Value),
    ("-u", Value),
    ("-undefined", Value),
    ("-working-directory", Value),
    ("-x", Language),
    ("-z", Value),
];

/// Options with their value joined; the longest that fits counts.
pub const PREFIX: &[(&str, Meaning)] = &[
    ("--cuda-gpu-arch=", GpuArch),
    ("--cuda-path=", CudaPath),
    ("--language=", Language),
    ("--ld-path=", Linker),
    ("--offload-arch=", GpuArch),
    ("-Wl,", ToLinker),
    ("-flto=", Lto),
    ("-fuse-ld=", Linker),
    ("-x", Language),
];

impl Meaning {
    /// Whether a whole option with this meaning is followed by its value.
    pub fn takes_value(self) -> bool {
        matches!(self, Value | Language | Library | ToLinker)
    }
}

/// Looks up a whole option.
pub fn exact(argument: &[u8]) -> Option<Meaning> {
    let at = EXACT
        .binary_search_by(|(option, _)| option.as_bytes().cmp(argument))
        .ok()?;
    Some(EXACT[at].1)
}

/// Looks up an option with a joined value; returns the value too.
pub fn prefix(argument: &[u8]) -> Option<(Meaning, &[u8])> {
    let fits = PREFIX
        .iter()
        .filter(|(option, _)| argument.starts_with(option.as_bytes()));
    let (option, meaning) = fits.max_by_key(|(option, _)| option.len())?;
    Some((*meaning, &argument[option.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(EXACT.is_sorted_by(|a, b| a.0 < b.0));
        assert!(PREFIX.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn lookups() {
        assert_eq!(exact(b"-o"), Some(Value));
        assert_eq!(exact(b"-O2"), None);
        assert_eq!(prefix(b"-xcuda"), Some((Language, b"cuda".as_slice())));
        assert_eq!(
            prefix(b"--offload-arch=sm_80"),
            Some((GpuArch, b"sm_80".as_slice()))
        );
        assert_eq!(prefix(b"-lfoo"), None);
    }
}

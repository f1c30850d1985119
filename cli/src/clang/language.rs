//! What language an input is in, from its name or from `-x`.

/// A language, as far as the wrapper cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// CUDA C++: compiled for host and device.
    Cuda,
    /// C, C++ and their relatives, and LLVM IR: compiled for the host, through the pass.
    Host,
    /// A header by itself: precompiled, and never linked.
    Header,
    /// Assembler: no pass runs on it.
    Assembler,
    /// Objects, archives, libraries and anything else that goes to the linker.
    Linked,
}

impl Language {
    /// By the file name extension, as clang decides it.
    pub fn of_file(name: &[u8]) -> Self {
        let Some(dot) = name.iter().rposition(|&byte| byte == b'.') else {
            return Self::Linked;
        };
        match &name[dot + 1..] {
            b"cu" | b"cui" => Self::Cuda,
            b"C" | b"CC" | b"CPP" | b"CXX" | b"M" | b"bc" | b"c" | b"c++" | b"c++m" | b"cc" | b"ccm"
            | b"cp" | b"cpp" | b"cppm" | b"cxx" | b"cxxm" | b"i" | b"ii" | b"ixx" | b"ll" | b"m" | b"mi"
            | b"mii" | b"mm" => Self::Host,
            b"H" | b"h" | b"hh" | b"hpp" | b"hxx" => Self::Header,
            b"S" | b"asm" | b"s" => Self::Assembler,
            _ => Self::Linked,
        }
    }

    /// By the argument of `-x`; nothing for `none`, which means "by name again".
    pub fn of_option(language: &[u8]) -> Option<Self> {
        match language {
            b"none" => None,
            b"cuda" | b"cuda-cpp-output" => Some(Self::Cuda),
            b"assembler" | b"assembler-with-cpp" => Some(Self::Assembler),
            _ if language.ends_with(b"-header") => Some(Self::Header),
            _ => Some(Self::Host),
        }
    }
}

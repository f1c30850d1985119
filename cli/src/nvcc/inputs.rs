//! The inputs of a command line: in what language each is, and what is made of it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::parse::NvccCommandLine;
use super::table::Meaning;

/// What an input is to clang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A source in this language, by clang's name for it.
    Source(&'static str),
    /// An object, an archive or a library.
    Linked,
}

/// An input of the command line.
#[derive(Debug)]
pub struct Input {
    /// The name as it was given.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
}

impl Input {
    /// The file name without folder and extension, with another extension.
    pub fn renamed(&self, extension: &str) -> PathBuf {
        let stem = Path::new(&self.name).file_stem().unwrap_or_default();
        Path::new(stem).with_added(extension)
    }
}

trait WithAdded {
    fn with_added(&self, extension: &str) -> PathBuf;
}

impl WithAdded for Path {
    // Not with_extension: the stem of a.b.cu is a.b.
    fn with_added(&self, extension: &str) -> PathBuf {
        let mut name = self.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        name.into()
    }
}

/// All inputs, in the order given.
///
/// # Errors
/// On languages that nvcc has not, and on inputs that clang cannot take.
pub fn of(request: &NvccCommandLine) -> Result<Vec<Input>> {
    let chosen = match request.last(Meaning::Language) {
        None => None,
        Some("cu" | "cuda") => Some("cuda"),
        Some("c") => Some("c"),
        Some("c++") => Some("c++"),
        Some(other) => bail!("-x {other}: cu, c++ or c is needed"),
    };
    let kind = |name: &str| -> Result<InputKind> {
        let file = Path::new(name);
        let extension = file.extension().and_then(|extension| extension.to_str());
        let is_library = name.contains(".so.");
        Ok(match extension {
            Some("o" | "obj" | "a" | "so" | "lib" | "res") => InputKind::Linked,
            _ if is_library => InputKind::Linked,
            _ if chosen.is_some() => InputKind::Source(chosen.unwrap_or_default()),
            Some("cu") => InputKind::Source("cuda"),
            Some("c" | "i") => InputKind::Source("c"),
            Some("cc" | "cpp" | "cxx" | "C" | "c++" | "ii") => InputKind::Source("c++"),
            Some("ptx" | "cubin" | "fatbin" | "gpu" | "cup" | "ltoir") => bail!(
                "{name}: only sources in C, C++ and CUDA, objects and libraries can be taken; build the source that it \
                 was made from"
            ),
            _ => InputKind::Linked,
        })
    };
    request
        .inputs()
        .map(|name| {
            Ok(Input {
                name: name.to_owned(),
                kind: kind(name)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn kinds(text: &str) -> Vec<InputKind> {
        let request = NvccCommandLine::parse(text.split(' ').map(OsString::from)).unwrap();
        of(&request)
            .unwrap()
            .into_iter()
            .map(|input| input.kind)
            .collect()
    }

    #[test]
    fn by_name_and_by_option() {
        use InputKind::{Linked, Source};
        assert_eq!(
            kinds("a.cu b.c c.cpp d.o libe.so.3 f.a"),
            [Source("cuda"), Source("c"), Source("c++"), Linked, Linked, Linked]
        );
        // Wherever it stands, it counts for every source.
        assert_eq!(
            kinds("a.cpp b.inl c.o -x cu"),
            [Source("cuda"), Source("cuda"), Linked]
        );
    }

    #[test]
    fn device_code_is_no_input() {
        let request = NvccCommandLine::parse(["a.ptx".into()]).unwrap();
        assert!(of(&request).unwrap_err().to_string().contains("build the source"));
    }

    #[test]
    fn outputs_keep_the_stem() {
        let input = Input {
            name: "dir/a.b.cu".into(),
            kind: InputKind::Linked,
        };
        assert_eq!(input.renamed("ptx"), Path::new("a.b.ptx"));
    }
}

//! What is seen of a program without running it.

use std::path::PathBuf;

/// A program as `mgb run` would start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFacts {
    /// The file, or why none is found that can be executed.
    pub file: Result<PathBuf, String>,
    /// The scripts on the way to a program, each with the interpreter that it names.
    pub scripts: Vec<(PathBuf, String)>,
    /// What the kernel starts in the end.
    pub start: Start,
    /// Programs see software GPUs.
    pub software: bool,
    /// The newest CUDA that the driver supports, if it is known.
    pub cuda: Option<(i32, i32)>,
    /// The version of the protocol that this mgb's mgbd speaks.
    pub protocol: u32,
}

/// What the kernel starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing was found.
    Nothing,
    /// Neither a program nor a script.
    NoFormat(PathBuf),
    /// A program of another kind of machine.
    Foreign(PathBuf, String),
    /// A file that cannot be read, and why.
    Unreadable(PathBuf, String),
    /// A program of this machine.
    Program(Box<Executable>),
}

/// A program of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executable {
    /// The dynamic linker that it names, and whether that exists.
    pub linker: Option<(PathBuf, bool)>,
    /// Why the kernel has the dynamic linker ignore `LD_LIBRARY_PATH` for this user.
    pub secure: Option<Secure>,
    /// Its file has such a bit or capabilities, which make no difference for this user.
    pub may_be_secure: bool,
    /// Itself first, then the libraries that are loaded with it, each once.
    pub objects: Vec<ObjectFacts>,
    /// The file that the dynamic linker finds for `libcuda.so`, where it is not the front.
    pub unversioned: Option<PathBuf>,
    /// Tasks that the pass found, and how many of them are lazy.
    pub tasks: Option<(usize, usize)>,
}

/// Rights that a program has and its caller does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secure {
    /// The set-user-ID bit, of this user.
    User(u32),
    /// The set-group-ID bit, of this group.
    Group(u32),
    /// The file has capabilities.
    Capabilities,
}

/// A program or a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFacts {
    /// The name that it is asked for by.
    pub name: String,
    /// The path of the object's file.
    pub path: PathBuf,
    /// The libraries that it was linked against, and the files that the dynamic linker finds for them.
    pub needed: Vec<Needed>,
    /// A `libcuda.so.1` other than the front that its `DT_RPATH` leads to before `LD_LIBRARY_PATH`.
    pub rpath_driver: Option<PathBuf>,
    /// Strings in its constants that name the driver's library.
    pub names_driver: Vec<String>,
    /// It has code for GPUs.
    pub device_code: bool,
    /// Its kernels may launch kernels.
    pub launches_kernels: bool,
    /// It can load libraries later.
    pub loads: bool,
    /// The version of the protocol that is noted in it.
    pub protocol: Option<u32>,
}

/// A library that an object was linked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// As it is written there.
    pub name: String,
    /// Where it is found.
    pub path: Option<PathBuf>,
    /// It is the driver front.
    pub is_front: bool,
}

impl Executable {
    /// Whether no dynamic linker has a part in it. A library names none either, but needs others.
    pub fn is_static(&self) -> bool {
        self.linker.is_none() && self.objects.first().is_none_or(|own| own.needed.is_empty())
    }
}

impl ObjectFacts {
    /// The file name of the library, or of the program.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

impl Needed {
    /// The file name of the library.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

#[cfg(test)]
pub mod samples {
    use super::*;

    /// A library that is found in `/lib`.
    pub fn needs(name: &str) -> Needed {
        Needed {
            name: name.to_owned(),
            path: Some(format!("/lib/{name}").into()),
            is_front: false,
        }
    }

    /// An object that was linked against these.
    pub fn object(name: &str, needed: &[&str]) -> ObjectFacts {
        ObjectFacts {
            name: name.to_owned(),
            path: format!("/lib/{name}").into(),
            needed: needed.iter().map(|name| needs(name)).collect(),
            ..ObjectFacts::default()
        }
    }

    /// A program that is linked dynamically and consists of these objects.
    pub fn executable(objects: Vec<ObjectFacts>) -> Executable {
        Executable {
            linker: Some(("/lib64/ld-linux-x86-64.so.2".into(), true)),
            objects,
            ..Executable::default()
        }
    }

    /// It on a node with a driver for CUDA 13.
    pub fn program(executable: Executable) -> ProgramFacts {
        ProgramFacts {
            file: Ok("/home/me/app".into()),
            scripts: Vec::new(),
            start: Start::Program(Box::new(executable)),
            software: false,
            cuda: Some((13, 0)),
            protocol: 8,
        }
    }
}

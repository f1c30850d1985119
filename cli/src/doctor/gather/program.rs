//! A program, its interpreters and its libraries, from their files.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mgb_core::libraries::{DRIVER, USE_CUDA, WITHOUT_CUDA};
use mgb_core::mps;
use mgb_probe::wire;
use rustix::fs::StatVfsMountFlags;

use super::super::program::facts::{Executable, Needed, ObjectFacts, ProgramFacts, Secure, Start};
use super::elf::{self, Elf, Fault};
use super::linker::{LinkerSearch, Loaded};
use crate::{explain, program};

/// As many scripts as the kernel follows.
const MAX_SCRIPTS: usize = 5;
/// As much of a script's first line as the kernel reads.
const FIRST_LINE: u64 = 256;
/// Libraries that a program loads, at most: a bound for files that name each other.
const MAX_OBJECTS: usize = 2000;
/// Libraries whose constants name the driver and that are known: the driver, its runtime, MGB's.
const KNOWN: [&str; 3] = ["libcuda.so", "libcudart.so", "libmgb_rt"];

/// Looks at the program that `name` stands for.
pub fn look(name: &str, search: &LinkerSearch, software: bool, cuda: Option<(i32, i32)>) -> ProgramFacts {
    let file = program::find(name).map_err(|error| error.to_string());
    let mut scripts = Vec::new();
    let start = match &file {
        Ok(file) => follow(file, &mut scripts, search),
        Err(_) => Start::Nothing,
    };
    ProgramFacts {
        file,
        scripts,
        start,
        software,
        cuda,
        protocol: wire::VERSION,
    }
}

fn follow(file: &Path, scripts: &mut Vec<(PathBuf, String)>, search: &LinkerSearch) -> Start {
    let mut file = file.to_owned();
    loop {
        match elf::read(&file, true) {
            Ok(elf) => return Start::Program(Box::new(executable(&file, elf, search))),
            Err(Fault::Unreadable(why)) => return Start::Unreadable(file, why),
            Err(Fault::Foreign(kind)) => return Start::Foreign(file, kind),
            Err(Fault::NoElf) => {}
        }
        let Some(line) = first_line(&file) else {
            return Start::NoFormat(file);
        };
        scripts.push((file, line.clone()));
        let next = interpreter(&line).and_then(|name| program::find(&name).ok());
        match next {
            Some(next) if scripts.len() < MAX_SCRIPTS => file = next,
            _ => return Start::Nothing,
        }
    }
}

/// What follows `#!` in a script.
fn first_line(file: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(file)
        .ok()?
        .take(FIRST_LINE)
        .read_to_end(&mut start)
        .ok()?;
    let line = start.split(|&byte| byte == b'\n').next()?.strip_prefix(b"#!")?;
    Some(String::from_utf8_lossy(line).trim().to_owned())
}

/// The program that a script's first line names; `env` looks for another one in `PATH`.
fn interpreter(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let program = words.next()?;
    if Path::new(program).file_name()? != "env" {
        return Some(program.to_owned());
    }
    let is_name = |word: &&str| !word.starts_with('-') && !word.contains('=');
    words.find(is_name).map(str::to_owned)
}

fn executable(file: &Path, elf: Elf, search: &LinkerSearch) -> Executable {
    let linker = elf.linker.clone().map(PathBuf::from);
    let (secure, may_be_secure) = rights(file);
    let top = Loaded::new(file, &elf);
    Executable {
        linker: linker.map(|linker| {
            let exists = linker.exists();
            (linker, exists)
        }),
        secure,
        may_be_secure,
        objects: objects(file, elf, search),
        unversioned: search
            .find("libcuda.so", &[&top])
            .filter(|driver| !search.is_front(driver)),
        tasks: explain::tasks(file),
    }
}

/// Why the kernel has the dynamic linker be careful with this program, and whether it would for others.
fn rights(file: &Path) -> (Option<Secure>, bool) {
    let Ok(metadata) = fs::metadata(file) else {
        return (None, false);
    };
    let mut value = [0u8; 64];
    let has_capabilities = rustix::fs::getxattr(file, "security.capability", &mut value[..]).is_ok();
    let ignored = rustix::fs::statvfs(file)
        .is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOSUID))
        || rustix::thread::no_new_privs().unwrap_or(false);
    let (uid, gid) = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let given = FileRights {
        mode: metadata.mode(),
        owner: metadata.uid(),
        group: metadata.gid(),
        has_capabilities,
    };
    match ignored {
        true => (None, false),
        false => (given.to(uid, gid), given.is_any()),
    }
}

/// The rights that a file gives to who runs it.
struct FileRights {
    mode: u32,
    owner: u32,
    group: u32,
    has_capabilities: bool,
}

impl FileRights {
    fn sets_user(&self) -> bool {
        self.mode & libc::S_ISUID != 0
    }

    /// Without the right to execute the bit has another meaning.
    fn sets_group(&self) -> bool {
        self.mode & libc::S_ISGID != 0 && self.mode & libc::S_IXGRP != 0
    }

    fn is_any(&self) -> bool {
        self.sets_user() || self.sets_group() || self.has_capabilities
    }

    /// What this user gets and has not.
    fn to(&self, uid: u32, gid: u32) -> Option<Secure> {
        if self.sets_user() && self.owner != uid {
            return Some(Secure::User(self.owner));
        }
        if self.sets_group() && self.group != gid {
            return Some(Secure::Group(self.group));
        }
        // Root has them all.
        (self.has_capabilities && uid != 0).then_some(Secure::Capabilities)
    }
}

/// The program and all that the dynamic linker loads with it, in its order.
fn objects(file: &Path, elf: Elf, search: &LinkerSearch) -> Vec<ObjectFacts> {
    let name = file.file_name().unwrap_or(file.as_os_str());
    let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
    let mut all = Vec::new();
    // For each object: its folders, and the one that it was loaded for.
    let mut loaded: Vec<(Loaded, Option<usize>)> = vec![(Loaded::new(file, &elf), None)];
    let mut seen: HashMap<String, Option<PathBuf>> = HashMap::new();
    let mut next = VecDeque::from([(name, file.to_owned(), elf)]);
    while let Some((name, path, elf)) = next.pop_front() {
        let at = all.len();
        let chain = chain(&loaded, at);
        let mut needed = Vec::new();
        let mut new = Vec::new();
        for wanted in &elf.needed {
            let found = match seen.get(wanted) {
                Some(found) => found.clone(),
                None => {
                    let found = search.find(wanted, &chain);
                    seen.insert(wanted.clone(), found.clone());
                    new.extend(found.clone().map(|found| (wanted.clone(), found)));
                    found
                }
            };
            needed.push(Needed {
                is_front: found.as_deref().is_some_and(|found| search.is_front(found)),
                name: wanted.clone(),
                path: found,
            });
        }
        let object = facts(name, path, &elf, needed, &loaded[at].0, at == 0, search);
        all.push(object);
        for (name, path) in new {
            if loaded.len() < MAX_OBJECTS
                && let Ok(elf) = elf::read(&path, is_searched(&name))
            {
                loaded.push((Loaded::new(&path, &elf), Some(at)));
                next.push_back((name, path, elf));
            }
        }
    }
    all
}

/// An object's folders, then those of what it was loaded for, up to the program.
fn chain(loaded: &[(Loaded, Option<usize>)], at: usize) -> Vec<&Loaded> {
    let mut chain = Vec::new();
    let mut next = Some(at);
    while let Some(at) = next {
        chain.push(&loaded[at].0);
        next = loaded[at].1;
    }
    chain
}

fn facts(
    name: String,
    path: PathBuf,
    elf: &Elf,
    needed: Vec<Needed>,
    loaded: &Loaded,
    is_program: bool,
    search: &LinkerSearch,
) -> ObjectFacts {
    let uses_driver = !elf.names_driver.is_empty()
        || name.starts_with("libcudart.so")
        || elf.needed.iter().any(|needed| needed == DRIVER);
    ObjectFacts {
        // A library's own counts for what it loads, the program's for all.
        rpath_driver: search.rpath_driver(loaded).filter(|_| is_program || uses_driver),
        names_driver: elf.names_driver.clone(),
        device_code: elf.device_code,
        launches_kernels: elf.device_code && mps::launches_kernels(&path),
        loads: elf.loads,
        protocol: elf.protocol,
        name,
        path,
        needed,
    }
}

/// Whether a library's constants are searched: not where it is known what they say.
fn is_searched(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let known = KNOWN.iter().chain(&USE_CUDA).chain(&WITHOUT_CUDA);
    !{ known }.any(|start| file.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_of_a_script_is_what_its_first_line_names() {
        for (line, expected) in [
            ("/bin/sh", Some("/bin/sh")),
            ("/bin/sh -e", Some("/bin/sh")),
            ("/usr/bin/env python3", Some("python3")),
            ("/usr/bin/env -S A=1 python3 -u", Some("python3")),
            ("/usr/bin/env", None),
            ("", None),
        ] {
            assert_eq!(interpreter(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn rights_count_for_who_does_not_have_them() {
        let given = |mode, has_capabilities| FileRights {
            mode,
            owner: 10,
            group: 20,
            has_capabilities,
        };
        assert_eq!(given(0o755, false).to(1, 2), None);
        assert!(!given(0o755, false).is_any());
        assert_eq!(given(0o4755, false).to(1, 2), Some(Secure::User(10)));
        assert_eq!(given(0o4755, false).to(10, 20), None, "the owner's own");
        assert!(given(0o4755, false).is_any());
        assert_eq!(given(0o2755, false).to(1, 2), Some(Secure::Group(20)));
        assert_eq!(given(0o2745, false).to(1, 2), None, "not executable by the group");
        assert_eq!(given(0o755, true).to(1, 2), Some(Secure::Capabilities));
        assert_eq!(given(0o755, true).to(0, 0), None, "root has them");
    }

    #[test]
    fn scripts_that_name_each_other_end() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        fs::write(&own, format!("#!{}\n", own.display())).unwrap();
        fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut scripts = Vec::new();
        assert_eq!(
            follow(&own, &mut scripts, &LinkerSearch::new("", None)),
            Start::Nothing
        );
        assert_eq!(scripts.len(), MAX_SCRIPTS);
    }
}

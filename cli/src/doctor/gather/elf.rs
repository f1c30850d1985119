//! Reads what the dynamic linker reads of a program or library, and what its constants say, from its file.

use std::fs::{self, File};
use std::path::Path;

use mgb_probe::wire;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Architecture, Endianness, FileKind, Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef};

/// What every name of the driver's library begins with.
const DRIVER: &[u8] = b"libcuda.so";
/// Code for GPUs, as compilers put it into programs.
const DEVICE_CODE: &str = ".nv_fatbin";
const CONSTANTS: &str = ".rodata";
/// The longest string that is taken for a name.
const MAX_NAME: usize = 4096;

/// What a program or library says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// The dynamic linker that it names.
    pub linker: Option<String>,
    /// The libraries that it was linked against.
    pub needed: Vec<String>,
    /// Folders of `DT_RPATH`, as they are written there; none where `DT_RUNPATH` takes its place.
    pub rpath: Vec<String>,
    /// Folders of `DT_RUNPATH`.
    pub runpath: Vec<String>,
    /// It has code for GPUs.
    pub device_code: bool,
    /// It calls `dlopen`.
    pub loads: bool,
    /// The version of mgbd's protocol that is noted in it.
    pub protocol: Option<u32>,
    /// Strings of its constants that name the driver's library, each once.
    pub names_driver: Vec<String>,
}

/// Why a file is no program or library for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be read.
    Unreadable(String),
    /// No ELF file.
    NoElf,
    /// One of another kind of machine.
    Foreign(String),
}

/// Why the dynamic linker does not take a library, in words that follow its path.
pub fn fault(path: &Path) -> Option<String> {
    if !path.exists() {
        return Some("does not exist".to_owned());
    }
    match read(path, false).err()? {
        Fault::Unreadable(why) => Some(format!("cannot be read ({why})")),
        Fault::NoElf => Some("is no library".to_owned()),
        Fault::Foreign(kind) => Some(format!("is {kind}")),
    }
}

/// Reads a file, and searches its constants where that is asked for.
pub fn read(path: &Path, constants: bool) -> Result<Elf, Fault> {
    let unreadable = |error: &dyn std::fmt::Display| Fault::Unreadable(error.to_string());
    let metadata = fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err(Fault::NoElf);
    }
    let file = ReadCache::new(File::open(path).map_err(|error| unreadable(&error))?);
    match FileKind::parse(&file) {
        Ok(FileKind::Elf64) => {}
        Ok(FileKind::Elf32) => return Err(Fault::Foreign("a 32-bit program or library".to_owned())),
        Ok(_) | Err(_) => return Err(Fault::NoElf),
    }
    let elf = ElfFile64::<Endianness, _>::parse(&file).map_err(|error| unreadable(&error))?;
    if elf.architecture() != Architecture::X86_64 {
        return Err(Fault::Foreign(format!("for {:?}", elf.architecture())));
    }
    tables(&elf, constants).map_err(|error| unreadable(&error))
}

fn tables<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
    constants: bool,
) -> object::Result<Elf> {
    let (endian, data) = (file.endian(), file.data());
    let mut elf = Elf::default();
    for header in file.elf_header().program_headers(endian, data)? {
        if let Some(linker) = header.interpreter(endian, data)? {
            elf.linker = Some(String::from_utf8_lossy(linker).into_owned());
        }
    }
    let dynamic = file.elf_dynamic_table()?;
    for entry in dynamic.iter() {
        let text = || {
            dynamic
                .string(entry)
                .map(|text| String::from_utf8_lossy(text).into_owned())
        };
        match entry.tag {
            tag if tag == elf::DT_NEEDED => elf.needed.push(text()?),
            tag if tag == elf::DT_RPATH => elf.rpath = folders(&text()?),
            tag if tag == elf::DT_RUNPATH => elf.runpath = folders(&text()?),
            _ => {}
        }
    }
    // As the dynamic linker has it.
    if !elf.runpath.is_empty() {
        elf.rpath.clear();
    }
    elf.device_code = file.section_by_name(DEVICE_CODE).is_some();
    let is_loader = |name: &str| matches!(name, "dlopen" | "dlmopen");
    elf.loads = file
        .dynamic_symbols()
        .any(|symbol| symbol.is_undefined() && symbol.name().is_ok_and(is_loader));
    if let Some(section) = file.section_by_name(wire::SECTION) {
        let bytes = section.data()?.first_chunk().copied();
        elf.protocol = bytes.map(u32::from_le_bytes);
    }
    if constants && let Some(section) = file.section_by_name(CONSTANTS) {
        elf.names_driver = names(section.data()?);
    }
    Ok(elf)
}

fn folders(list: &str) -> Vec<String> {
    let folders = list.split(':').filter(|folder| !folder.is_empty());
    folders.map(str::to_owned).collect()
}

/// The zero-terminated strings in which the driver's name stands, each once.
fn names(constants: &[u8]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(start) = find(&constants[at..], DRIVER).map(|start| at + start) {
        let is_zero = |byte: &u8| *byte == 0;
        let before = &constants[start.saturating_sub(MAX_NAME)..start];
        let from = start - before.iter().rev().position(is_zero).unwrap_or(before.len());
        let rest = &constants[start..];
        let to = start
            + rest
                .iter()
                .take(MAX_NAME)
                .position(is_zero)
                .unwrap_or(rest.len().min(MAX_NAME));
        let name = String::from_utf8_lossy(&constants[from..to]).into_owned();
        if !found.contains(&name) {
            found.push(name);
        }
        at = to;
    }
    found
}

/// Where the bytes stand first.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    // SAFETY: both are ranges of bytes.
    let found = unsafe {
        libc::memmem(
            bytes.as_ptr().cast(),
            bytes.len(),
            wanted.as_ptr().cast(),
            wanted.len(),
        )
    };
    // An address in `bytes`, so not before its start.
    (!found.is_null()).then(|| found.addr() - bytes.as_ptr().addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_strings_and_each_once() {
        let constants = b"x\0libcuda.so.1\0/usr/lib64/libcuda.so\0no libcuda.so here\0libcuda.so.1\0libcuda";
        assert_eq!(
            names(constants),
            ["libcuda.so.1", "/usr/lib64/libcuda.so", "no libcuda.so here"]
        );
        assert_eq!(names(b"libcuda.so"), ["libcuda.so"]);
        assert_eq!(names(b""), Vec::<String>::new());
    }

    #[test]
    fn this_program_is_read() {
        let own = std::env::current_exe().unwrap();
        let elf = read(&own, false).unwrap();
        assert!(
            elf.linker
                .as_deref()
                .is_some_and(|linker| linker.contains("ld-linux"))
        );
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"), "{elf:?}");
        assert_eq!(fault(&own), None);
    }

    #[test]
    fn other_files_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        assert_eq!(read(&file, true), Err(Fault::NoElf));
        assert_eq!(read(folder.path(), true), Err(Fault::NoElf));
        let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        // The machine: 183 is AArch64.
        bytes[18..20].copy_from_slice(&183u16.to_le_bytes());
        fs::write(&file, &bytes).unwrap();
        assert_eq!(read(&file, true), Err(Fault::Foreign("for Aarch64".to_owned())));
        // The class: 1 is 32 bits.
        bytes[4] = 1;
        fs::write(&file, &bytes).unwrap();
        assert!(fault(&file).unwrap().contains("32-bit"));
        fs::write(&file, &bytes[..100]).unwrap();
        assert!(fault(&file).is_some());
        assert_eq!(fault(&folder.path().join("none")).unwrap(), "does not exist");
    }
}

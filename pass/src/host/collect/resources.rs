//! Resources: the registers and the static shared memory that kernels take, read off the machine code which
//! the compile has embedded in the module, so that it is known before there is a context how much of a GPU a
//! launch fills.
//!
//! The code is in containers ("fat binaries") of an ELF file for each architecture. Their layout, and that of
//! NVIDIA's sections in the ELF files, is not documented; what is read here is what CUDA's tools print of the
//! same files. What is not as expected is left out: the kernel's resources are then unknown. nvcc embeds its
//! containers by assembly, where they are not seen.
use std::collections::HashMap;

use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolIndex};

use crate::host::collect::Collected;
use crate::host::ir::{self, Value};

/// The section of containers.
const SECTION: &str = ".nv_fatbin";
/// Begins a container.
const MAGIC: u32 = 0xba55_ed50;
/// The kind of an entry that is an ELF file.
const ELF: u16 = 2;
/// The attribute of `.nv.info` that has a kernel's registers.
const REGISTERS: u8 = 0x2f;
/// The format of an attribute that has bytes of its own behind it.
const SIZED: u8 = 4;

/// Shared memory that the system takes for itself at the head of every block's, where it does: occupancy
/// counts it apart.
const RESERVED: u64 = 1024;

/// What a kernel takes: the most of all architectures that it is compiled for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, in bytes.
    pub shared: u64,
}

/// What the kernels of a module take.
pub struct Resources {
    by_stub: HashMap<Value, Taken>,
}

impl Resources {
    /// Of a module with its device code embedded.
    pub fn new(collected: &Collected) -> Self {
        let mut by_name: HashMap<String, Taken> = HashMap::new();
        for container in ir::globals(collected.module).filter(|one| one.section() == SECTION) {
            for file in container.text().iter().flat_map(|bytes| elf_files(bytes)) {
                for (name, taken) in kernels(file).unwrap_or_default() {
                    let known = by_name.entry(name).or_default();
                    known.registers = known.registers.max(taken.registers);
                    known.shared = known.shared.max(taken.shared);
                }
            }
        }
        let registrations = match by_name.is_empty() {
            true => Vec::new(),
            false => collected.calls_of("__cudaRegisterFunction"),
        };
        let by_stub = registrations.into_iter().filter_map(|call| {
            let mut name = call.operand(2).text()?;
            name.pop();
            let taken = by_name.get(&String::from_utf8(name).ok()?)?;
            Some((call.operand(1), *taken))
        });
        Self {
            by_stub: by_stub.collect(),
        }
    }

    /// What the kernel of a stub takes, where it is known.
    pub fn of(&self, stub: Value) -> Option<Taken> {
        self.by_stub.get(&stub).copied()
    }
}

/// The ELF files in containers that stand one after another.
fn elf_files(bytes: &[u8]) -> Vec<&[u8]> {
    let mut files = Vec::new();
    let mut rest = bytes;
    while let Some((container, behind)) = container(rest) {
        let mut entries = container;
        while let Some((kind, payload, behind)) = entry(entries) {
            if kind == ELF && payload.starts_with(object::elf::ELFMAG.as_slice()) {
                files.push(payload);
            }
            entries = behind;
        }
        rest = behind;
    }
    files
}

/// The entries of the first container, and what is behind it.
fn container(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = usize::from(number16(bytes, 6)?);
    let end = header.checked_add(usize::try_from(number64(bytes, 8)?).ok()?)?;
    let is_one = number32(bytes, 0)? == MAGIC;
    is_one.then_some((bytes.get(header..end)?, bytes.get(end..)?))
}

/// The first entry's kind and bytes, and what is behind it.
fn entry(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let header = usize::try_from(number32(bytes, 4)?).ok()?;
    let end = header.checked_add(usize::try_from(number64(bytes, 8)?).ok()?)?;
    let moves_on = end > 0;
    moves_on.then_some((number16(bytes, 0)?, bytes.get(header..end)?, bytes.get(end..)?))
}

/// The kernels of an ELF file by their symbols.
fn kernels(file: &[u8]) -> Option<Vec<(String, Taken)>> {
    let elf = ElfFile::<FileHeader64<Endianness>>::parse(file).ok()?;
    let info = elf.section_by_name(".nv.info")?.data().ok()?;
    let reserves = |name: &str| name.starts_with(".nv.shared.reserved.");
    let reserves = elf.sections().any(|section| section.name().is_ok_and(reserves));
    let reserved = if reserves { RESERVED } else { 0 };
    let found = registers(info).into_iter().filter_map(|(symbol, registers)| {
        let symbol = elf.symbol_by_index(SymbolIndex(symbol as usize)).ok()?;
        let name = symbol.name().ok()?;
        let shared = elf.section_by_name(&format!(".nv.shared.{name}"));
        let size = shared.map_or(0, |section| section.size());
        let taken = Taken {
            registers,
            shared: size.saturating_sub(reserved),
        };
        Some((name.to_owned(), taken))
    });
    Some(found.collect())
}

/// Each symbol's registers, by the attributes in `.nv.info`.
fn registers(info: &[u8]) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    let mut rest = info;
    while let &[format, attribute, low, high, ref values @ ..] = rest {
        let size = match format {
            SIZED => usize::from(u16::from_le_bytes([low, high])),
            _ => 0,
        };
        if let (SIZED, REGISTERS, Some(symbol), Some(registers)) =
            (format, attribute, number32(values, 0), number32(values, 4))
        {
            found.push((symbol, registers));
        }
        rest = values.get(size..).unwrap_or_default();
    }
    found
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container with an entry of each kind; payloads of 8 bytes.
    fn sample(payload: &[u8; 8]) -> Vec<u8> {
        let mut entries = Vec::new();
        for kind in [1u16, ELF] {
            entries.extend(kind.to_le_bytes());
            entries.extend([1, 1]);
            entries.extend(16u32.to_le_bytes());
            entries.extend(8u64.to_le_bytes());
            entries.extend(payload);
        }
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((entries.len() as u64).to_le_bytes());
        bytes.extend(entries);
        bytes
    }

    #[test]
    fn only_elf_files_are_taken_from_containers() {
        let two = [sample(b"\x7fELF1234"), sample(b"\x7fELF5678")].concat();
        assert_eq!(elf_files(&two), [b"\x7fELF1234", b"\x7fELF5678"]);
        assert!(elf_files(&sample(b"compress")).is_empty());
    }

    #[test]
    fn what_is_cut_short_or_no_container_gives_nothing() {
        let whole = sample(b"\x7fELF1234");
        for end in 0..whole.len() {
            assert!(elf_files(&whole[..end]).is_empty(), "{end}");
        }
        assert!(elf_files(b"something else, longer than a header").is_empty());
        // Sizes that would lead beyond the end, or nowhere.
        let mut huge = whole.clone();
        huge[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(elf_files(&huge).is_empty());
        let mut none = whole;
        none[20..24].copy_from_slice(&0u32.to_le_bytes());
        none[24..32].copy_from_slice(&0u64.to_le_bytes());
        assert!(elf_files(&none).is_empty());
    }

    #[test]
    fn registers_stand_among_other_attributes() {
        let info = [
            &[4, 0x11, 8, 0, 9, 0, 0, 0, 1, 0, 0, 0][..],
            &[1, 0x2f, 0, 0],
            &[4, REGISTERS, 8, 0, 9, 0, 0, 0, 32, 0, 0, 0],
            &[4, REGISTERS, 8, 0, 7, 0],
        ];
        assert_eq!(registers(&info.concat()), [(9, 32)]);
    }
}

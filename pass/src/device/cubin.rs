//! Machine code: what ELF files of NVIDIA's tools tell of kernels without being disassembled.
//!
//! The layout of NVIDIA's sections is not documented; what is read here is what CUDA's tools print of the
//! same files. What is not as expected is left out.
use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolIndex, SymbolKind};

use super::fatbin::number32;

/// The attribute of `.nv.info` that has a kernel's registers.
const REGISTERS: u8 = 0x2f;
/// The format of an attribute that has bytes of its own behind it.
const SIZED: u8 = 4;
/// The note that has the architecture of the PTX which the code was made from; its version as it is read
/// here, and where both are.
const NOTE: &str = ".note.nv.cuinfo";
const VERSION: u16 = 2;
const VERSION_AT: usize = 24;
const MADE_FROM_AT: usize = 26;
/// Shared memory that the system takes for itself at the head of every block's, where it does: occupancy
/// counts it apart.
const RESERVED: u64 = 1024;
/// The sections of device variables.
const VARIABLES: [&str; 3] = [".nv.global", ".nv.global.init", ".nv.constant3"];

/// What a kernel takes: the most of all architectures that it is compiled for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, in bytes.
    pub shared: u64,
}

/// A file of machine code.
pub struct Cubin<'a>(ElfFile<'a, FileHeader64<Endianness>>);

impl<'a> Cubin<'a> {
    /// None where the bytes are no ELF file.
    pub fn read(file: &'a [u8]) -> Option<Self> {
        ElfFile::parse(file).ok().map(Self)
    }

    /// The kernels by their symbols.
    pub fn kernels(&self) -> Option<Vec<(String, Taken)>> {
        let info = self.0.section_by_name(".nv.info")?.data().ok()?;
        let reserves = |name: &str| name.starts_with(".nv.shared.reserved.");
        let reserves = self
            .0
            .sections()
            .any(|section| section.name().is_ok_and(reserves));
        let reserved = if reserves { RESERVED } else { 0 };
        let found = registers(info).into_iter().filter_map(|(symbol, registers)| {
            let symbol = self.0.symbol_by_index(SymbolIndex(symbol as usize)).ok()?;
            let name = symbol.name().ok()?;
            let shared = self.0.section_by_name(&format!(".nv.shared.{name}"));
            let size = shared.map_or(0, |section| section.size());
            let taken = Taken {
                registers,
                shared: size.saturating_sub(reserved),
            };
            Some((name.to_owned(), taken))
        });
        Some(found.collect())
    }

    /// The number of the virtual architecture whose PTX was assembled.
    pub fn made_from(&self) -> Option<u32> {
        let note = self.0.section_by_name(NOTE)?.data().ok()?;
        let number = |at: usize| Some(u16::from_le_bytes(note.get(at..at + 2)?.try_into().ok()?));
        (number(VERSION_AT)? == VERSION).then_some(())?;
        number(MADE_FROM_AT).map(u32::from)
    }

    /// Whether the code can use no variable: it has none but those that `is_constant` knows by their names,
    /// and nothing that another file defines but functions that `is_known` knows.
    pub fn uses_none(&self, is_constant: impl Fn(&str) -> bool, is_known: impl Fn(&str) -> bool) -> bool {
        let has_nothing = |name: &str| {
            let Some(section) = self.0.section_by_name(name) else {
                return true;
            };
            let mut symbols = self.0.symbols().filter(|symbol| {
                symbol.section_index() == Some(section.index()) && symbol.kind() == SymbolKind::Data
            });
            let is_constant = |name: &str| is_constant(name);
            // A section without symbols has something that is not known.
            let mut any = false;
            let all = symbols.all(|symbol| {
                any = true;
                symbol.name().is_ok_and(is_constant)
            });
            any && all
        };
        let mut undefined = self.0.symbols().filter(|symbol| symbol.is_undefined());
        let is_here = undefined.all(|symbol| {
            let is_system = |name: &str| name.is_empty() || name.starts_with(".nv.reservedSmem.");
            symbol.name().is_ok_and(|name| is_system(name) || is_known(name))
        });
        is_here && VARIABLES.iter().all(|name| has_nothing(name))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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

//! What the tables of a loaded object contain: the libraries it needs and the symbols it leaves to
//! others, read from the tables that the dynamic linker uses; and the bytes of its constants.

use std::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::FileExt;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

const DT_NEEDED: i64 = 1;
const DT_PLTRELSZ: i64 = 2;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// An entry of the dynamic symbol table: `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// A relocation: `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    offset: u64,
    /// The symbol in the upper half.
    info: u64,
    addend: i64,
}

/// A section's header: `Elf64_Shdr`.
#[repr(C)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    entry: u64,
}

/// An object that stays loaded while this lives.
pub struct Object<'a> {
    base: u64,
    headers: &'a [libc::Elf64_Phdr],
    strings: u64,
    symbols: u64,
    /// All symbols before this one are looked at for those that are not defined.
    end: usize,
    needed: Vec<u64>,
}

/// The largest number of a symbol that these relocations name.
///
/// # Safety
/// `table` is valid for reads of `bytes` bytes.
unsafe fn last_symbol(table: *const Relocation, bytes: usize) -> usize {
    // SAFETY: contract of this function.
    let all = unsafe { std::slice::from_raw_parts(table, bytes / size_of::<Relocation>()) };
    all.iter().map(|one| (one.info >> 32) as usize).max().unwrap_or(0)
}

impl<'a> Object<'a> {
    /// Reads an object's tables; none where it has none that can be read (as the vDSO's).
    ///
    /// # Safety
    /// `info` describes an object that stays loaded as long as the result lives.
    pub unsafe fn new(info: &'a libc::dl_phdr_info) -> Option<Self> {
        if info.dlpi_phdr.is_null() {
            return None;
        }
        // SAFETY: the headers are an array of this length.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let dynamic = headers.iter().find(|header| header.p_type == PT_DYNAMIC)?;
        let mut object = Self {
            base: info.dlpi_addr,
            headers,
            strings: 0,
            symbols: 0,
            end: 0,
            needed: Vec::new(),
        };
        let (mut gnu_hash, mut hash) = (0u64, 0u64);
        let (mut relocations, mut plt) = ([0u64; 2], [0u64; 2]);
        let mut entry = (info.dlpi_addr + dynamic.p_vaddr) as *const [i64; 2];
        // SAFETY: the table ends with a zero tag.
        while let [tag, value] = unsafe { *entry }
            && tag != 0
        {
            match tag {
                DT_NEEDED => object.needed.push(value as u64),
                DT_STRTAB => object.strings = value as u64,
                DT_SYMTAB => object.symbols = value as u64,
                DT_GNU_HASH => gnu_hash = value as u64,
                DT_HASH => hash = value as u64,
                DT_RELA => relocations[0] = value as u64,
                DT_RELASZ => relocations[1] = value as u64,
                DT_JMPREL => plt[0] = value as u64,
                DT_PLTRELSZ => plt[1] = value as u64,
                _ => {}
            }
            // SAFETY: not yet at the end.
            entry = unsafe { entry.add(1) };
        }
        // glibc relocates the table's pointers, except in the vDSO, which needs nothing.
        if object.strings < object.base || object.symbols < object.base {
            return None;
        }
        // SAFETY: the hash tables are where the object says. GNU's has the defined symbols, from the one
        // named in its second word on; the old one has as many chains as there are symbols.
        object.end = unsafe {
            if gnu_hash > object.base {
                *(gnu_hash as *const u32).add(1) as usize
            } else if hash > object.base {
                *(hash as *const u32).add(1) as usize
            } else {
                0
            }
        };
        // Where nothing is defined GNU ld writes an empty table, whose second word says nothing. What is not
        // defined here is relocated, so that the relocations name it in any case.
        for [table, bytes] in [relocations, plt] {
            if table > object.base {
                // SAFETY: the table is where the object says, and loaded with it.
                let named = unsafe { last_symbol(table as *const Relocation, bytes as usize) };
                object.end = object.end.max(named + 1);
            }
        }
        Some(object)
    }

    /// The libraries it was linked against.
    pub fn needed(&self) -> impl Iterator<Item = &'a [u8]> {
        self.needed.iter().map(|&offset| self.string(offset))
    }

    /// The names that it leaves to others.
    pub fn undefined(&self) -> impl Iterator<Item = &'a [u8]> {
        let symbols = self.symbols as *const Symbol;
        (1..self.end).filter_map(move |at| {
            // SAFETY: a hash table or a relocation shows that the table has more than `at`
            // symbols.
            let symbol = unsafe { &*symbols.add(at) };
            (symbol.section == 0).then(|| self.string(symbol.name.into()))
        })
    }

    fn string(&self, offset: u64) -> &'a [u8] {
        // SAFETY: offsets of names point at C strings in the string table, which is loaded with the object.
        unsafe { CStr::from_ptr((self.strings + offset) as *const _) }.to_bytes()
    }

    /// The object's constants, as they lie in memory: its file says where. Nothing where the file cannot be
    /// read.
    pub fn constants(&self, file: &File) -> Option<&'a [u8]> {
        let mut header = [0u8; 64];
        file.read_exact_at(&mut header, 0).ok()?;
        let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let table = u64::from_le_bytes(header[40..48].try_into().ok()?);
        let (size, count, names) = (word(58), word(60), word(62));
        if usize::from(size) != size_of::<Section>() {
            return None;
        }
        let section = |at: u16| {
            let mut bytes = [0u8; size_of::<Section>()];
            file.read_exact_at(&mut bytes, table + u64::from(at) * u64::from(size))
                .ok()?;
            // SAFETY: any bytes are a section's header, and this reads them wherever they lie.
            Some(unsafe { bytes.as_ptr().cast::<Section>().read_unaligned() })
        };
        let names = section(names)?;
        let found = (0..count).filter_map(section).find(|section| {
            let mut name = [0u8; 8];
            file.read_exact_at(&mut name, names.offset + u64::from(section.name))
                .is_ok()
                && &name == b".rodata\0"
        })?;
        // The file may have been replaced since it was loaded: only what is loaded is looked at.
        let inside = self.headers.iter().any(|header| {
            header.p_type == PT_LOAD
                && header.p_vaddr <= found.address
                && found
                    .address
                    .checked_add(found.size)
                    .is_some_and(|end| end <= header.p_vaddr + header.p_filesz)
        });
        if !inside {
            return None;
        }
        // SAFETY: the range lies in a loaded segment.
        Some(unsafe {
            std::slice::from_raw_parts((self.base + found.address) as *const u8, found.size as usize)
        })
    }
}

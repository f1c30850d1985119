//! Containers of device code ("fat binaries"): an image for each architecture, as machine code or as PTX.
//!
//! Their layout is not documented; what is read here is what CUDA's tools print of the same files. clang
//! embeds containers as constants, nvcc by assembly of the host's module.
use std::borrow::Cow;
use std::io::Read;

use inkwell::llvm_sys::core::LLVMGetModuleInlineAsm;
use inkwell::llvm_sys::prelude::LLVMModuleRef;

use super::ir::text_of;

/// The section of containers.
pub const SECTION: &str = ".nv_fatbin";
/// Where nvcc puts those whose device code is linked with that of other files.
const RELOCATABLE: &str = "__nv_relfatbin";
/// Begins a container.
const MAGIC: u32 = 0xba55_ed50;

/// Where the fields of an entry's header are.
const HEADER_BYTES: usize = 4;
const BYTES: usize = 8;
const COMPRESSED_BYTES: usize = 16;
const FLAGS: usize = 40;
const WHOLE_BYTES: usize = 56;
/// Flags: how an entry is compressed, and whether its code is for no other architecture than its own.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const SPECIFIC: u64 = 0x10_0000;
/// More than any image has, in bytes.
const LARGEST: u64 = 1 << 30;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// PTX, as text.
    Ptx,
    /// Machine code: an ELF file.
    Elf,
    /// The image is of another kind.
    Other,
}

/// One image of a fat binary.
pub struct FatbinImage<'a> {
    /// What it is.
    pub kind: ImageKind,
    /// Whether it is for this architecture alone (`sm_90a`).
    pub specific: bool,
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> FatbinImage<'a> {
    /// The first entry, and what is behind it.
    fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let header = usize::try_from(number32(bytes, HEADER_BYTES)?).ok()?;
        let end = header.checked_add(usize::try_from(number64(bytes, BYTES)?).ok()?)?;
        let kind = match number16(bytes, 0)? {
            1 => ImageKind::Ptx,
            2 => ImageKind::Elf,
            _ => ImageKind::Other,
        };
        let (header, payload) = (bytes.get(..header)?, bytes.get(header..end)?);
        let entry = Self {
            kind,
            specific: number64(header, FLAGS).unwrap_or(0) & SPECIFIC != 0,
            header,
            payload,
        };
        let moves_on = end > 0;
        moves_on.then_some((entry, bytes.get(end..)?))
    }

    /// The image itself; none where it cannot be decompressed.
    pub fn content(&self) -> Option<Cow<'a, [u8]>> {
        let flags = number64(self.header, FLAGS).unwrap_or(0);
        if flags & (LZ4 | ZSTD) == 0 {
            return Some(Cow::Borrowed(self.payload));
        }
        let size = number64(self.header, WHOLE_BYTES).filter(|&size| size <= LARGEST)?;
        // Behind it the payload is filled up.
        let taken = usize::try_from(number32(self.header, COMPRESSED_BYTES)?).ok()?;
        let packed = self.payload.get(..taken)?;
        let content = if flags & ZSTD != 0 {
            let mut content = Vec::new();
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
            decoder.take(size + 1).read_to_end(&mut content).ok()?;
            content
        } else {
            lz4_flex::block::decompress(packed, usize::try_from(size).ok()?).ok()?
        };
        (content.len() as u64 == size).then_some(Cow::Owned(content))
    }
}

/// The images in containers that stand one after another; none where something else stands there.
pub fn entries(bytes: &[u8]) -> Option<Vec<FatbinImage<'_>>> {
    let mut found = Vec::new();
    let mut rest = bytes;
    // Containers may be filled up.
    while rest.iter().any(|&byte| byte != 0) {
        let header = usize::from(number16(rest, 6)?);
        let end = header.checked_add(usize::try_from(number64(rest, 8)?).ok()?)?;
        let mut inside = (number32(rest, 0)? == MAGIC).then_some(rest.get(header..end)?)?;
        while !inside.is_empty() {
            let (entry, behind) = FatbinImage::first(inside)?;
            found.push(entry);
            inside = behind;
        }
        rest = rest.get(end..).filter(|_| end > 0)?;
    }
    Some(found)
}

/// The containers that a module embeds by assembly.
pub struct Embedded {
    /// Their bytes; none where they cannot be read.
    pub bytes: Option<Vec<u8>>,
    /// Whether their code is linked with that of other files.
    pub relocatable: bool,
}

impl Embedded {
    /// Of a host's module.
    pub fn of(module: LLVMModuleRef) -> Self {
        let mut length = 0;
        // SAFETY: a live module; LLVM gives address and length of a string that the module owns.
        Self::read(&unsafe { text_of(LLVMGetModuleInlineAsm(module, &mut length), length) })
    }

    fn read(assembly: &str) -> Self {
        let mut embedded = Self {
            bytes: Some(Vec::new()),
            relocatable: false,
        };
        let mut inside = false;
        for line in assembly.lines().map(str::trim) {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            match word {
                ".section" | ".pushsection" => {
                    let name = rest.split(',').next().unwrap_or(rest).trim().trim_matches('"');
                    embedded.relocatable |= name == RELOCATABLE;
                    inside = [SECTION, RELOCATABLE].contains(&name);
                }
                ".text" | ".data" | ".bss" | ".popsection" | ".previous" => inside = false,
                _ if !inside || line.is_empty() || line.ends_with(':') || word == ".align" => {}
                ".quad" => embedded.add(rest),
                _ => embedded.bytes = None,
            }
        }
        embedded
    }

    /// Adds numbers of eight bytes each.
    fn add(&mut self, numbers: &str) {
        let bytes = numbers.split(',').map(|number| {
            let digits = number.trim().strip_prefix("0x")?;
            Some(u64::from_str_radix(digits, 16).ok()?.to_le_bytes())
        });
        let bytes: Option<Vec<[u8; 8]>> = bytes.collect();
        match (&mut self.bytes, bytes) {
            (Some(all), Some(bytes)) => all.extend(bytes.concat()),
            _ => self.bytes = None,
        }
    }
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The number at a place, as containers and attributes have it.
pub fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container with an entry of each kind, all of them with the same payload.
    fn sample(payload: &[u8], flags: u64, whole: u64) -> Vec<u8> {
        let mut entries = Vec::new();
        let padded = payload.len().next_multiple_of(8);
        for kind in [1u16, 2, 8] {
            let mut header = vec![0; 64];
            header[..2].copy_from_slice(&kind.to_le_bytes());
            header[HEADER_BYTES..][..4].copy_from_slice(&64u32.to_le_bytes());
            header[BYTES..][..8].copy_from_slice(&(padded as u64).to_le_bytes());
            header[COMPRESSED_BYTES..][..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
            header[FLAGS..][..8].copy_from_slice(&flags.to_le_bytes());
            header[WHOLE_BYTES..][..8].copy_from_slice(&whole.to_le_bytes());
            entries.extend(header);
            entries.extend(payload);
            entries.resize(entries.len() + padded - payload.len(), 0);
        }
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((entries.len() as u64).to_le_bytes());
        bytes.extend(entries);
        bytes
    }

    #[test]
    fn images_of_containers_one_after_another() {
        let two = [sample(b"12345678", SPECIFIC, 0), sample(b"abcdefgh", 0, 0)].concat();
        let found = entries(&two).unwrap();
        let kinds: Vec<ImageKind> = found.iter().map(|one| one.kind).collect();
        assert_eq!(kinds[..3], [ImageKind::Ptx, ImageKind::Elf, ImageKind::Other]);
        assert_eq!(found[5].content().unwrap().as_ref(), b"abcdefgh");
        assert!(found[0].specific && !found[5].specific);
        assert_eq!(entries(&[0; 8]).unwrap().len(), 0);
    }

    #[test]
    fn what_is_cut_short_or_no_container_is_not_known() {
        let whole = sample(b"12345678", 0, 0);
        for end in 1..whole.len() {
            assert!(entries(&whole[..end]).is_none(), "{end}");
        }
        assert!(entries(b"something else, longer than a header").is_none());
        // Sizes that would lead beyond the end, or nowhere.
        for (at, size) in [(8, u64::MAX), (8, 0), (24, u64::MAX)] {
            let mut wrong = whole.clone();
            wrong[at..at + 8].copy_from_slice(&size.to_le_bytes());
            assert!(entries(&wrong).is_none(), "{at} {size}");
        }
    }

    #[test]
    fn compressed_images() {
        let text = b"to be, or not to be, or not to be, or not to be";
        let packed = lz4_flex::block::compress(text);
        let content = |payload: &[u8], flags, whole| {
            let bytes = sample(payload, flags, whole);
            entries(&bytes).unwrap()[0].content().map(Cow::into_owned)
        };
        let whole = text.len() as u64;
        assert_eq!(content(&packed, LZ4, whole).unwrap(), text);
        assert_eq!(content(&packed, LZ4, whole - 1), None);
        assert_eq!(content(&packed, ZSTD, whole), None);
        let packed = ruzstd::encoding::compress_to_vec(
            text.as_slice(),
            ruzstd::encoding::CompressionLevel::Uncompressed,
        );
        assert_eq!(content(&packed, ZSTD, whole).unwrap(), text);
        assert_eq!(content(&packed, ZSTD, whole - 1), None);
        assert_eq!(content(&packed, ZSTD, LARGEST + 1), None);
    }

    #[test]
    fn numbers_in_assembly() {
        let read = Embedded::read(
            ".section .nv_fatbin, \"a\"\n.align 8\nfatbinData:\n.quad 0x0102,0x03\n.text\n.quad 0x04\n",
        );
        assert_eq!(
            read.bytes.unwrap(),
            [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]
        );
        assert!(!read.relocatable);
        let read = Embedded::read(".section __nv_relfatbin, \"a\"\n.incbin \"file\"\n.text\n");
        assert!(read.relocatable && read.bytes.is_none());
        assert_eq!(Embedded::read("nop").bytes, Some(Vec::new()));
    }
}

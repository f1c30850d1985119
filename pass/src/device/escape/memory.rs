//! Memory that ends with the kernel: local variables, parameters in memory, shared memory, and structures that
//! are values. What was put into it is known by the bytes where it lies.
use super::set::{Token, TokenSet};

/// How many cells are told apart.
const CELLS: usize = 96;
/// The bytes of all of a memory.
const ALL: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);

/// Bytes that were written together.
#[derive(Clone, Debug)]
struct MemoryCell {
    /// The first byte, and the one behind the last.
    bytes: (i64, i64),
    set: TokenSet,
}

/// The memory of one kernel, as far as the analysis follows it.
#[derive(Clone, Debug, Default)]
pub struct KernelMemory {
    cells: Vec<MemoryCell>,
    /// Whether there were too many cells: all that it holds is in one.
    is_one: bool,
    /// How its address went where it is not followed, if it did.
    pub escaped: Option<u32>,
}

/// The bytes that an access of `size` bytes may touch from one of these addresses.
pub fn reached(first: i32, last: i32, size: Option<i64>) -> (i64, i64) {
    match size {
        Some(size) if first != i32::MIN => (i64::from(first), i64::from(last).saturating_add(size.max(1))),
        None if first != i32::MIN => (i64::from(first), ALL.1),
        _ => ALL,
    }
}

impl KernelMemory {
    /// Puts something there. Whether that is new.
    pub fn add(&mut self, bytes: (i64, i64), set: &TokenSet) -> bool {
        if set.is_empty() {
            return false;
        }
        if self.cells.len() >= CELLS {
            let mut whole = TokenSet::default();
            for cell in self.cells.drain(..) {
                whole.extend(&cell.set.map(|token| Some(token.mangled())));
            }
            self.is_one = true;
            self.cells.push(MemoryCell {
                bytes: ALL,
                set: whole,
            });
        }
        if self.is_one {
            return self.cells[0].set.extend(&set.map(|token| Some(token.mangled())));
        }
        match self.cells.iter_mut().find(|cell| cell.bytes == bytes) {
            Some(cell) => cell.set.extend(set),
            None => {
                let set = set.clone();
                self.cells.push(MemoryCell { bytes, set });
                true
            }
        }
    }

    /// What may be found in these bytes by a read of `size` of them. A part of what was written is no longer an
    /// address.
    pub fn read(&self, bytes: (i64, i64), size: Option<i64>) -> TokenSet {
        let mut all = TokenSet::default();
        for cell in self.overlapping(bytes) {
            let is_part = size.is_some_and(|size| cell.bytes.1 - cell.bytes.0 != size);
            match is_part && cell.bytes != ALL {
                true => all.extend(&cell.set.map(|token| Some(token.mangled()))),
                false => all.extend(&cell.set),
            };
        }
        all
    }

    /// What may be found anywhere in it.
    pub fn all(&self) -> TokenSet {
        self.read(ALL, None)
    }

    /// What lies in these bytes, each with where it lies from their first on.
    pub fn parts(&self, bytes: (i64, i64)) -> Vec<((i64, i64), TokenSet)> {
        let inside = |cell: &MemoryCell| match cell.bytes {
            ALL => ALL,
            (first, end) => (first.max(bytes.0) - bytes.0, end.min(bytes.1) - bytes.0),
        };
        let whole = |cell: &MemoryCell| match cell.bytes.0 >= bytes.0 && cell.bytes.1 <= bytes.1 {
            true => cell.set.clone(),
            false => cell.set.map(|token| Some(token.mangled())),
        };
        self.overlapping(bytes)
            .map(|cell| (inside(cell), whole(cell)))
            .collect()
    }

    fn overlapping(&self, bytes: (i64, i64)) -> impl Iterator<Item = &MemoryCell> {
        self.cells
            .iter()
            .filter(move |cell| cell.bytes.0 < bytes.1 && bytes.0 < cell.bytes.1)
    }
}

/// Moves bytes that [`KernelMemory::parts`] gave; all of a memory where they would not fit.
pub fn moved(bytes: (i64, i64), by: i64) -> (i64, i64) {
    match bytes {
        ALL => ALL,
        (first, end) => {
            let moved = (first.saturating_add(by), end.saturating_add(by));
            match moved.0 >= ALL.0 && moved.1 <= ALL.1 {
                true => moved,
                false => ALL,
            }
        }
    }
}

/// All bytes of a memory, as a token of it says that they are not known.
pub fn is_all(bytes: (i64, i64)) -> bool {
    bytes == ALL
}

impl KernelMemory {
    /// Whatever is not followed may write there from now on.
    pub fn open(&mut self) -> bool {
        self.add(ALL, &TokenSet::of(Token::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_apart() {
        let mut memory = KernelMemory::default();
        memory.add((0, 8), &TokenSet::of(Token::Address(1)));
        assert!(!memory.add((0, 8), &TokenSet::of(Token::Address(1))));
        memory.add((16, 24), &TokenSet::of(Token::Address(2)));
        assert_eq!(memory.read((0, 8), Some(8)), TokenSet::of(Token::Address(1)));
        assert_eq!(memory.read((8, 16), Some(8)), TokenSet::default());
        assert_eq!(memory.read((4, 8), Some(4)), TokenSet::of(Token::Bits(1)));
        assert_eq!(
            memory.parts((8, 24)),
            [((8, 16), TokenSet::of(Token::Address(2)))]
        );
    }

    #[test]
    fn too_many_fields_are_one() {
        let mut memory = KernelMemory::default();
        for at in 0..200 {
            memory.add((at * 8, at * 8 + 8), &TokenSet::of(Token::Address(at as u32)));
        }
        assert_eq!(memory.all().iter().count(), 200);
        assert!(memory.read((1600, 1608), Some(8)).holds_given());
    }
}

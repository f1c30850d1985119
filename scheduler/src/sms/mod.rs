//! What runs on the multiprocessors of a GPU: the books of policies for which
//! compute is a hard limit.
//!
//! The hardware gives the blocks of a grid to its multiprocessors in turn, each
//! as long as blocks, warps, registers and shared memory of it last. [`Sms`]
//! keeps what is left of each and where the next block goes, and says for a
//! launch what that would come to, without going through its blocks one by one:
//! of `n` blocks over multiprocessors with room for `c` each, every one gets
//! `min(c, r)`, with the most full rounds `r` for which these sums are at most
//! `n`, and the first ones in turn with room left get one of the rest each.

mod shape;

pub use shape::{SmShape, TaskLaunch};

use mgb_probe::Multiprocessors;

/// What is left of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SmRoom {
    blocks: u16,
    warps: u16,
    registers: u16,
    shared: u16,
}

impl SmRoom {
    /// Blocks of the shape that still find a place.
    fn room(&self, shape: &SmShape) -> u32 {
        let by = |left: u16, each: u16| left.checked_div(each).map_or(u32::MAX, u32::from);
        u32::from(self.blocks)
            .min(by(self.warps, shape.warps))
            .min(by(self.registers, shape.registers))
            .min(by(self.shared, shape.shared))
            .min(shape.per_sm)
    }
}

/// Where the blocks of a launch are: how many on each multiprocessor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    counts: Box<[u16]>,
    next: usize,
}

impl Spread {
    /// Blocks in all.
    pub fn blocks(&self) -> u32 {
        self.counts.iter().map(|&count| u32::from(count)).sum()
    }

    /// Blocks on each multiprocessor.
    pub fn counts(&self) -> &[u16] {
        &self.counts
    }
}

/// The multiprocessors of a GPU, and what runs on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sms {
    kind: Multiprocessors,
    left: Vec<SmRoom>,
    /// Sums of what is left, in the order of [`SmRoom`].
    sums: [u32; 4],
    /// The multiprocessor that the next block is offered first.
    next: usize,
}

impl Sms {
    /// Multiprocessors with nothing on them.
    pub fn new(kind: Multiprocessors) -> Sms {
        let (registers, shared) = shape::units(&kind);
        let clamp = |amount: u32| u16::try_from(amount).unwrap_or(u16::MAX);
        let left = SmRoom {
            blocks: clamp(kind.blocks),
            warps: clamp(kind.warps),
            registers: clamp(registers),
            shared: clamp(shared),
        };
        let all = |each: u16| kind.count * u32::from(each);
        Sms {
            kind,
            left: vec![left; kind.count as usize],
            sums: [
                all(left.blocks),
                all(left.warps),
                all(left.registers),
                all(left.shared),
            ],
            next: 0,
        }
    }

    /// What they are.
    pub fn kind(&self) -> &Multiprocessors {
        &self.kind
    }

    /// Blocks of the shape that find a place now.
    pub fn room(&self, shape: &SmShape) -> u32 {
        self.left.iter().map(|left| left.room(shape)).sum()
    }

    /// Whether all blocks of the shape find a place now.
    pub fn fits(&self, shape: &SmShape) -> bool {
        // Most launches that find none are told by the sums already.
        let enough =
            |(&left, each): (&u32, u32)| u64::from(left) >= u64::from(each) * u64::from(shape.blocks);
        if !self.sums.iter().zip(shape.each()).all(enough) {
            return false;
        }
        let mut room = 0;
        self.left.iter().any(|left| {
            room += left.room(shape);
            room >= shape.blocks
        })
    }

    /// Where the blocks of the shape go: as many of them as find a place.
    pub fn spread(&self, shape: &SmShape) -> Spread {
        let rooms: Vec<u32> = self.left.iter().map(|left| left.room(shape)).collect();
        let blocks = shape.blocks.min(rooms.iter().sum());
        let placed = |rounds: u32| rooms.iter().map(|&room| room.min(rounds)).sum::<u32>();
        // The last round, in which not all may get one: the first that is enough for all blocks.
        let (mut low, mut high) = (0, shape.per_sm);
        while low < high {
            let middle = (low + high) / 2;
            if placed(middle) < blocks {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let full = low.saturating_sub(1);
        let mut rest = blocks - placed(full);
        let mut counts: Box<[u16]> = rooms.iter().map(|&room| room.min(full) as u16).collect();
        let mut next = self.next;
        for step in 0..rooms.len() {
            if rest == 0 {
                break;
            }
            let at = (self.next + step) % rooms.len();
            if rooms[at] > full {
                counts[at] += 1;
                rest -= 1;
                next = (at + 1) % rooms.len();
            }
        }
        Spread { counts, next }
    }

    /// The blocks begin to run.
    pub fn charge(&mut self, shape: &SmShape, spread: &Spread) {
        for (left, &count) in self.left.iter_mut().zip(&spread.counts) {
            left.blocks -= count;
            left.warps -= count * shape.warps;
            left.registers -= count * shape.registers;
            left.shared -= count * shape.shared;
        }
        let blocks = spread.blocks();
        for (sum, each) in self.sums.iter_mut().zip(shape.each()) {
            *sum -= blocks * each;
        }
        self.next = spread.next;
    }

    /// The blocks are done.
    pub fn release(&mut self, shape: &SmShape, spread: &Spread) {
        for (left, &count) in self.left.iter_mut().zip(&spread.counts) {
            left.blocks += count;
            left.warps += count * shape.warps;
            left.registers += count * shape.registers;
            left.shared += count * shape.shared;
        }
        let blocks = spread.blocks();
        for (sum, each) in self.sums.iter_mut().zip(shape.each()) {
            *sum += blocks * each;
        }
    }
}

#[cfg(test)]
mod tests;

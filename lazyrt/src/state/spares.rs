//! Spares: a few granules of memory that freed objects left, still mapped. A program that allocates and
//! frees a small object in a loop gets the same memory again, without a call to the driver.
//!
//! They are no task's and not charged as room: what a process may keep in this way is part of what its
//! context is charged ([`mgb_probe::need::spare_bytes`]).

use std::collections::BTreeMap;

use mgb_core::arena::Arena;
use mgb_core::memory::Physical;
use mgb_probe::need::{GRANULE, spare_bytes};

use super::extent::{Backing, Extent, Key};
use crate::session;

/// Address, length, GPU, memory.
pub type Mapped = (u64, u64, u32, Physical);

/// Bytes that may be kept. They are counted over all GPUs, so that the process keeps less than it is charged
/// for.
fn most(gpu: u32) -> u64 {
    session::gpu(gpu).map_or(0, |gpu| spare_bytes(gpu.usable_bytes))
}

/// The granules that are kept.
#[derive(Debug, Default)]
pub struct Spares {
    list: Vec<(u64, u32, Physical)>,
    /// Granules that are behind extents of tasks without having been charged to them yet.
    waiting: u64,
}

impl Spares {
    /// Keeps a granule. What is not kept comes back, to be released.
    pub fn keep(&mut self, address: u64, length: u64, gpu: u32, memory: Physical) -> Option<Mapped> {
        if length == GRANULE && self.list.len() as u64 + self.waiting < most(gpu) / GRANULE {
            self.list.push((address, gpu, memory));
            return None;
        }
        Some((address, length, gpu, memory))
    }

    /// Bytes kept on the GPU.
    pub fn bytes_on(&self, gpu: u32) -> u64 {
        self.list.iter().filter(|(_, there, _)| *there == gpu).count() as u64 * GRANULE
    }

    /// An extent of one granule for the task: a spare one, else one at new addresses.
    pub fn take_or(
        &mut self,
        arena: &mut Arena,
        key: Key,
        extents: &mut BTreeMap<u64, Extent>,
    ) -> Option<u64> {
        let (address, backing) = match self.list.pop() {
            Some((address, gpu, memory)) => {
                self.waiting += 1;
                (address, Backing::Spare(gpu, memory))
            }
            None => (arena.take(GRANULE)?.0, Backing::None),
        };
        extents.insert(
            address,
            Extent {
                backing,
                ..Extent::new(GRANULE, key)
            },
        );
        Some(address)
    }

    /// A granule that was behind an extent is charged to a task now, or comes back.
    pub fn settle(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A granule backs an extent again, not charged: the charge was undone.
    pub fn unsettle(&mut self) {
        self.waiting += 1;
    }

    /// All of them, to be released.
    pub fn take_all(&mut self) -> Vec<Mapped> {
        let list = std::mem::take(&mut self.list).into_iter();
        list.map(|(address, gpu, memory)| (address, GRANULE, gpu, memory))
            .collect()
    }
}

//! From device memory to the host: the bytes of pieces of memory are copied, and each piece is freed as soon as
//! its bytes are in the host, while those behind it are still on their way.

use mgb_abi::error::Code;

use super::physical::Range;
use crate::host_bytes::{self, Budget, HostBytes};
use crate::staged_copy::{Piece, Pieces};
use crate::swaps::{Spent, Watch};
use crate::transfer::Copies;

/// Memory that is to leave a device.
///
/// # Safety
/// While [`offload`] runs nobody uses what [`Offload::next`] answers, which stays mapped until [`Offload::done`].
pub unsafe trait Offload {
    /// The next piece, mapped where the thread's context can read it. `None`: there is no other one, or it
    /// cannot leave.
    fn next(&mut self) -> Option<Range>;

    /// The bytes of a piece, by its place in the order, are in the host: its device memory is freed.
    fn done(&mut self, index: usize, bytes: HostBytes);
}

/// Brings all of it to the host, as far as there is host memory; the bytes that left. `no_room` is told of the
/// first piece that finds none.
pub fn offload(
    copies: &Copies,
    memory: &mut dyn Offload,
    no_room: fn(&str),
    watch: &mut Watch,
) -> (u64, Result<(), Code>) {
    let mut pass = Pass {
        memory,
        hosts: Vec::new(),
        budget: Budget::now(),
        left: 0,
        no_room,
        watch,
    };
    let copied = copies.out(&mut pass);
    pass.watch.book(Spent::Copy);
    (pass.left, copied)
}

struct Pass<'a> {
    memory: &'a mut dyn Offload,
    /// The host memory of those that have begun; `None` once they are done.
    hosts: Vec<Option<HostBytes>>,
    budget: Budget,
    left: u64,
    no_room: fn(&str),
    watch: &'a mut Watch,
}

// SAFETY: nobody uses the device memory until it is done (contract of `Offload`); the host memory is this value's
// own until then.
unsafe impl Pieces for Pass<'_> {
    fn next(&mut self) -> Option<Piece> {
        self.watch.book(Spent::Copy);
        let range = self.memory.next()?;
        let Some(mut bytes) = self.budget.take(range.bytes as usize) else {
            (self.no_room)(&host_bytes::too_little(range.bytes));
            return None;
        };
        let piece = Piece {
            device: range.start,
            host: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        self.hosts.push(Some(bytes));
        self.watch.book(Spent::Host);
        Some(piece)
    }

    fn done(&mut self, index: usize) {
        self.watch.book(Spent::Copy);
        if let Some(bytes) = self.hosts[index].take() {
            self.left += bytes.len() as u64;
            self.memory.done(index, bytes);
        }
        self.watch.book(Spent::Map);
    }
}

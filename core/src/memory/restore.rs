//! From the host back to device memory: one piece gets memory while the copies of those before it are under way.

use mgb_abi::error::Code;

use super::physical::Range;
use crate::host_bytes::{self, HostBytes};
use crate::staged_copy::{Piece, Pieces};
use crate::swaps::{Spent, Watch};
use crate::transfer::Copies;

/// Memory that is to come back to a device.
///
/// # Safety
/// While [`restore`] runs nobody uses what [`Restore::next`] answers.
pub unsafe trait Restore {
    /// The next piece, with new memory that is mapped where the thread's context can write it, and its bytes.
    /// `None`: there is no other one, or no memory for it.
    fn next(&mut self) -> Option<(Range, HostBytes)>;

    /// The bytes of a piece, by its place in the order, are in its memory.
    fn done(&mut self, index: usize);

    /// They are not, and stay in the host: a copy has failed.
    fn failed(&mut self, index: usize, bytes: HostBytes);
}

/// Brings the bytes back; how many came, and the first failure of a copy.
pub fn restore(copies: &Copies, memory: &mut dyn Restore, watch: &mut Watch) -> (u64, Result<(), Code>) {
    let mut pass = Pass {
        memory,
        hosts: Vec::new(),
        gone: Vec::new(),
        watch,
    };
    let copied = copies.back(&mut pass);
    pass.watch.book(Spent::Copy);
    for index in 0..pass.hosts.len() {
        if let Some(bytes) = pass.hosts[index].take() {
            pass.memory.failed(index, bytes);
        }
    }
    let came = pass.gone.iter().map(|bytes| bytes.len() as u64).sum();
    host_bytes::free(pass.gone);
    pass.watch.book(Spent::Host);
    (came, copied)
}

struct Pass<'a> {
    memory: &'a mut dyn Restore,
    /// The bytes of those that have begun; `None` once they are there.
    hosts: Vec<Option<HostBytes>>,
    /// Host memory that is not needed any more.
    gone: Vec<HostBytes>,
    watch: &'a mut Watch,
}

// SAFETY: nobody uses the new device memory (contract of `Restore`); the host memory is this value's own.
unsafe impl Pieces for Pass<'_> {
    fn next(&mut self) -> Option<Piece> {
        self.watch.book(Spent::Copy);
        let next = self.memory.next();
        self.watch.book(Spent::Map);
        let (range, mut bytes) = next?;
        let piece = Piece {
            device: range.start,
            host: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        self.hosts.push(Some(bytes));
        Some(piece)
    }

    fn done(&mut self, index: usize) {
        if let Some(bytes) = self.hosts[index].take() {
            self.memory.done(index);
            self.gone.push(bytes);
        }
    }
}

//! From device memory to the host: the bytes of extents are copied, and their memory is freed, one extent
//! beside the other.

use mgb_core::driver::Driver;
use mgb_core::host_bytes::{self, Budget, HostBytes};
use mgb_core::staged_copy::{Piece, Pieces};
use mgb_core::swaps::{Spent, Watch};
use mgb_core::transfer::Copies;

use crate::state::{Backing, Part};
use crate::{device, driver_start, margin, notice, session};

/// Brings the bytes of extents to the host, and frees their memory, as far as that is possible; the bytes
/// that left. The GPU is current on this thread and has no work with them.
pub fn save_all(parts: &mut [Part], gpu: u32, watch: &mut Watch) -> u64 {
    let Ok(driver) = driver_start::get() else {
        return 0;
    };
    let _relaxed = device::RelaxedCapture::begin();
    let bytes = parts.iter().map(|part| part.length).sum();
    let failed = |code| notice::once("swap", format_args!("failed to swap out ({code})"));
    let copies = match Copies::begin(driver, bytes, watch) {
        Ok(copies) => copies,
        Err(code) => {
            failed(code);
            return 0;
        }
    };
    let mut leaving = Leaving {
        driver,
        gpu,
        parts,
        hosts: Vec::new(),
        budget: Budget::now(),
        left: 0,
        watch,
    };
    if let Err(code) = copies.out(&mut leaving) {
        failed(code);
    }
    leaving.watch.book(Spent::Copy);
    leaving.left
}

/// Extents on their way.
struct Leaving<'a> {
    driver: &'static Driver,
    gpu: u32,
    parts: &'a mut [Part],
    /// The host memory of those that have begun; `None` where it is theirs already.
    hosts: Vec<Option<HostBytes>>,
    budget: Budget,
    left: u64,
    watch: &'a mut Watch,
}

// SAFETY: the gate is closed and the GPU at rest, so nobody uses the device memory, which is freed once it is
// copied. The host memory is this value's own until then.
unsafe impl Pieces for Leaving<'_> {
    fn next(&mut self) -> Option<Piece> {
        self.watch.book(Spent::Copy);
        let part = self.parts.get(self.hosts.len())?;
        let Some(mut bytes) = self.budget.take(part.length as usize) else {
            notice::once(
                "host-memory",
                format_args!("{}", host_bytes::too_little(part.length)),
            );
            return None;
        };
        let piece = Piece {
            device: part.address,
            host: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        self.hosts.push(Some(bytes));
        self.watch.book(Spent::Host);
        Some(piece)
    }

    fn done(&mut self, index: usize) {
        self.watch.book(Spent::Copy);
        let part = &mut self.parts[index];
        let Some(bytes) = self.hosts[index].take() else {
            return;
        };
        self.left += part.length;
        session::unmapping(self.gpu, part.length);
        if let Backing::Device(memory) = std::mem::replace(&mut part.backing, Backing::Host(bytes))
            && let Err(failure) = margin::release(self.driver, part.range(), memory)
        {
            notice::once("release", format_args!("failed to free device memory: {failure}"));
        }
        self.watch.book(Spent::Map);
    }
}

//! Events that processes share: what `cudaIpcEventHandle_t` stands for.
//!
//! Such an event has a page in a file in memory, which a process with the handle opens through the owner's
//! `/proc` entry, as with memory. Each record takes a number, and the page says which is the last one taken
//! and the last one passed. What another process recorded is waited for by looking again and again; if that
//! process is gone, nothing is waited for. Nodes of graphs see only what their own process recorded.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use mgb_abi::ipc::HANDLE_BYTES;
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};
use crate::ipc::Header;
use crate::pages::PAGE;

/// What a handle holds: as large as CUDA's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHandle {
    header: Header,
    reserved: [u64; 5],
}

const MAGIC: [u8; 8] = *b"sgpu-evt";

const _: () = assert!(size_of::<EventHandle>() == HANDLE_BYTES);

/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_micros(50);

/// What the processes share.
#[repr(C)]
struct Page {
    /// The number of the last record.
    recorded: AtomicU64,
    /// The number of the last record that has passed.
    passed: AtomicU64,
    /// The process that recorded last.
    recorder: AtomicU32,
}

/// One process's view of it.
pub struct SharedEvent {
    /// Open as long as another process may be given a handle to it.
    file: File,
    page: &'static Page,
}

/// A record of another process.
pub struct ForeignRecord {
    page: &'static Page,
    number: u64,
    recorder: u32,
}

impl SharedEvent {
    /// A new one, never recorded.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM`.
    pub fn new() -> Result<SharedEvent> {
        let make = || -> io::Result<File> {
            let file = File::from(rustix::fs::memfd_create(
                "softgpu-shared-event",
                MemfdFlags::CLOEXEC,
            )?);
            file.set_len(PAGE as u64)?;
            Ok(file)
        };
        SharedEvent::of(make().map_err(|_| Error::OPERATING_SYSTEM)?)
    }

    /// Opens another process's handle.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is none or whose owner is gone, `INVALID_CONTEXT` for one of this process.
    pub fn open(handle: &EventHandle) -> Result<SharedEvent> {
        handle.header.check(MAGIC)?;
        SharedEvent::of(handle.header.open(PAGE as u64)?)
    }

    fn of(file: File) -> Result<SharedEvent> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping of a file of this length, which is never shortened; all fields are atomics,
        // for which any bytes are a value. It stays for the life of the process, since records may still be
        // on their way.
        let page = unsafe {
            let address = rustix::mm::mmap(std::ptr::null_mut(), PAGE, access, flags, &file, 0);
            &*address.map_err(|_| Error::OPERATING_SYSTEM)?.cast::<Page>()
        };
        Ok(SharedEvent { file, page })
    }

    /// A handle to it.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM`.
    pub fn handle(&self) -> Result<EventHandle> {
        Ok(EventHandle {
            header: Header::of(MAGIC, &self.file)?,
            reserved: [0; 5],
        })
    }

    /// Takes the number of a record; what is returned is called when it has passed.
    pub fn record(&self) -> impl FnOnce() + Send + 'static {
        let page = self.page;
        page.recorder.store(std::process::id(), SeqCst);
        let number = page.recorded.fetch_add(1, SeqCst) + 1;
        move || {
            page.passed.fetch_max(number, SeqCst);
        }
    }

    /// The last record, if it is another process's.
    pub fn foreign(&self) -> Option<ForeignRecord> {
        let number = self.page.recorded.load(SeqCst);
        let recorder = self.page.recorder.load(SeqCst);
        (number > 0 && recorder != std::process::id()).then_some(ForeignRecord {
            page: self.page,
            number,
            recorder,
        })
    }
}

impl ForeignRecord {
    /// Whether it has passed, or never will.
    pub fn passed(&self) -> bool {
        self.page.passed.load(SeqCst) >= self.number
            || !std::path::Path::new(&format!("/proc/{}", self.recorder)).exists()
    }

    /// Waits until it has.
    pub fn wait(&self) {
        while !self.passed() {
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_passed_when_it_says_so() {
        let shared = SharedEvent::new().unwrap();
        assert!(shared.foreign().is_none());
        let (first, second) = (shared.record(), shared.record());
        assert!(shared.foreign().is_none());
        // As if another process had recorded: process 1 is always there.
        shared.page.recorder.store(1, SeqCst);
        let foreign = shared.foreign().unwrap();
        first();
        assert!(!foreign.passed());
        second();
        assert!(foreign.passed());
        shared.page.recorded.store(9, SeqCst);
        shared.page.recorder.store(u32::MAX, SeqCst);
        assert!(shared.foreign().unwrap().passed());
    }
}

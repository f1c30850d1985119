//! What `mgbd` reads, for the fuzzer: its side of a channel, without a process at the other end, the line to
//! the holder, and files.

use std::fmt::Debug;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use mgb_interface::holder::wire::{FromHolder, ToHolder};
use mgb_probe::mapping::{Mapping, SharedLayout};
use mgb_probe::wire::{CELLS, CHANNEL_BYTES, Channel, POSTED, Reply, Request, VERSION};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::MemfdFlags;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::broker::Remembered;
use crate::channel_memory::ChannelMemory;
use crate::client::ClientId;
use crate::daemon::accept::greet::Guest;
use crate::daemon::accept::identity::Identity;
use crate::daemon::client::Client;
use crate::daemon::{accept::subordinate, history_file};
use crate::note::Note;
use crate::quota::file::Quotas;
use crate::settings;

/// The channel as plain words.
#[repr(C)]
struct FuzzedChannel([AtomicU64; CHANNEL_BYTES / 8]);

// SAFETY: it consists of atomics only, and zeros are a valid value of them.
unsafe impl SharedLayout for FuzzedChannel {}

/// A channel and what takes requests out of it.
pub struct Taker {
    client: Client,
    /// As the client has it.
    mapping: Mapping,
}

impl Taker {
    /// With an empty channel.
    pub fn new(id: ClientId) -> Taker {
        let memory = rustix::fs::memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&memory, CHANNEL_BYTES as u64).expect("memory");
        let mapping = Mapping::new(&memory, CHANNEL_BYTES, true).expect("memory");
        let own = ChannelMemory::new(&memory, true).expect("memory");
        let bell = || -> OwnedFd { eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd") };
        let guest = Guest {
            pid: id as u32,
            whose: Identity {
                uid: 0,
                account: 0,
                administers: true,
            },
            pidfd: pidfd_open(getpid(), PidfdFlags::empty()).expect("this process"),
            doorbell: bell(),
            mapping: own,
            memory,
            observer: false,
            job: 0,
            version: VERSION,
        };
        Taker {
            client: Client::new(id, guest, bell(), false),
            mapping,
        }
    }

    /// Writes a word anywhere.
    pub fn write(&self, at: usize, word: u64) {
        let words: &FuzzedChannel = self.mapping.shared().expect("it is mapped whole");
        words.0[at].store(word, Ordering::Relaxed);
    }

    /// Posts a request, of an operation that exists or not; `flags` are its lowest.
    pub fn post(&self, cell: usize, op: u32, task: u64, bytes: u64, flags: u8) {
        let channel: &Channel = self.mapping.shared().expect("it is mapped whole");
        let (at, cell) = (cell % CELLS, &channel.cells[cell % CELLS]);
        let word = u64::from(op % 16) | u64::from(flags) << 32;
        for (place, word) in [
            (0, word),
            (1, task),
            (2, 1),
            (3, u64::MAX),
            (4, bytes),
            (6, bytes),
        ] {
            cell.request[place].store(word, Ordering::Relaxed);
        }
        cell.state.store(POSTED, Ordering::Release);
        channel.posted.fetch_or(1 << at, Ordering::Release);
    }

    /// The requests that were posted, by cell; `None`: the client is to be cut off.
    pub fn take(&mut self) -> Option<Vec<(usize, Request)>> {
        self.client.take(CELLS).ok()
    }

    /// Answers the request in a cell.
    pub fn answer(&mut self, cell: usize, reply: &Reply) {
        self.client.write(cell, reply);
        self.client.answer(cell);
    }
}

/// Any bytes are a message between `mgbd` and its holder, or none; one that is says the same when it is
/// written anew.
pub fn line(bytes: &[u8]) {
    reads_back::<ToHolder>(bytes);
    reads_back::<FromHolder>(bytes);
}

fn reads_back<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(message) = serde_json::from_slice::<T>(bytes) {
        let text = serde_json::to_vec(&message).expect("a message is JSON");
        assert_eq!(
            serde_json::from_slice::<T>(&text).expect("what was written"),
            message
        );
    }
}

/// A file with these bytes, and its name.
fn file(bytes: &[u8]) -> (OwnedFd, PathBuf) {
    let file = rustix::fs::memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("memory");
    rustix::io::write(&file, bytes).expect("memory");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    (file, path)
}

/// What programs took before, as any bytes say it; `None`: they say nothing.
pub fn past(bytes: &[u8]) -> Option<Remembered> {
    let (_file, path) = file(bytes);
    history_file::read(&path).ok()
}

/// Any bytes are settings of mgbd and of programs, quotas, subordinate users and a lock file's note, or a
/// mistake.
pub fn files(bytes: &[u8]) {
    let (_file, path) = file(bytes);
    let _ = mgb_probe::site::read(&path);
    if let Ok(arguments) = settings::arguments(&path) {
        let is_option = |argument: &std::ffi::OsString| argument.as_encoded_bytes().starts_with(b"--");
        assert!(arguments.iter().all(is_option), "{arguments:?}");
    }
    if let Ok(quotas) = Quotas::read_unnamed(&path) {
        for uid in [0, 1000, u32::MAX] {
            assert!(quotas.account_without_groups(uid).weight > 0);
        }
    }
    subordinate::check(&String::from_utf8_lossy(bytes));
    let opened = std::fs::File::open(&path).expect("it is there");
    let _ = Note::read(&opened);
}

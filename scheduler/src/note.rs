//! What an `mgbd` notes about itself in its lock file, for who clears away after it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mgb_probe::lock_path;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// The note.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Its process.
    pub(crate) pid: u32,
    /// POSIX shared-memory names of its node views.
    #[serde(default)]
    pub(crate) views: Vec<String>,
    /// The socket's file, by device and number.
    #[serde(default)]
    pub(crate) socket: Option<(u64, u64)>,
}

impl Note {
    /// Removes the node views.
    pub(crate) fn remove_views(&self) {
        // Only names of the form `shared_memory` gives, whatever the note says.
        let is_one = |name: &&String| name.starts_with("/shmem_") && !name[1..].contains('/');
        for name in self.views.iter().filter(is_one) {
            let _ = rustix::shm::unlink(name.as_str());
        }
    }
}

/// The file that a path names now, by device and number.
pub(crate) fn file_at(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Clears away what an `mgbd` that was killed left at its socket, unless another one is there.
pub(crate) fn clear_away(socket: &Path) {
    let Ok(mut lock) = File::options().read(true).write(true).open(lock_path(socket)) else {
        return;
    };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let mut text = String::new();
    let _ = lock.read_to_string(&mut text);
    let Ok(note) = serde_json::from_str::<Note>(&text) else {
        return;
    };
    note.remove_views();
    if note.socket.is_some() && note.socket == file_at(socket) {
        let _ = std::fs::remove_file(socket);
    }
    let _ = lock.set_len(0);
}

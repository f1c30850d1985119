//! What an `mgbd` notes about itself in its lock file, for who clears away after it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mgb_interface::folders::{file_at, unshare};
use mgb_probe::lock_path;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// What is written of an `mgbd` that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The process id of that `mgbd`.
    pub(crate) pid: u32,
    /// POSIX shared-memory names of its node views.
    #[serde(default)]
    pub(crate) views: Vec<String>,
    /// The socket's file, by device and number.
    #[serde(default)]
    pub(crate) socket: Option<(u64, u64)>,
}

impl Note {
    /// The note in a lock file: one of which a longer one's end is left is read as well, for its writer may
    /// be killed at any moment.
    pub(crate) fn read(mut lock: &File) -> Option<Note> {
        let mut text = Vec::new();
        lock.read_to_end(&mut text).ok()?;
        serde_json::Deserializer::from_slice(&text)
            .into_iter()
            .next()?
            .ok()
    }

    /// Writes it in place of the one before, which is there until this one is.
    pub(crate) fn write(&self, lock: &File) -> std::io::Result<()> {
        let text = serde_json::to_vec(self)?;
        lock.write_all_at(&text, 0)?;
        lock.set_len(text.len() as u64)
    }

    /// Removes the node views.
    pub(crate) fn remove_views(&self) {
        // Only names of the form that `mgbd` gives, whatever the note says.
        let is_one = |name: &&String| name.starts_with("/shmem_") && !name[1..].contains('/');
        for name in self.views.iter().filter(is_one) {
            let _ = rustix::shm::unlink(name.as_str());
        }
    }
}

/// Clears away what an `mgbd` that was killed left at its socket, unless another one is there.
pub(crate) fn clear_away(socket: &Path) {
    let Ok(lock) = File::options().read(true).write(true).open(lock_path(socket)) else {
        return;
    };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let Some(note) = Note::read(&lock) else {
        return;
    };
    note.remove_views();
    if let Some(file) = note.socket
        && file_at(socket) == Some(file)
    {
        unshare(socket, file);
        let _ = std::fs::remove_file(socket);
    }
    let _ = lock.set_len(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_was_written_over_a_longer_one_in_part_is_read() {
        let long = Note {
            pid: 1,
            views: vec!["/shmem_1".to_owned(), "/shmem_2".to_owned()],
            socket: Some((1, 2)),
        };
        let short = Note {
            pid: 12,
            ..Note::default()
        };
        let (written, old) = (
            serde_json::to_vec(&short).unwrap(),
            serde_json::to_vec(&long).unwrap(),
        );
        let lock = tempfile::tempfile().unwrap();
        // Killed before the file was cut.
        lock.write_all_at(&[&written, &old[written.len()..]].concat(), 0)
            .unwrap();
        assert_eq!(Note::read(&lock), Some(short));
        lock.set_len(0).unwrap();
        assert_eq!(Note::read(&lock), None);
        long.write(&lock).unwrap();
        std::io::Seek::rewind(&mut &lock).unwrap();
        assert_eq!(Note::read(&lock), Some(long));
    }
}

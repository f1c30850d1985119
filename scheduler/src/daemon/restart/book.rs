//! The journal's file: memory that no disk has to have room for, and that outlives `mgbd` with the holder.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use mgb_probe::mapping::Mapping;
use rustix::fs::{FallocateFlags, MemfdFlags};

use crate::journal::{Image, JournalLine};

/// How much longer than twice a new one it may become until it is written anew.
const SPARE: usize = 1 << 20;

/// A journal that is written.
pub(crate) struct Book {
    file: OwnedFd,
    /// The file: a system call for each line would cost as much as the rest of an answer.
    mapping: Mapping,
    /// Bytes that are written.
    bytes: usize,
    image: Image,
}

impl Book {
    /// A new one that says this.
    pub(crate) fn new(image: Image) -> io::Result<Book> {
        let line = line(&image.record())?;
        let room = 2 * line.len() + SPARE;
        let file = rustix::fs::memfd_create("mgb-journal", MemfdFlags::CLOEXEC)?;
        // All of it now: where there is no memory a write to the mapping would be fatal.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, room as u64)?;
        let mapping = Mapping::new(&file, room, true)?;
        mapping.write(0, &line);
        Ok(Book {
            file,
            mapping,
            bytes: line.len(),
            image,
        })
    }

    /// What a journal of an earlier `mgbd` says.
    pub(crate) fn read(file: OwnedFd) -> io::Result<Image> {
        let file = File::from(file);
        let mut text = vec![0; file.metadata()?.len() as usize];
        // The descriptor's place in the file is its writer's.
        file.read_exact_at(&mut text, 0)?;
        Ok(Image::read(&text))
    }

    /// Takes a step down. True: in a new file.
    pub(crate) fn add(&mut self, record: JournalLine) -> io::Result<bool> {
        let line = line(&record)?;
        self.image.apply(record);
        if !self.mapping.write(self.bytes, &line) {
            let image = std::mem::take(&mut self.image);
            *self = Book::new(image)?;
            return Ok(true);
        }
        self.bytes += line.len();
        Ok(false)
    }
}

impl AsFd for Book {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn line(record: &JournalLine) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::KnownClient;

    #[test]
    fn it_stays_short_and_says_the_same() {
        let mut book = Book::new(Image::default()).unwrap();
        let mut anew = 0;
        for id in 1..40_000 {
            let known = KnownClient {
                id,
                pid: 1,
                uid: 0,
                reader: None,
                job: 0,
                version: 12,
            };
            let record = JournalLine {
                came: vec![known],
                gone: vec![id - 1],
                ..JournalLine::default()
            };
            anew += u32::from(book.add(record).unwrap());
        }
        assert!(anew > 0);
        let read = Book::read(book.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(read, book.image);
        assert_eq!((read.clients.len(), read.next_client), (1, 40_000));
    }
}

//! The journal's file: memory that no disk has to have room for, and that outlives `mgbd` with the holder.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::MemfdFlags;

use crate::journal::{Image, Record};

/// How much longer than twice a new one it may become until it is written anew.
const SPARE: u64 = 1 << 20;

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Book {
    file: File,
    bytes: u64,
    /// Its bytes when it was new.
    first: u64,
    image: Image,
}

impl Book {
    /// A new one that says this.
    pub(super) fn new(image: Image) -> io::Result<Book> {
        let file = File::from(rustix::fs::memfd_create("mgb-journal", MemfdFlags::CLOEXEC)?);
        let line = line(&image.record())?;
        file.write_all_at(&line, 0)?;
        let bytes = line.len() as u64;
        Ok(Book {
            file,
            bytes,
            first: bytes,
            image,
        })
    }

    /// What a journal of an earlier `mgbd` says.
    pub(super) fn read(file: OwnedFd) -> io::Result<Image> {
        let file = File::from(file);
        let mut text = vec![0; file.metadata()?.len() as usize];
        // The descriptor's place in the file is its writer's.
        file.read_exact_at(&mut text, 0)?;
        Ok(Image::read(&text))
    }

    /// Takes a step down. True: in a new file.
    pub(super) fn add(&mut self, record: Record) -> io::Result<bool> {
        let line = line(&record)?;
        self.image.apply(record);
        if self.bytes + line.len() as u64 > 2 * self.first + SPARE {
            let image = std::mem::take(&mut self.image);
            *self = Book::new(image)?;
            return Ok(true);
        }
        self.file.write_all_at(&line, self.bytes)?;
        self.bytes += line.len() as u64;
        Ok(false)
    }
}

impl AsFd for Book {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn line(record: &Record) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Known;

    #[test]
    fn it_stays_short_and_says_the_same() {
        let mut book = Book::new(Image::default()).unwrap();
        let mut anew = 0;
        for id in 1..40_000 {
            let known = Known {
                id,
                pid: 1,
                job: 0,
                version: 12,
            };
            let record = Record {
                came: vec![known],
                gone: vec![id - 1],
                ..Record::default()
            };
            anew += u32::from(book.add(record).unwrap());
            assert!(book.bytes <= 2 * book.first + SPARE);
        }
        assert!(anew > 0);
        let read = Book::read(book.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(read, book.image);
        assert_eq!((read.clients.len(), read.next_client), (1, 40_000));
    }
}

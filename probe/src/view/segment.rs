//! The segment of a node view: a sequence lock around a document.
//!
//! It is written and read by system calls and never mapped: a file in `/dev/shm` can be cut short by whoever is
//! its owner's user, root of a container among them, and who touches a mapping of what was cut off ends by
//! SIGBUS. Earlier versions map it, and find the same bytes.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// What a segment begins with: "MGBview1" in memory.
const MAGIC: u64 = u64::from_le_bytes(*b"MGBview1");
/// Longest document, in bytes.
pub const MAX_DOCUMENT: usize = 512 << 10;
/// What is before the document: the magic number, the version, the sequence (odd while the document changes),
/// the bytes of the document, and as much that is reserved.
const HEADER_BYTES: usize = 64;
/// Length of the segment's file in bytes.
pub const SEGMENT_BYTES: u64 = (HEADER_BYTES + MAX_DOCUMENT) as u64;
/// Between two tries to read a document.
const TRY_INTERVAL: Duration = Duration::from_micros(200);

/// The writer's side. There is one writer, in one process.
#[derive(Debug)]
pub struct Segment {
    file: File,
    /// Of the last document. What the file says may be another's.
    sequence: u64,
}

impl Segment {
    /// One in this file, which is as long as [`SEGMENT_BYTES`] and has nothing in it.
    pub fn new(file: File) -> Segment {
        Segment { file, sequence: 0 }
    }

    /// The file that the document is written to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Replaces the document. True: somebody else had cut the file short, and it is whole again.
    ///
    /// # Errors
    /// When the document is too long, or the system has no memory for the file any more.
    pub fn write(&mut self, document: &[u8]) -> std::io::Result<bool> {
        if document.len() > MAX_DOCUMENT {
            return Err(Error::new(ErrorKind::InvalidInput, "it is too long"));
        }
        let was_cut = rustix::fs::fstat(&self.file)?.st_size < SEGMENT_BYTES as i64;
        if was_cut {
            self.file.set_len(SEGMENT_BYTES)?;
        }
        self.sequence = self.sequence.wrapping_add(1) | 1;
        self.write_header(document.len())?;
        // Readers that see any of the words below also see the odd sequence.
        fence(Ordering::SeqCst);
        self.file.write_all_at(document, HEADER_BYTES as u64)?;
        fence(Ordering::SeqCst);
        self.sequence = self.sequence.wrapping_add(1);
        self.write_header(document.len())?;
        Ok(was_cut)
    }

    fn write_header(&self, bytes: usize) -> std::io::Result<()> {
        let words = [
            MAGIC,
            crate::wire::VERSION.into(),
            self.sequence,
            bytes as u64,
            0,
            0,
            0,
            0,
        ];
        self.file.write_all_at(&words.map(u64::to_le_bytes).concat(), 0)
    }
}

/// Why there is no document to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Its file is shorter than it was made.
    Cut,
    /// It changes, or its writer ended in the middle.
    Changing,
    /// It is none of this version.
    Foreign,
}

/// A consistent copy of the document in this file. Where there is none, tries again for so long, and sleeps
/// between tries: a writer that lost its core in the middle of a document gets it back no sooner if readers
/// keep theirs busy.
pub(super) fn read(file: &File, within: Duration) -> std::io::Result<Result<Vec<u8>, Unreadable>> {
    let start = Instant::now();
    loop {
        match try_read(file)? {
            Err(Unreadable::Cut | Unreadable::Changing) if start.elapsed() < within => {
                std::thread::sleep(TRY_INTERVAL);
            }
            done => return Ok(done),
        }
    }
}

/// One try at a consistent copy.
fn try_read(file: &File) -> std::io::Result<Result<Vec<u8>, Unreadable>> {
    if rustix::fs::fstat(file)?.st_size < SEGMENT_BYTES as i64 {
        return Ok(Err(Unreadable::Cut));
    }
    let Some([magic, version, before, bytes]) = header(file)? else {
        return Ok(Err(Unreadable::Cut));
    };
    if magic == 0 && bytes == 0 {
        // Cut off and not written since.
        return Ok(Err(Unreadable::Changing));
    }
    // A later version adds to the document, or it cannot be read.
    if magic != MAGIC || version < u64::from(crate::wire::OLDEST) {
        return Ok(Err(Unreadable::Foreign));
    }
    if before % 2 == 1 {
        return Ok(Err(Unreadable::Changing));
    }
    let mut document = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX).min(MAX_DOCUMENT)];
    fence(Ordering::SeqCst);
    match file.read_exact_at(&mut document, HEADER_BYTES as u64) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Err(Unreadable::Cut)),
        done => done?,
    }
    // The document above is read before the sequence below.
    fence(Ordering::SeqCst);
    let after = header(file)?;
    if after != Some([magic, version, before, bytes]) {
        return Ok(Err(Unreadable::Changing));
    }
    Ok(Ok(document))
}

/// The words that a header has; `None`: the file ends before.
fn header(file: &File) -> std::io::Result<Option<[u64; 4]>> {
    let mut bytes = [0; 32];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        done => done?,
    }
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(Some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_TIMEOUT: Duration = Duration::from_secs(30);

    fn segment() -> (Segment, File) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SEGMENT_BYTES).unwrap();
        (Segment::new(file.try_clone().unwrap()), file)
    }

    #[test]
    fn a_writer_that_lost_its_core_is_waited_for() {
        let (mut segment, file) = segment();
        assert!(!segment.write(b"{}").unwrap());
        segment.sequence += 1;
        segment.write_header(2).unwrap();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            segment.sequence += 1;
            segment.write_header(2).unwrap();
        });
        assert_eq!(read(&file, READ_TIMEOUT).unwrap().as_deref(), Ok(&b"{}"[..]));
        writer.join().unwrap();
    }

    #[test]
    fn a_writer_that_ended_in_the_middle_is_given_up() {
        let (mut segment, file) = segment();
        segment.sequence = 1;
        segment.write_header(0).unwrap();
        assert_eq!(
            read(&file, Duration::from_millis(5)).unwrap(),
            Err(Unreadable::Changing)
        );
    }

    #[test]
    fn what_was_cut_is_said_and_whole_again_once_it_is_written() {
        let (mut segment, file) = segment();
        let document = vec![b'x'; 100_000];
        segment.write(&document).unwrap();
        for length in [0, 1, 63, 64, 4096, SEGMENT_BYTES - 1] {
            file.set_len(length).unwrap();
            assert_eq!(
                read(&file, Duration::ZERO).unwrap(),
                Err(Unreadable::Cut),
                "{length}"
            );
            assert!(segment.write(&document).unwrap());
            assert_eq!(read(&file, Duration::ZERO).unwrap().as_ref(), Ok(&document));
        }
        file.write_all_at(&[0xff; 64], 0).unwrap();
        assert_eq!(read(&file, READ_TIMEOUT).unwrap(), Err(Unreadable::Foreign));
        assert!(!segment.write(&document).unwrap());
        assert_eq!(read(&file, Duration::ZERO).unwrap(), Ok(document));
    }

    #[test]
    fn readers_see_whole_documents() {
        let (mut segment, file) = segment();
        segment.write(b"1").unwrap();
        let reader = std::thread::spawn(move || {
            for _ in 0..2000 {
                let document = read(&file, READ_TIMEOUT).unwrap().unwrap();
                assert!(document.iter().all(|byte| *byte == document[0]));
            }
        });
        for round in 0.. {
            if reader.is_finished() {
                break;
            }
            segment.write(&vec![round as u8; 1 + round * 37 % 9000]).unwrap();
        }
        reader.join().unwrap();
    }
}

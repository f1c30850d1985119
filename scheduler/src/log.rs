//! The log of `mgbd` and of its holder. A line waits for a thread that writes it, and nobody waits for that
//! thread: the reader of a pipe may read nothing, and a file system may hang. Where too much waits already,
//! lines are lost, and the log says how many once it has caught up.
//!
//! `tracing-appender` does as much, but says nothing of what was lost, and brings a library of dates along.

use std::fs::File;
use std::io::{Error, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

/// Bytes of lines that wait to be written, at most.
const MAX_BYTES: usize = 1 << 20;
/// How long the end of a process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it looks.
const FLUSH_INTERVAL: Duration = Duration::from_millis(1);

/// Of the log of this process.
static OF_PROCESS: OnceLock<&'static LogCounts> = OnceLock::new();

/// Where lines are written to.
pub struct Log {
    lines: Sender<Vec<u8>>,
    counts: &'static LogCounts,
}

#[derive(Default)]
struct LogCounts {
    /// Bytes of the lines that are not written yet.
    unwritten: AtomicUsize,
    /// Lines that were lost and not told of.
    lost: AtomicU64,
}

/// Waits, as it is dropped, until the last lines are written: a second at most.
#[must_use]
pub struct Flush(());

impl Log {
    /// The log of this process, in this file.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn start(file: File) -> std::io::Result<(Log, Flush)> {
        let log = Log::new(file)?;
        let _ = OF_PROCESS.set(log.counts);
        Ok((log, Flush(())))
    }

    fn new(file: File) -> std::io::Result<Log> {
        let (lines, waiting) = channel();
        // A signal's handler may look at them as long as the process lives.
        let counts: &'static LogCounts = Box::leak(Box::default());
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.spawn(move || write_all(&file, &waiting, counts))?;
        Ok(Log { lines, counts })
    }
}

/// The formatter writes a line as a whole.
impl Write for &Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let more = |bytes: usize| bytes.checked_add(line.len()).filter(|bytes| *bytes <= MAX_BYTES);
        let unwritten = &self.counts.unwritten;
        let has_room = unwritten.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if has_room.is_err() || self.lines.send(line.to_vec()).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        flush();
    }
}

/// Waits until the last lines of this process are written: a second at most. Async-signal-safe.
pub fn flush() {
    if let Some(counts) = OF_PROCESS.get() {
        counts.flush(FLUSH_TIMEOUT);
    }
}

impl LogCounts {
    fn flush(&self, timeout: Duration) {
        let mut waited = Duration::ZERO;
        while self.unwritten.load(Ordering::Acquire) > 0 && waited < timeout {
            std::thread::sleep(FLUSH_INTERVAL);
            waited += FLUSH_INTERVAL;
        }
    }
}

/// Writes what comes, until nobody can write any more.
fn write_all(file: &File, lines: &Receiver<Vec<u8>>, counts: &LogCounts) {
    for line in lines {
        if write(file, &line).is_err() {
            counts.lost.fetch_add(1, Ordering::Relaxed);
        } else if counts.unwritten.load(Ordering::Relaxed) == line.len() {
            tell_of_lost(file, counts);
        }
        counts.unwritten.fetch_sub(line.len(), Ordering::Release);
    }
}

/// Says how many lines were lost since that was last said, once the others are written.
fn tell_of_lost(file: &File, counts: &LogCounts) {
    let lost = counts.lost.swap(0, Ordering::Relaxed);
    let text = format!("mgbd: {lost} lines of the log were lost: they could not be written in time\n");
    if lost > 0 && write(file, text.as_bytes()).is_err() {
        counts.lost.fetch_add(lost, Ordering::Relaxed);
    }
}

fn write(mut file: &File, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(Error::from(ErrorKind::WriteZero)),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Who has it, too, has made it so.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(&file, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    const LINE: [u8; 64] = [b'x'; 64];

    fn log() -> (Log, BufReader<File>) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let log = Log::new(File::from(write)).unwrap();
        (log, BufReader::new(File::from(read)))
    }

    fn say(mut log: &Log, number: usize) {
        let mut line = LINE;
        line[..8].copy_from_slice(format!("{number:08}").as_bytes());
        line[63] = b'\n';
        log.write_all(&line).unwrap();
    }

    #[test]
    fn nobody_waits_for_who_reads_nothing_and_what_is_lost_is_said_once() {
        let (log, read) = log();
        let count = 2 * MAX_BYTES / LINE.len();
        (0..count).for_each(|number| say(&log, number));
        assert!(log.counts.unwritten.load(Ordering::Relaxed) <= MAX_BYTES);
        let mut lines = read.lines().map_while(Result::ok);
        let mut written: Vec<String> = Vec::new();
        let told = loop {
            match lines.next().unwrap() {
                line if line.starts_with("mgbd") => break line,
                line => written.push(line),
            }
        };
        // In their order; what is not there is told of.
        assert!(written.is_sorted_by(|earlier, later| earlier[..8] < later[..8]));
        assert!(
            told.starts_with(&format!("mgbd: {} lines", count - written.len())),
            "{told}"
        );
        say(&log, 7);
        assert!(lines.next().unwrap().starts_with("00000007"));
        drop(log);
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn the_end_waits_for_the_last_lines_and_not_for_ever() {
        let (log, mut read) = log();
        (0..1000).for_each(|number| say(&log, number));
        log.counts.flush(Duration::from_secs(30));
        assert_eq!(log.counts.unwritten.load(Ordering::Relaxed), 0);
        // More than a pipe holds.
        (0..1 << 14).for_each(|number| say(&log, number));
        log.counts.flush(Duration::from_millis(50));
        assert!(log.counts.unwritten.load(Ordering::Relaxed) > 0);
        let mut line = String::new();
        read.read_line(&mut line).unwrap();
        assert!(line.starts_with("00000000"), "{line}");
    }

    #[test]
    fn a_pipe_that_does_not_block_loses_no_line() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        let log = Log::new(File::from(write)).unwrap();
        let count = MAX_BYTES / LINE.len() / 2;
        (0..count).for_each(|number| say(&log, number));
        drop(log);
        assert_eq!(BufReader::new(File::from(read)).lines().count(), count);
    }
}

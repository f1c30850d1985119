//! What programs took, kept in a file for the next `mgbd`: one that users' commands start ends when it has
//! been idle for a minute, and the programs come again.
//!
//! The file is written whole and renamed, by a thread, since a disk may be slow; at the end by `mgbd` itself.
//! One that cannot be read or written is named in the log, and nothing else depends on it.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Broker;
use crate::broker::Remembered;
use crate::daemon::whole_file;

/// The format that is written, and the only one that is read.
const VERSION: u32 = 1;
/// Between two writes: what a killed `mgbd` has learned in this time is lost.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);
/// More than the bounds on what is remembered can make of it.
const MAX_BYTES: u64 = 8 << 20;

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    #[serde(flatten)]
    remembered: Remembered,
}

/// The file of what programs took before, and the thread that writes it.
#[derive(Debug)]
pub(crate) struct HistoryFile {
    file: PathBuf,
    /// When something may be written next.
    due: Duration,
    writes: Option<JoinHandle<()>>,
}

impl HistoryFile {
    /// Has the broker begin with what the file says.
    pub(crate) fn open(file: PathBuf, broker: &mut Broker) -> HistoryFile {
        match read(&file) {
            Ok(remembered) => broker.recall(&remembered),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(
                file = %file.display(),
                %error,
                "cannot read what programs took before: it is learned anew, and the file is replaced"
            ),
        }
        HistoryFile {
            file,
            due: SAVE_INTERVAL,
            writes: None,
        }
    }

    /// How long until there is something to write.
    pub(crate) fn interval(&self, broker: &Broker, now: Duration) -> Option<Duration> {
        broker.has_learned().then(|| self.due.saturating_sub(now))
    }

    /// Writes what is new, if it is time.
    pub(crate) fn check(&mut self, broker: &mut Broker, now: Duration) {
        if self.interval(broker, now).is_none_or(|wait| !wait.is_zero()) {
            return;
        }
        self.due = now + SAVE_INTERVAL;
        if self.writes.as_ref().is_some_and(|writes| !writes.is_finished()) {
            return;
        }
        let (file, remembered) = (self.file.clone(), broker.remembered());
        let thread = std::thread::Builder::new().name("remember".to_owned());
        match thread.spawn(move || write_or_warn(&file, remembered)) {
            Ok(writes) => self.writes = Some(writes),
            Err(error) => tracing::warn!(%error, "cannot start a thread to write what programs took"),
        }
    }

    /// Writes what is new as `mgbd` ends.
    pub(crate) fn finish(self, broker: &mut Broker) {
        if let Some(writes) = self.writes {
            let _ = writes.join();
        }
        if broker.has_learned() {
            write_or_warn(&self.file, broker.remembered());
        }
    }
}

pub(crate) fn read(file: &Path) -> io::Result<Remembered> {
    let reader = BufReader::new(File::open(file)?.take(MAX_BYTES));
    let content: Content = serde_json::from_reader(reader)?;
    if content.version != VERSION {
        return Err(io::Error::other(format!(
            "its version is {}, this mgbd has {VERSION}",
            content.version
        )));
    }
    Ok(content.remembered)
}

fn write_or_warn(file: &Path, remembered: Remembered) {
    if let Err(error) = write(file, remembered) {
        tracing::warn!(
            file = %file.display(),
            %error,
            "cannot keep what programs took: an mgbd started later has to learn it anew"
        );
    }
}

fn write(file: &Path, remembered: Remembered) -> io::Result<()> {
    whole_file::replace(file, 0o700, |new| fill(new, remembered))
}

fn fill(file: &mut File, remembered: Remembered) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    let content = Content {
        version: VERSION,
        remembered,
    };
    serde_json::to_writer(&mut writer, &content)?;
    writer.flush()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use mgb_interface::Policy;
    use mgb_probe::Need;
    use mgb_probe::wire::{Op, Request, Text};

    use super::*;
    use crate::broker::{ProgramId, ServingRules, Snapshot};
    use crate::node::test_gpu;

    fn broker() -> Broker {
        Broker::new(vec![test_gpu(0, 1 << 30, 0)], ServingRules::new(Policy::Mgb))
    }

    /// A task of a program runs and ends.
    fn learn(broker: &mut Broker) {
        broker.arrive(1, 1);
        broker.identify(1, ProgramId::new(7));
        let request = |op| Request {
            op,
            flags: 0,
            task: 1,
            thread: 1,
            site: 3,
            gpus: 1,
            bytes: 0,
            need: Need {
                mapped_bytes: 100,
                ..Need::default()
            },
            first: 0,
            label: Text::new("a.cu:main"),
        };
        broker.request(1, 0, request(Op::Begin), Duration::ZERO);
        assert_eq!(broker.serve(&mut Snapshot::default(), Duration::ZERO).len(), 1);
        broker.request(1, 0, request(Op::End), Duration::from_secs(5));
        assert!(broker.has_learned());
    }

    #[test]
    fn the_next_one_knows_what_the_last_one_learned() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/past");
        let mut first = broker();
        let mut memory = HistoryFile::open(file.clone(), &mut first);
        assert_eq!(memory.interval(&first, Duration::ZERO), None);
        learn(&mut first);
        assert_eq!(memory.interval(&first, Duration::ZERO), Some(SAVE_INTERVAL));
        memory.check(&mut first, Duration::ZERO);
        assert!(!file.exists());
        memory.check(&mut first, SAVE_INTERVAL);
        assert_eq!(memory.interval(&first, SAVE_INTERVAL), None);
        memory.finish(&mut first);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut second = broker();
        HistoryFile::open(file, &mut second).finish(&mut second);
        let remembered = second.remembered();
        assert_eq!(remembered, first.remembered());
        assert_ne!(remembered, Remembered::default());
    }

    #[test]
    fn a_file_that_says_nothing_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("past");
        let other = r#"{"version":2,"mean":null,"tasks":[],"programs":[]}"#;
        for content in ["", "{\"version\":1", other] {
            fs::write(&file, content).unwrap();
            assert!(read(&file).is_err(), "{content}");
            let mut broker = broker();
            let memory = HistoryFile::open(file.clone(), &mut broker);
            assert!(!broker.has_learned());
            learn(&mut broker);
            memory.finish(&mut broker);
            assert!(read(&file).is_ok(), "{content}");
        }
    }

    #[test]
    fn one_that_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("past");
        fs::create_dir(&file).unwrap();
        assert!(write(&file, Remembered::default()).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // Writing to it fails, as on a full disk.
        if Path::new("/dev/full").exists() {
            let mut full = File::options().write(true).open("/dev/full").unwrap();
            assert!(fill(&mut full, Remembered::default()).is_err());
        }
    }
}

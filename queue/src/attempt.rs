//! The folder of one run of a job: how the queue's service and the process that watches the job agree on
//! whether it was started, whether it runs, and how it ended, whichever of them dies.
//!
//! | file | written by | says |
//! |---|---|---|
//! | `order.json` | service | what to run |
//! | `environment` | service | its variables, as `execve` takes them |
//! | `started` | watcher | once it is there, this attempt was made: it is created once, and never anew |
//! | `pid` | watcher | the job's process, for whoever looks |
//! | `lock` | watcher | locked for as long as the watcher lives |
//! | `ended.json` | watcher | how it ended; renamed into place, whole or not at all |
//! | `output.log` | job | what it printed |

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// How long another process may have the lock without having begun.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// What a watcher runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The file to execute, and its arguments.
    pub command: Vec<String>,
    /// The folder to run it in.
    pub folder: PathBuf,
    /// For how many seconds it may run.
    pub limit_s: Option<f64>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// When, in seconds since 1970.
    pub at: f64,
    /// Its exit code; none if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Processor time in seconds, of its process and of the children that it waited for.
    pub cpu_s: f64,
    /// The most host memory that one process of it had at once, in bytes.
    pub host_peak_bytes: u64,
    /// Whether its time was over.
    pub is_over_limit: bool,
    /// Whether somebody asked it to end.
    pub is_cancelled: bool,
    /// Why it could not be started.
    pub not_started: Option<String>,
}

/// How an attempt stands, as its folder shows.
#[derive(Debug)]
pub enum Standing {
    /// No watcher has begun with it.
    New,
    /// This process watches it.
    Running(i32),
    /// It has ended like this.
    Ended(Ended),
    /// It was begun, and nobody knows how it ended.
    Lost,
}

/// The folder of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptFolder(PathBuf);

impl AttemptFolder {
    /// The folder itself, which need not exist.
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What the job printed.
    pub fn log(&self) -> PathBuf {
        self.0.join("output.log")
    }

    /// Where the job's processes write what they did on the GPUs.
    pub fn trace(&self) -> PathBuf {
        self.0.join("trace.jsonl")
    }

    /// Where `mgb run` writes how a whole process was placed.
    pub fn placement(&self) -> PathBuf {
        self.0.join("placement")
    }

    /// The job's process, once it was started.
    pub fn job_pid(&self) -> Option<u32> {
        fs::read_to_string(self.0.join("pid")).ok()?.trim().parse().ok()
    }

    /// Makes the folder, for its owner alone, and writes down what to run.
    ///
    /// # Errors
    /// The system's.
    pub fn prepare(&self, order: &Order, environment: &[u8]) -> Result<()> {
        let failed = || format!("failed to write {}", self.0.display());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .with_context(failed)?;
        self.replace("order.json", &serde_json::to_vec(order)?)
            .with_context(failed)?;
        self.replace("environment", environment).with_context(failed)
    }

    /// Reads what to run, and its variables.
    ///
    /// # Errors
    /// When it was not written, or cannot be read.
    pub fn order(&self) -> Result<(Order, Vec<u8>)> {
        let read = |name: &str| {
            let file = self.0.join(name);
            fs::read(&file).with_context(|| format!("failed to read {}", file.display()))
        };
        let order = serde_json::from_slice(&read("order.json")?).context("failed to read the order")?;
        Ok((order, read("environment")?))
    }

    /// Becomes the attempt's watcher, if nobody has been: after this the attempt was made.
    ///
    /// # Errors
    /// The system's. `None`: somebody has been.
    pub fn begin(&self) -> io::Result<Option<Watch>> {
        let lock = self.lock_file()?;
        let began = Instant::now();
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            // Whoever has it creates the file at once.
            if self.0.join("started").exists() {
                return Ok(None);
            }
            if began.elapsed() > LOCK_TIMEOUT {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another process has its lock",
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let name = self.0.join("started");
        // A disk that does not say whether the attempt was made must not have it made twice.
        if name.try_exists()? {
            return Ok(None);
        }
        // What it will say at the end has its place on the disk now, which may be full then. Before the file
        // that says that the attempt was made: where there is no place, it was not.
        let mut room = own(&mut File::options())
            .create(true)
            .truncate(true)
            .open(self.0.join("ended.new"))?;
        room.write_all(&[b' '; 1024])?;
        room.sync_all()?;
        self.replace("started", format!("{}\n", std::process::id()).as_bytes())?;
        File::open(&self.0)?.sync_all()?;
        Ok(Some(Watch {
            folder: self.0.clone(),
            room,
            _lock: lock,
        }))
    }

    /// How it stands now.
    ///
    /// # Errors
    /// When its folder cannot be looked at.
    pub fn standing(&self) -> io::Result<Standing> {
        if !self.0.join("started").exists() {
            return Ok(Standing::New);
        }
        // First whether it runs: it may end meanwhile, but does not begin anew.
        if let Some(pid) = self.watcher()? {
            return Ok(Standing::Running(pid));
        }
        match fs::read(self.0.join("ended.json")) {
            Ok(text) => Ok(serde_json::from_slice(&text).map_or(Standing::Lost, Standing::Ended)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Standing::Lost),
            Err(error) => Err(error),
        }
    }

    /// The watcher, while it lives: it writes its number before it starts anything.
    fn watcher(&self) -> io::Result<Option<i32>> {
        let lock = self.lock_file()?;
        if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
            return Ok(None);
        }
        let mut text = String::new();
        File::open(self.0.join("started"))?.read_to_string(&mut text)?;
        Ok(Some(text.trim().parse().unwrap_or(0)))
    }

    fn lock_file(&self) -> io::Result<File> {
        own(&mut File::options()).create(true).open(self.0.join("lock"))
    }

    fn replace(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let new = self.0.join(format!("{name}.new"));
        let mut file = own(&mut File::options()).create(true).truncate(true).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(new, self.0.join(name))
    }
}

/// For writing, by the owner alone.
fn own(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options.write(true).mode(0o600)
}

/// An attempt that this process watches.
#[derive(Debug)]
pub struct Watch {
    folder: PathBuf,
    room: File,
    _lock: File,
}

impl Watch {
    /// Says which process the job is. It is for whoever looks, so that it matters little if it fails.
    pub fn job_is(&self, pid: u32) {
        let _ = fs::write(self.folder.join("pid"), pid.to_string());
    }

    /// Writes down how the job ended.
    ///
    /// # Errors
    /// The system's, such as a failing disk.
    pub fn end(&mut self, ended: &Ended) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        // In the place that it has: JSON may end in spaces.
        self.room.write_all_at(&serde_json::to_vec(ended)?, 0)?;
        self.room.sync_all()?;
        fs::rename(self.folder.join("ended.new"), self.folder.join("ended.json"))?;
        File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = AttemptFolder::at(folder.path().join("1"));
        let order = Order {
            command: vec!["/bin/true".to_owned()],
            folder: "/".into(),
            limit_s: None,
        };
        attempt.prepare(&order, b"A=1\0").unwrap();
        assert_eq!(attempt.order().unwrap(), (order, b"A=1\0".to_vec()));
        assert!(matches!(attempt.standing().unwrap(), Standing::New));
        let mut watch = attempt.begin().unwrap().unwrap();
        assert!(attempt.begin().unwrap().is_none());
        let own = std::process::id() as i32;
        assert!(matches!(attempt.standing().unwrap(), Standing::Running(pid) if pid == own));
        let ended = Ended {
            not_started: Some("x".repeat(3000)),
            ..Ended::default()
        };
        watch.end(&ended).unwrap();
        drop(watch);
        assert!(matches!(attempt.standing().unwrap(), Standing::Ended(found) if found == ended));
        assert!(attempt.begin().unwrap().is_none(), "not a second time");
    }

    #[test]
    fn what_was_begun_and_is_not_watched_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = AttemptFolder::at(folder.path().to_owned());
        drop(attempt.begin().unwrap());
        assert!(matches!(attempt.standing().unwrap(), Standing::Lost));
        // A torn file says nothing.
        fs::write(folder.path().join("ended.json"), "{\"at\":").unwrap();
        assert!(matches!(attempt.standing().unwrap(), Standing::Lost));
    }
}

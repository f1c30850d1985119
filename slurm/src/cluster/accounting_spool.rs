//! What jobs took, until it stands in Slurm's accounting: a file for each job. A job's end waits for no
//! slurmdbd, and what ended while that was away is recorded later.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use mgb_command::out;

use crate::tools::record::{self, JobRecord};

/// Where a node keeps them.
const FOLDER: &str = "/var/spool/mgb";
/// After so long nobody asks for it any more.
const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// The folder, of root alone.
#[derive(Clone, Debug)]
pub struct Outbox(PathBuf);

impl Outbox {
    /// The spool of this node.
    pub fn of_node() -> Outbox {
        Outbox(PathBuf::from(FOLDER))
    }

    /// Keeps a job's record.
    ///
    /// # Errors
    /// The system's.
    pub fn put(&self, job: u32, record: &JobRecord) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let text = record::comment("", std::slice::from_ref(record));
        out::replace(&self.file(job), |file| writeln!(file, "{text}"))
    }

    /// All that are kept, by job. Those that nobody could deliver for a week are forgotten.
    pub fn all(&self) -> Vec<(u32, JobRecord)> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let jobs = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut all: Vec<(u32, JobRecord)> = jobs.filter_map(|job| Some((job, self.read(job)?))).collect();
        all.sort_by_key(|(job, _)| *job);
        all
    }

    fn read(&self, job: u32) -> Option<JobRecord> {
        let file = self.file(job);
        let written = fs::metadata(&file).and_then(|about| about.modified()).ok()?;
        let is_old = SystemTime::now()
            .duration_since(written)
            .is_ok_and(|age| age > OLD);
        let record = record::read(&fs::read_to_string(&file).ok()?).pop();
        if is_old || record.is_none() {
            let _ = fs::remove_file(file);
            return None;
        }
        record
    }

    /// A record stands in the accounting. One that was put since, of the job's next run, stays.
    pub fn remove(&self, job: u32, delivered: &JobRecord) {
        if self.read(job).as_ref() == Some(delivered) {
            let _ = fs::remove_file(self.file(job));
        }
    }

    /// The right to deliver, until the file is closed; `None`: somebody else does.
    ///
    /// # Errors
    /// The system's, as where nothing was ever put.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let file = File::create(self.0.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Starts a process that delivers, unless one does or there is nothing. Who delivers looks once more when
    /// it has given the right back, so that what was put before this call is not overlooked.
    ///
    /// # Errors
    /// The system's.
    pub fn deliver(&self) -> io::Result<()> {
        if self.all().is_empty() || self.lock()?.is_none() {
            return Ok(());
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["cluster", "deliver"]);
        // Slurm ends what a script has left in its process group, and waits for who has its output open.
        command.process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().map(drop)
    }

    fn file(&self, job: u32) -> PathBuf {
        self.0.join(job.to_string())
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(peak_mib: u64) -> JobRecord {
        JobRecord {
            node: "n1".to_owned(),
            peak_mib,
            gpu_peak_mib: peak_mib,
            refused_mib: 0,
            waited: 0.5,
            held: 2.0,
            tasks: 1,
        }
    }

    #[test]
    fn records_are_kept_until_they_are_delivered() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox(folder.path().join("mgb"));
        assert!(outbox.all().is_empty());
        outbox.put(12, &record(5)).unwrap();
        outbox.put(7, &record(6)).unwrap();
        fs::write(outbox.folder().join("9"), "nonsense").unwrap();
        assert_eq!(outbox.all(), [(7, record(6)), (12, record(5))]);
        assert!(!outbox.folder().join("9").exists());
        // The job ran once more meanwhile.
        outbox.put(12, &record(8)).unwrap();
        outbox.remove(12, &record(5));
        outbox.remove(7, &record(6));
        assert_eq!(outbox.all(), [(12, record(8))]);
    }

    #[test]
    fn one_delivers_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox(folder.path().to_owned());
        let first = outbox.lock().unwrap();
        assert!(first.is_some() && outbox.lock().unwrap().is_none());
        drop(first);
        assert!(outbox.lock().unwrap().is_some());
    }

    #[test]
    fn what_is_a_week_old_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox(folder.path().to_owned());
        outbox.put(3, &record(5)).unwrap();
        let old = SystemTime::now() - OLD - Duration::from_secs(60);
        File::open(outbox.file(3)).unwrap().set_modified(old).unwrap();
        assert!(outbox.all().is_empty());
    }
}

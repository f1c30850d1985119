//! Records that Slurm's accounting did not take as their jobs ended, since slurmdbd was away or had not heard
//! of the job yet: a file for each, until `mgb cluster health` has written them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use crate::slurm::record::{self, Record};

/// Beside mgbd's socket; root's.
pub const FOLDER: &str = "/run/mgb/late";
/// What Slurm does not know after this time it will not know.
const GIVEN_UP: Duration = Duration::from_secs(24 * 3600);

fn file(folder: &Path, job: u32) -> PathBuf {
    folder.join(job.to_string())
}

/// Keeps one.
pub fn keep(folder: &Path, job: u32, record: &Record) -> Result<()> {
    let file = file(folder, job);
    let text = record::comment("", std::slice::from_ref(record));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file, text))
        .with_context(|| format!("failed to write {}", file.display()))
}

/// Forgets one, since a newer one has been written.
pub fn forget(folder: &Path, job: u32) {
    // Mostly there is none.
    let _ = fs::remove_file(file(folder, job));
}

/// Writes those that there are, until the first that is not taken.
pub fn write(folder: &Path, mut add: impl FnMut(u32, &Record) -> Result<()>) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("failed to read {}", folder.display()))?,
    };
    for entry in entries.flatten() {
        let job = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let written = entry.metadata().and_then(|about| about.modified());
        let age = written
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        let refused = match (job, record::read(&text).as_slice()) {
            (Some(job), [record]) => add(job, record).err(),
            _ => None,
        };
        if let Some(error) = refused
            && age.is_none_or(|age| age < GIVEN_UP)
        {
            return Err(error);
        }
        fs::remove_file(entry.path())
            .with_context(|| format!("failed to remove {}", entry.path().display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use anyhow::bail;
    use mgb_probe::view::JobView;

    use super::*;

    #[test]
    fn what_is_kept_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("late");
        let record = Record::of("n1", &JobView::default());
        write(&folder, |_, _| panic!("there is none")).unwrap();
        for job in [7, 8] {
            keep(&folder, job, &record).unwrap();
        }
        forget(&folder, 8);
        forget(&folder, 9);
        let refused = write(&folder, |_, _| bail!("slurmdbd is away")).unwrap_err();
        assert_eq!(refused.to_string(), "slurmdbd is away");
        let mut taken = Vec::new();
        for _ in 0..2 {
            write(&folder, |job, record| {
                taken.push((job, record.clone()));
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(taken, [(7, record)]);
    }

    #[test]
    fn what_is_never_taken_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), 7, &Record::of("n1", &JobView::default())).unwrap();
        fs::write(folder.path().join("x"), "what nobody wrote here").unwrap();
        let kept = File::options().write(true).open(file(folder.path(), 7)).unwrap();
        kept.set_modified(SystemTime::now() - 2 * GIVEN_UP).unwrap();
        write(folder.path(), |_, _| bail!("no such job")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

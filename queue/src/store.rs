//! The state of the queue on disk: a transaction a change, which is there whole or not at all after a loss of
//! power. The store itself is `redb`'s.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use crate::id::JobId;
use crate::record::{JobRecord, QueueSettings};

const JOBS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("jobs");
const ENVIRONMENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("environments");
const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");

/// The version of what the tables hold.
const LAYOUT: u64 = 1;
const LAYOUT_NAME: &str = "layout";
const SETTINGS_NAME: &str = "settings";
const NEXT_NAME: &str = "next";
const NEXT_ENVIRONMENT_NAME: &str = "next environment";

/// How much of the file is kept in memory, in bytes: all jobs are read once, and are kept as they are.
const CACHE: usize = 8 << 20;

/// What the store holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// All jobs.
    pub jobs: BTreeMap<JobId, JobRecord>,
    /// How the queue works.
    pub settings: QueueSettings,
    /// The number that the next job gets.
    pub next: u32,
    /// The number that the next environment gets.
    pub next_environment: u64,
}

/// A change that is made whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Jobs as they are from now on.
    pub jobs: Vec<JobRecord>,
    /// Jobs that are forgotten.
    pub forgotten: Vec<JobId>,
    /// A new environment: variables as `execve` takes them, each with a NUL at its end.
    pub environment: Option<(u64, Vec<u8>)>,
    /// Environments that no job needs any more.
    pub forgotten_environments: Vec<u64>,
    /// New settings.
    pub settings: Option<QueueSettings>,
    /// The number that the next job gets.
    pub next: Option<u32>,
}

/// The open store of one queue.
#[derive(Debug)]
pub struct Store {
    database: Database,
}

impl Store {
    /// Opens the store, or makes it.
    ///
    /// # Errors
    /// When it cannot be read, is of a newer MGB, or is open elsewhere.
    pub fn open(file: &Path) -> Result<Self> {
        let shown = file.display();
        if !file.exists() {
            // Whoever loses power in the middle of this finds no store, rather than a part of one.
            let new = file.with_extension("new");
            let _ = fs::remove_file(&new);
            let made = private(&new, true).with_context(|| format!("failed to write {}", new.display()))?;
            drop(Self::with(redb::backends::FileBackend::new(made)?)?);
            fs::rename(&new, file).with_context(|| format!("failed to write {shown}"))?;
            let folder = file.parent().unwrap_or(Path::new("."));
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .with_context(|| format!("failed to write {}", folder.display()))?;
        }
        let open = private(file, false).with_context(|| format!("failed to open {shown}"))?;
        let backend =
            redb::backends::FileBackend::new(open).with_context(|| format!("failed to open {shown}"))?;
        Self::with(backend).with_context(|| {
            format!("failed to read the queue's store {shown}; move it away to begin with an empty queue")
        })
    }

    /// The store behind this backend.
    ///
    /// # Errors
    /// When it is none, or of a newer MGB.
    pub fn with(backend: impl StorageBackend) -> Result<Self> {
        let database = Database::builder()
            .set_cache_size(CACHE)
            .create_with_backend(backend)?;
        let store = Self { database };
        match store.layout()? {
            None => store.begin()?,
            Some(LAYOUT) => {}
            Some(newer) => {
                bail!("it is of a newer MGB (layout {newer}, this one reads {LAYOUT}): use that one")
            }
        }
        Ok(store)
    }

    fn layout(&self) -> Result<Option<u64>> {
        let read = self.database.begin_read()?;
        let values = match read.open_table(VALUES) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            values => values?,
        };
        number(&values, LAYOUT_NAME)
    }

    fn begin(&self) -> Result<()> {
        let write = self.database.begin_write()?;
        {
            write.open_table(JOBS)?;
            write.open_table(ENVIRONMENTS)?;
            let mut values = write.open_table(VALUES)?;
            values.insert(LAYOUT_NAME, LAYOUT.to_le_bytes().as_slice())?;
        }
        Ok(write.commit()?)
    }

    /// Reads everything but the environments.
    ///
    /// # Errors
    /// When it cannot be read, or does not hold what it should.
    pub fn contents(&self) -> Result<Contents> {
        let read = self.database.begin_read()?;
        let mut contents = Contents::default();
        for entry in read.open_table(JOBS)?.iter()? {
            let (key, job) = entry?;
            let job: JobRecord = serde_json::from_slice(job.value())
                .with_context(|| format!("failed to read the job at {:#x}", key.value()))?;
            contents.jobs.insert(job.id, job);
        }
        let values = read.open_table(VALUES)?;
        if let Some(settings) = values.get(SETTINGS_NAME)? {
            contents.settings =
                serde_json::from_slice(settings.value()).context("failed to read the queue's settings")?;
        }
        contents.next = number(&values, NEXT_NAME)?.map_or(Ok(1), u32::try_from)?;
        contents.next_environment = number(&values, NEXT_ENVIRONMENT_NAME)?.unwrap_or(1);
        Ok(contents)
    }

    /// An environment that was stored.
    ///
    /// # Errors
    /// When it is not there.
    pub fn environment(&self, number: u64) -> Result<Vec<u8>> {
        let read = self.database.begin_read()?;
        let table = read.open_table(ENVIRONMENTS)?;
        let found = table.get(number)?;
        Ok(found
            .context("its environment is not in the store")?
            .value()
            .to_vec())
    }

    /// Makes a change: once this returns it outlives a loss of power.
    ///
    /// # Errors
    /// When it may not have been made. Then the store has to be opened anew, and says whether it was.
    pub fn apply(&self, change: &Change) -> Result<()> {
        let write = self.database.begin_write()?;
        {
            let mut jobs = write.open_table(JOBS)?;
            for job in &change.jobs {
                jobs.insert(job.id.key(), serde_json::to_vec(job)?.as_slice())?;
            }
            for id in &change.forgotten {
                jobs.remove(id.key())?;
            }
            let mut environments = write.open_table(ENVIRONMENTS)?;
            let mut values = write.open_table(VALUES)?;
            if let Some((number, environment)) = &change.environment {
                environments.insert(number, environment.as_slice())?;
                values.insert(NEXT_ENVIRONMENT_NAME, (number + 1).to_le_bytes().as_slice())?;
            }
            for number in &change.forgotten_environments {
                environments.remove(number)?;
            }
            if let Some(settings) = &change.settings {
                values.insert(SETTINGS_NAME, serde_json::to_vec(settings)?.as_slice())?;
            }
            if let Some(next) = change.next {
                values.insert(NEXT_NAME, u64::from(next).to_le_bytes().as_slice())?;
            }
        }
        Ok(write.commit()?)
    }
}

/// Opens a file that is its owner's alone: there may be passwords in the variables of a submission.
fn private(file: &Path, new: bool) -> std::io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create_new(new)
        .mode(0o600)
        .open(file)
}

fn number(values: &impl ReadableTable<&'static str, &'static [u8]>, name: &str) -> Result<Option<u64>> {
    let Some(found) = values.get(name)? else {
        return Ok(None);
    };
    let bytes = found.value().try_into();
    Ok(Some(u64::from_le_bytes(
        bytes.with_context(|| format!("the store's {name} is no number"))?,
    )))
}

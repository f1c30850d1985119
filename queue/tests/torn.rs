//! The store on a disk that loses power: what was not synced is there, is not, or is there in part. Each change
//! is in the store afterwards whole or not at all, and every one that was confirmed is.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use mgb_queue::id::JobId;
use mgb_queue::record::{JobRecord, JobState, QueueSettings};
use mgb_queue::store::{Change, Contents, Store};
use redb::StorageBackend;

/// What a disk writes at once at least, in bytes.
const SECTOR: usize = 512;

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Debug, Default)]
struct Content {
    synced: Vec<u8>,
    pending: Vec<Step>,
    /// How many more writes work.
    left: Option<usize>,
}

/// A disk.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Content>>);

fn apply(bytes: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Length(length) => bytes.resize(*length as usize, 0),
        Step::Write(at, data) => {
            let (at, end) = (*at as usize, *at as usize + data.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(data);
        }
    }
}

impl Disk {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }

    /// The disk after a loss of power.
    fn after_power_loss(&self, dice: &mut Dice) -> Disk {
        let content = self.content();
        let mut bytes = content.synced.clone();
        for step in &content.pending {
            match step {
                Step::Write(at, data) => {
                    // Sector by sector: a disk has no order among them.
                    for (index, sector) in data.chunks(SECTOR).enumerate() {
                        if dice.below(2) == 0 {
                            let at = at + (index * SECTOR) as u64;
                            apply(&mut bytes, &Step::Write(at, sector.to_vec()));
                        }
                    }
                }
                // A file that shrank and whose sectors are still written is as long as they make it.
                Step::Length(_) if dice.below(2) == 0 => apply(&mut bytes, step),
                Step::Length(_) => {}
            }
        }
        Disk(Arc::new(Mutex::new(Content {
            synced: bytes,
            ..Content::default()
        })))
    }

    /// From now on, so many writes work.
    fn fail_after(&self, writes: Option<usize>) {
        self.content().left = writes;
    }

    fn step(&self, step: Step) -> io::Result<()> {
        let mut content = self.content();
        match &mut content.left {
            Some(0) => return Err(io::Error::from(io::ErrorKind::StorageFull)),
            Some(left) => *left -= 1,
            None => {}
        }
        content.pending.push(step);
        Ok(())
    }

    fn now(&self) -> Vec<u8> {
        let content = self.content();
        let mut bytes = content.synced.clone();
        content.pending.iter().for_each(|step| apply(&mut bytes, step));
        bytes
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.now().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.now();
        let from = offset as usize;
        let part = bytes.get(from..from + out.len());
        out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.step(Step::Length(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let bytes = self.now();
        let mut content = self.content();
        if content.left == Some(0) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        content.synced = bytes;
        content.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.step(Step::Write(offset, data.to_vec()))
    }
}

fn job(number: u32, dice: &mut Dice) -> JobRecord {
    let text = "x".repeat(dice.below(3000));
    let state = JobState::ALL[dice.below(7)].1;
    let id = JobId { number, index: None };
    let record = serde_json::json!({
        "id": id, "text": text, "program": "/bin/true", "arguments": [], "folder": "/", "environment": 1,
        "submitted": 1.5, "state": state, "attempts": [],
    });
    serde_json::from_value(record).unwrap()
}

/// A change, and what the store holds after it.
fn change(contents: &Contents, dice: &mut Dice) -> (Change, Contents) {
    let mut after = contents.clone();
    let mut change = Change::default();
    for _ in 0..=dice.below(6) {
        let number = 1 + dice.below(40) as u32;
        let id = JobId { number, index: None };
        if dice.below(4) == 0 {
            change.forgotten.push(id);
            after.jobs.remove(&id);
            change.jobs.retain(|job| job.id != id);
        } else {
            change.jobs.push(job(number, dice));
            change.forgotten.retain(|forgotten| *forgotten != id);
        }
    }
    let last: BTreeMap<JobId, JobRecord> = change.jobs.iter().map(|job| (job.id, job.clone())).collect();
    after.jobs.extend(last);
    if dice.below(3) == 0 {
        after.next += 1;
        change.next = Some(after.next);
        after.settings = QueueSettings {
            is_paused: dice.below(2) == 0,
            parallel: Some(dice.below(9) + 1),
        };
        change.settings = Some(after.settings);
        let environment = (after.next_environment, vec![7; dice.below(5000)]);
        after.next_environment += 1;
        change.environment = Some(environment);
    }
    (change, after)
}

#[test]
fn a_loss_of_power_leaves_each_change_whole_or_not_made() {
    for seed in 1..=60 {
        let mut dice = Dice(seed);
        let mut disk = Disk::default();
        let mut store = Store::with(disk.clone()).unwrap();
        let mut contents = store.contents().unwrap();
        for round in 0..12 {
            let (change, after) = change(&contents, &mut dice);
            // Some are broken off in the middle.
            let breaks = dice.below(2) == 0;
            disk.fail_after(breaks.then(|| dice.below(30)));
            let made = store.apply(&change).is_ok();
            let survivor = disk.after_power_loss(&mut dice);
            let reopened = Store::with(survivor.clone());
            let reopened = reopened.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error:#}"));
            let found = reopened.contents().unwrap();
            assert!(
                found == after || !made && found == contents,
                "seed {seed}, round {round}: a change that was {}made is there in part",
                if made { "" } else { "not " }
            );
            // A dropped store writes that it was closed: to a disk that is gone.
            drop(store);
            (store, disk, contents) = (reopened, survivor, found);
        }
    }
}

#[test]
fn a_store_of_a_newer_mgb_is_refused_by_name() {
    let disk = Disk::default();
    drop(Store::with(disk.clone()).unwrap());
    let database = redb::Database::builder()
        .create_with_backend(disk.clone())
        .unwrap();
    let values: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("values");
    let write = database.begin_write().unwrap();
    let newer = 2u64.to_le_bytes();
    write
        .open_table(values)
        .unwrap()
        .insert("layout", newer.as_slice())
        .unwrap();
    write.commit().unwrap();
    drop(database);
    let error = Store::with(disk).unwrap_err().to_string();
    assert!(error.contains("newer MGB"), "{error}");
}

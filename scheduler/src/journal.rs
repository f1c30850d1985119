//! The journal: what an `mgbd` takes down as it serves, so that the next one goes on where it was killed.
//!
//! It is a file of lines, one [`JournalLine`] each, of which only the last can be torn. A line has all that one
//! step changed: the entries of the ledger, and which requests it answered. A request of which no line says
//! that it was answered has changed nothing, and is taken again.
//!
//! The next `mgbd` may be another build: a field that is added has a default, and one that is there keeps its
//! meaning.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::ClientId;
use crate::ledger::{Changes, ContextCharge, TaskHolding, TaskKey};
use crate::node::health::{Ailment, States};

/// A client, as its successor has to know it beside what it sends again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownClient {
    /// The client's number.
    pub id: ClientId,
    /// The client's process id.
    pub pid: u32,
    /// Its account: mostly its user.
    #[serde(default)]
    pub uid: u32,
    /// Its user, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<u32>,
    /// Its job; 0: none.
    pub job: u64,
    /// The version of the protocol that is spoken with it.
    pub version: u32,
}

/// A request, by its place in the client's channel and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Call {
    /// The client that asked.
    pub client: ClientId,
    /// The channel's cell.
    pub cell: usize,
    /// The count of calls in the cell.
    pub seq: u64,
}

/// What people want, and what jobs were told: it holds until somebody ends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Drained GPUs, one bit each.
    pub drained: u64,
    /// What is wrong with GPUs by the driver's word, where no person has had them used again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ailments: Vec<(usize, Vec<Ailment>)>,
    /// What holds of GPUs until they are reset, as said last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<(usize, States)>,
    /// Suspended processes, and since when.
    pub processes: Vec<(u32, Duration)>,
    /// Suspended jobs, and since when: what a build looks at that knows no users of jobs.
    pub suspended_jobs: Vec<(u64, Duration)>,
    /// Suspended jobs by their users, and since when; `None` where such a build wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_jobs_of: Option<Vec<(u32, u64, Duration)>>,
    /// Jobs with the two GPUs that have changed places in them: what a build looks at that knows no
    /// numberings.
    pub exchanged: Vec<(u64, u32, u32)>,
    /// Jobs with the numbering of their GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbered: Vec<Numbered>,
    /// Jobs that were placed on several GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<Placed>,
}

/// A job's numbering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    /// Its user; `None` where a build wrote it that knew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The job's number.
    pub job: u64,
    /// The number of its first device.
    pub first: u32,
    /// The GPUs that it sees, one bit each.
    pub gpus: u64,
    /// What the first numbers stand for.
    pub stands_for: Vec<u32>,
}

/// A job that was placed on several GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The job's user.
    pub uid: u32,
    /// The job's number.
    pub job: u64,
    /// Its GPUs, one bit each.
    pub gpus: u64,
    /// The job's processes that are clients.
    pub members: Vec<ClientId>,
}

/// One line of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalLine {
    /// UUIDs of the GPUs, in the order in which clients name them. In the first line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// The number of the next client, at least.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_client: ClientId,
    /// Clients that came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub came: Vec<KnownClient>,
    /// Clients that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<ClientId>,
    /// The ledger's entries.
    #[serde(default, flatten)]
    pub ledger: Changes,
    /// Requests that wait, and since when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<(Call, Duration)>,
    /// Requests that are answered: the reply is in the cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<Call>,
    /// What holds from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What became of the last request in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has waited since then.
    Waits(Duration),
    /// It is answered.
    Answered,
}

/// What all records together say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// UUIDs of the GPUs, in the order in which clients name them.
    pub gpus: Vec<String>,
    /// The number of the next client, at least.
    pub next_client: ClientId,
    /// The clients by number.
    pub clients: BTreeMap<ClientId, KnownClient>,
    /// The ledger's tasks.
    pub tasks: BTreeMap<TaskKey, TaskHolding>,
    /// Contexts, by client and GPU.
    pub contexts: BTreeMap<(ClientId, usize), ContextCharge>,
    /// The last request of each cell that was taken down, by client and cell.
    pub calls: BTreeMap<(ClientId, usize), (u64, Fate)>,
    /// What was ordered and still holds.
    pub standing: Standing,
}

impl Image {
    /// What a file of records says, which may be longer than they are: what comes after the first line that
    /// is none counts as not written.
    pub fn read(text: &[u8]) -> Image {
        let mut image = Image::default();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n") else {
                break;
            };
            match serde_json::from_slice(line) {
                Ok(record) => image.apply(record),
                Err(error) => {
                    // A torn line has no end, or what is not written yet before it.
                    if !line.contains(&0) {
                        tracing::error!(%error, "a line of the journal is not understood: what follows is lost");
                    }
                    break;
                }
            }
        }
        image
    }

    /// One more record.
    pub fn apply(&mut self, record: JournalLine) {
        if !record.gpus.is_empty() {
            self.gpus = record.gpus;
        }
        self.next_client = self.next_client.max(record.next_client);
        for known in record.came {
            self.next_client = self.next_client.max(known.id + 1);
            self.clients.insert(known.id, known);
        }
        for (key, entry) in record.ledger.tasks {
            match entry {
                Some(entry) => drop(self.tasks.insert(key, entry)),
                None => drop(self.tasks.remove(&key)),
            }
        }
        for (client, gpu, context) in record.ledger.contexts {
            match context {
                Some(context) => drop(self.contexts.insert((client, gpu), context)),
                None => drop(self.contexts.remove(&(client, gpu))),
            }
        }
        for (call, since) in record.waits {
            self.calls
                .insert((call.client, call.cell), (call.seq, Fate::Waits(since)));
        }
        for call in record.answered {
            self.calls
                .insert((call.client, call.cell), (call.seq, Fate::Answered));
        }
        for client in record.gone {
            self.forget(client);
        }
        if let Some(standing) = record.standing {
            self.standing = standing;
        }
    }

    /// Nothing is left of the client.
    pub fn forget(&mut self, client: ClientId) {
        self.clients.remove(&client);
        self.tasks.retain(|key, _| key.client != client);
        self.contexts.retain(|(of, _), _| *of != client);
        self.calls.retain(|(of, _), _| *of != client);
    }

    /// The same as one record.
    pub fn record(&self) -> JournalLine {
        let (mut waits, mut answered) = (Vec::new(), Vec::new());
        for (&(client, cell), &(seq, fate)) in &self.calls {
            let call = Call { client, cell, seq };
            match fate {
                Fate::Waits(since) => waits.push((call, since)),
                Fate::Answered => answered.push(call),
            }
        }
        JournalLine {
            gpus: self.gpus.clone(),
            next_client: self.next_client,
            came: self.clients.values().copied().collect(),
            gone: Vec::new(),
            ledger: self.ledger(),
            waits,
            answered,
            standing: Some(self.standing.clone()),
        }
    }

    /// What the ledger had.
    pub fn ledger(&self) -> Changes {
        let tasks = self.tasks.iter().map(|(key, entry)| (*key, Some(entry.clone())));
        let contexts = self.contexts.iter();
        Changes {
            tasks: tasks.collect(),
            contexts: contexts
                .map(|(&(client, gpu), context)| (client, gpu, Some(*context)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(client: ClientId, cell: usize, seq: u64) -> Call {
        Call { client, cell, seq }
    }

    fn line(record: &JournalLine) -> Vec<u8> {
        let mut line = serde_json::to_vec(record).unwrap();
        line.push(b'\n');
        line
    }

    fn known(id: ClientId) -> KnownClient {
        KnownClient {
            id,
            pid: id as u32 + 100,
            uid: 1000,
            reader: (id == 2).then_some(100_007),
            job: 7,
            version: 12,
        }
    }

    fn context(bytes: u64) -> ContextCharge {
        ContextCharge {
            bytes,
            overhead: 0,
            taken: 0,
            most_taken: 0,
        }
    }

    fn some() -> Vec<JournalLine> {
        let came = JournalLine {
            gpus: vec!["GPU-a".to_owned()],
            came: vec![known(1), known(2)],
            waits: vec![(call(1, 0, 1), Duration::from_secs(5))],
            ..JournalLine::default()
        };
        let granted = JournalLine {
            ledger: Changes {
                contexts: vec![(1, 0, Some(context(9))), (2, 0, Some(context(8)))],
                ..Changes::default()
            },
            answered: vec![call(1, 0, 1)],
            ..JournalLine::default()
        };
        let left = JournalLine {
            gone: vec![2],
            standing: Some(Standing {
                drained: 1,
                ailments: vec![(0, vec![Ailment::Xid(79)])],
                ..Standing::default()
            }),
            ..JournalLine::default()
        };
        vec![came, granted, left]
    }

    #[test]
    fn a_torn_last_line_counts_as_not_written() {
        let whole: Vec<u8> = some().iter().flat_map(line).collect();
        let all = Image::read(&whole);
        assert_eq!(all.clients.keys().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(all.calls[&(1, 0)], (1, Fate::Answered));
        assert_eq!(
            (all.contexts.len(), all.standing.drained, all.next_client),
            (1, 1, 3)
        );
        let last = line(&some()[2]).len();
        let before = Image::read(&whole[..whole.len() - last]);
        for cut in 1..last {
            assert_eq!(Image::read(&whole[..whole.len() - cut]), before, "{cut}");
            // Any part of it may be missing.
            let mut torn = whole.clone();
            torn[whole.len() - last..][..cut].fill(0);
            torn.resize(whole.len() + 100, 0);
            assert_eq!(Image::read(&torn), before, "{cut}");
        }
        assert_eq!(before.contexts.len(), 2);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_image(bytes: Vec<u8>, cut in 0usize..400, at in 0usize..400, with: u8) {
            Image::read(&bytes);
            let mut whole: Vec<u8> = some().iter().flat_map(line).collect();
            whole.truncate(whole.len().saturating_sub(cut));
            if let Some(byte) = whole.get_mut(at) {
                *byte = with;
            }
            let image = Image::read(&whole);
            assert_eq!(Image::read(&line(&image.record())), image);
        }
    }

    #[test]
    fn a_journal_of_before_there_were_users_is_read() {
        let text = br#"{"gpus":["GPU-a"],"came":[{"id":4,"pid":9,"job":0,"version":12}]}"#;
        let image = Image::read(&[text, &b"\n"[..]].concat());
        assert_eq!((image.clients[&4].uid, image.next_client), (0, 5));
    }

    #[test]
    fn an_image_is_one_record() {
        let whole: Vec<u8> = some().iter().flat_map(line).collect();
        let all = Image::read(&whole);
        assert_eq!(Image::read(&line(&all.record())), all);
        assert_eq!(Image::read(b""), Image::default());
    }
}

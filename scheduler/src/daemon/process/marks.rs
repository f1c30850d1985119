//! To which whole-process task a process belongs that has left its process tree (a daemon, a container):
//! `mgb run --need` gives all that it starts a mark in the environment, which such a process still has.
//!
//! A program may change its environment, so that a mark counts among processes of one user alone: who copies
//! another's has its memory counted within that other task of the same user, and gains nothing. Reading it may
//! wait for whoever backs that memory, so it is done beside the loop; until it has been, there is none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgb_interface::peer::{is_of, started};
use parking_lot::Mutex;

use crate::client::ClientId;
use crate::daemon::client::Client;
use crate::daemon::process::family::number_of;
use crate::daemon::threads::pool::ThreadPool;

/// Bytes of an environment that are looked at.
const MAX_ENVIRONMENT: u64 = 1 << 20;
/// How long a process counts as one without a mark: `mgb run` has none until the program takes its place.
const UNMARKED: Duration = Duration::from_secs(1);
/// Processes that are remembered; beyond them those that have ended are forgotten.
const MAX_KNOWN: usize = 4096;

/// What is known of processes' marks. Clones share it.
#[derive(Clone)]
pub(crate) struct Marks {
    pool: Arc<ThreadPool>,
    known: MarksByPid,
}

type MarksByPid = Arc<Mutex<BTreeMap<u32, Looked>>>;

#[derive(Clone, Copy)]
struct Looked {
    /// When the process was started: another one may have its number later.
    started: Duration,
    at: Instant,
    /// `None`: it has none, or nobody has looked yet.
    mark: Option<u64>,
}

impl Marks {
    pub(crate) fn new(pool: ThreadPool) -> Marks {
        Marks {
            pool: Arc::new(pool),
            known: MarksByPid::default(),
        }
    }

    /// The client among these that the process belongs to by its mark.
    pub(crate) fn belongs_to<'a>(
        &self,
        pid: u32,
        clients: impl IntoIterator<Item = &'a Client>,
    ) -> Option<ClientId> {
        let holds = |client: &&Client| {
            is_of(pid, client.uid) == Some(true)
                && self
                    .mark(pid, client.uid)
                    .is_some_and(|mark| self.mark(client.pid, client.uid) == Some(mark))
        };
        clients.into_iter().find(holds).map(|client| client.id)
    }

    /// The mark of a user's process, as far as it is known; it is looked up if it is not.
    fn mark(&self, pid: u32, uid: u32) -> Option<u64> {
        let started = started(pid)?;
        let mut known = self.known.lock();
        let is_current = |looked: &&Looked| {
            looked.started == started && (looked.mark.is_some() || looked.at.elapsed() < UNMARKED)
        };
        if let Some(looked) = known.get(&pid).filter(is_current) {
            return looked.mark;
        }
        if known.len() >= MAX_KNOWN {
            known.retain(|pid, looked| mgb_interface::peer::started(*pid) == Some(looked.started));
        }
        let found = self.known.clone();
        let ask = move || {
            let mark = mark_of(pid);
            if let Some(looked) = found
                .lock()
                .get_mut(&pid)
                .filter(|looked| looked.started == started)
            {
                looked.mark = mark;
            }
        };
        if known.len() < MAX_KNOWN && self.pool.put(uid.into(), ask) {
            let (at, mark) = (Instant::now(), None);
            known.insert(pid, Looked { started, at, mark });
        }
        None
    }
}

fn mark_of(pid: u32) -> Option<u64> {
    let mut environment = Vec::new();
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    // What could be read of it before an error counts.
    let _ = file.take(MAX_ENVIRONMENT).read_to_end(&mut environment);
    let of = |line: &[u8]| {
        let value = line
            .strip_prefix(mgb_probe::NEED_MARK.as_bytes())?
            .strip_prefix(b"=")?;
        Some(number_of(value))
    };
    environment.split(|byte| *byte == 0).find_map(of)
}

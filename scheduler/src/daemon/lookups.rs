//! What the loop must know and may have to wait for, looked up beside it: a file system that a client chose
//! may hang, and so may a name service. Each question has a thread, a bound ([`LOOKUP_TIMEOUT`]) and an
//! answer by default, with which the loop goes on; the answer itself counts once it comes.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::broker::ProgramId;
use crate::client::ClientId;
use crate::daemon::config::{ChangedSettings, RereadSettings};
use crate::daemon::process::family::program_of;
use crate::daemon::process::marks::Marks;
use crate::daemon::threads::apart::Apart;
use crate::daemon::threads::pool::ThreadPool;
use crate::node::health::News;
use crate::quota::Account;
use crate::quota::file::{Quotas, QuotasError};

/// How long somebody waits for an answer before the default one counts.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Questions about one user that may wait for a thread.
const MAX_WAITING: usize = 1024;
/// The number of nobody's questions.
const NOBODY: u64 = u64::MAX;

/// An answer that came from a thread beside the loop.
pub(crate) enum LookupAnswer {
    /// What a client's process runs.
    Program(ClientId, Option<ProgramId>),
    /// What holds for a user by these quotas.
    Account(u32, Arc<Quotas>, Account),
    /// What the driver says of a GPU's health.
    Health(usize, News),
    /// What the file of quotas says.
    Quotas(Result<Quotas, QuotasError>),
    /// What the settings say.
    Settings(Result<ChangedSettings, String>),
}

/// Questions and their answers.
pub(crate) struct Lookups {
    answers: Answers,
    programs: ThreadPool,
    marks: Marks,
    names: ThreadPool,
}

/// Answers that nobody has taken yet.
#[derive(Clone)]
pub(crate) struct Answers {
    found: Arc<Mutex<Vec<LookupAnswer>>>,
    /// Readable while there are any.
    rings: Arc<OwnedFd>,
}

impl Answers {
    fn add(&self, found: LookupAnswer) {
        self.found.lock().push(found);
        // Where it is full it is readable already.
        let _ = rustix::io::write(&*self.rings, &1u64.to_ne_bytes());
    }

    /// The driver says this of GPUs' health.
    pub(crate) fn health(&self, news: impl Iterator<Item = (usize, News)>) {
        news.for_each(|(gpu, news)| self.add(LookupAnswer::Health(gpu, news)));
    }
}

impl Lookups {
    /// To be made before the first client comes: see [`crate::daemon::threads::apart`].
    pub(crate) fn new() -> std::io::Result<Lookups> {
        let rings = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let apart = Apart::new(&rings)?;
        let pool = || {
            let apart = apart.clone();
            ThreadPool::new(MAX_WAITING, move |body| apart.start(body))
        };
        Ok(Lookups {
            answers: Answers {
                found: Arc::default(),
                rings: Arc::new(rings),
            },
            programs: pool(),
            marks: Marks::new(pool()),
            names: pool(),
        })
    }

    /// What is known of processes' marks.
    pub(crate) fn marks(&self) -> Marks {
        self.marks.clone()
    }

    /// Where answers go that nobody asked for here.
    pub(crate) fn answers(&self) -> Answers {
        self.answers.clone()
    }

    /// Becomes readable when there are answers.
    pub(crate) fn rings(&self) -> &OwnedFd {
        &self.answers.rings
    }

    /// What does this client's process run? False: nobody is going to say so soon.
    pub(crate) fn program(&self, id: ClientId, uid: u32, pid: u32) -> bool {
        let answers = self.answers.clone();
        let is_stuck = self.programs.is_stuck(uid.into());
        let ask = move || answers.add(LookupAnswer::Program(id, program_of(pid)));
        self.programs.put(uid.into(), ask) && !is_stuck
    }

    /// What holds for this user?
    pub(crate) fn account(&self, uid: u32, quotas: Arc<Quotas>) -> bool {
        let answers = self.answers.clone();
        self.names.put(uid.into(), move || {
            let account = quotas.account(uid);
            answers.add(LookupAnswer::Account(uid, quotas, account));
        })
    }

    /// What does this file of quotas say?
    pub(crate) fn quotas(&self, file: PathBuf) -> bool {
        let answers = self.answers.clone();
        self.names.put(NOBODY, move || {
            answers.add(LookupAnswer::Quotas(Quotas::read(&file)))
        })
    }

    /// What do the settings say?
    pub(crate) fn settings(&self, reread: RereadSettings) -> bool {
        let answers = self.answers.clone();
        self.names
            .put(NOBODY, move || answers.add(LookupAnswer::Settings((reread.0)())))
    }

    /// The answers that have come.
    pub(crate) fn take(&self) -> Vec<LookupAnswer> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.answers.rings, &mut count);
        std::mem::take(&mut *self.answers.found.lock())
    }

    /// Waits until there are answers, to this time at most. For the start alone.
    pub(crate) fn wait_until(&self, time: Instant) -> Vec<LookupAnswer> {
        let left = time.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let _ = poll(
            &mut [PollFd::new(&*self.answers.rings, PollFlags::IN)],
            Some(&left),
        );
        self.take()
    }
}

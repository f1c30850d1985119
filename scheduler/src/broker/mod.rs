//! The broker: takes the clients' requests, keeps the queue, and answers.
//!
//! It has no clock, no driver and no channel: whoever runs it says what time it
//! is, what the driver shows ([`Sight`]), and carries the answers. `mgbd` does,
//! and so do the tests.

mod ask;
mod expect;
mod overhead;
mod past;
mod pending;
mod program;
mod remembered;
mod serve;
mod show;
mod stuck;
mod turns;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::Gpu;
use mgb_probe::need::ALONE;
use mgb_probe::view::Counts;
use mgb_probe::wire::{Op, Reply, Request, WHOLE_PROCESS};

pub use program::Program;
pub use remembered::Remembered;
pub use view::WHOLE;

use crate::ledger::{ClientId, Ledger, Reclaiming, TaskKey};
use crate::{Policy, Queue};
use overhead::Overheads;
use past::{Past, Which};
use pending::Pending;
use turns::Turns;

/// What the driver and the clients' publications show.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// By GPU: bytes that the driver shows free beyond what holders may still
    /// map. `None`: the driver does not say, and the ledger alone decides.
    pub covered: Vec<Option<u64>>,
    /// Clients with launches in flight, by GPU.
    pub busy: BTreeSet<(ClientId, usize)>,
    /// Tasks that are over but keep their grant until somebody waits for it.
    pub leased: BTreeSet<TaskKey>,
    /// How much of the last time processes had work under way, by client and GPU in that order. Who is missing is taken
    /// for busy.
    pub activity: Vec<Activity>,
}

/// How busy a process has been on a GPU lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Who.
    pub client: ClientId,
    /// GPU index.
    pub gpu: usize,
    /// In parts of [`WHOLE`].
    pub part: u32,
}

/// An answer to carry to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whose.
    pub client: ClientId,
    /// The call's cell.
    pub cell: usize,
    /// What to say.
    pub reply: Reply,
}

/// What the broker is to do.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Who gets what.
    pub policy: Policy,
    /// Who goes first.
    pub queue: Queue,
    /// How long the first in the queue may be passed by others.
    pub patience: Duration,
    /// Most processes on a GPU at once.
    pub max_processes: u32,
}

/// How long the first in the queue may be passed by others, unless set. What is kept for him is of no use to others until
/// then: with 10 s a batch of jobs of some 20 s each had a mean turnaround a quarter longer, and the same makespan and longest
/// wait (`cargo bench --bench replay`).
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Clients that an MPS server takes for one GPU.
pub const MPS_CLIENTS: u32 = 48;

impl Rules {
    /// The usual rules for a policy.
    pub fn new(policy: Policy) -> Rules {
        Rules {
            policy,
            queue: policy.serves(None).unwrap_or_default(),
            patience: PATIENCE,
            max_processes: MPS_CLIENTS,
        }
    }
}

/// A request that waits.
#[derive(Clone, Debug)]
struct Waiting {
    client: ClientId,
    cell: usize,
    request: Request,
    since: Duration,
    /// Bytes to reserve, all of a new task or more of a growing one.
    bytes: u64,
    /// Bytes that are to be there for it: of a new task what it is expected to have at most, never less than `bytes`.
    expected_bytes: u64,
    /// Of those that it does not ask for, so many are for the process's overhead, as far as they are there.
    overhead: u64,
    /// GPUs it can go to.
    gpus: u64,
    /// What it is remembered by; `None` if nobody knows the program, or it grows.
    which: Option<Which>,
}

impl Waiting {
    fn key(&self) -> TaskKey {
        TaskKey {
            client: self.client,
            task: self.request.task,
        }
    }

    fn grows(&self) -> bool {
        self.request.op == Op::Grow
    }

    /// What is expected of the process beside its tasks.
    fn expected_overhead(&self) -> u64 {
        self.overhead.min(self.expected_bytes - self.bytes)
    }

    /// Whether it is to have more room than it asks for.
    fn expects(&self) -> bool {
        self.expected_bytes > self.bytes
    }

    fn waits(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}

/// A client that was told to make room and has not asked again.
#[derive(Clone, Copy, Debug)]
struct Told {
    thread: u32,
    gpu: usize,
    reserved: u64,
}

#[derive(Clone, Debug, Default)]
struct Client {
    pid: u32,
    program: Option<Program>,
    told: Option<Told>,
    /// GPUs on which it was told and nothing came of it.
    cannot_swap: u64,
}

/// Who last asked for a task, and when.
#[derive(Clone, Copy, Debug)]
struct Touch {
    thread: u32,
    at: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Broker {
    rules: Rules,
    ledger: Ledger,
    clients: BTreeMap<ClientId, Client>,
    queue: Pending,
    /// Answers to requests that left the queue without a grant; the next round delivers them.
    overdue: Vec<Answer>,
    past: Past,
    overheads: Overheads,
    turns: Turns,
    touched: BTreeMap<TaskKey, Touch>,
    /// The first task that only expectations keep from beginning, and since when it is that.
    kept_out: Option<(TaskKey, Duration)>,
    counts: Counts,
}

impl Broker {
    /// A broker over idle GPUs.
    pub fn new(gpus: Vec<Gpu>, rules: Rules) -> Broker {
        Broker {
            ledger: Ledger::new(gpus, rules.policy.blind()),
            rules,
            clients: BTreeMap::new(),
            queue: Pending::default(),
            overdue: Vec::new(),
            past: Past::default(),
            overheads: Overheads::default(),
            turns: Turns::default(),
            touched: BTreeMap::new(),
            kept_out: None,
            counts: Counts::default(),
        }
    }

    /// The books.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Totals.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether a request waits for an answer that [`Broker::serve`] gives.
    pub fn waiting(&self) -> bool {
        !self.queue.is_empty() || !self.overdue.is_empty()
    }

    /// Whose turn it is at the driver, of those who wait for it. Called after each event, and when
    /// [`Broker::next_turn_in`] says so.
    pub fn take_turns(&mut self, now: Duration) -> Vec<Answer> {
        let ledger = &self.ledger;
        self.turns
            .next(now, |client| ledger.tasks_of(client).next().is_some())
    }

    /// How many processes wait for their turn at the driver.
    pub fn starting(&self) -> u32 {
        self.turns.waiting()
    }

    /// How long until it is somebody's turn if nothing happens; `None`: nobody waits for it.
    pub fn next_turn_in(&self, now: Duration) -> Option<Duration> {
        self.turns.due(now)
    }

    /// A client arrived. `client` is larger than all before it.
    pub fn arrive(&mut self, client: ClientId, pid: u32) {
        self.clients.insert(
            client,
            Client {
                pid,
                ..Client::default()
            },
        );
    }

    /// What the client's process runs: what its tasks take is remembered for the next time.
    pub fn identify(&mut self, client: ClientId, program: Program) {
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.program = Some(program);
        }
    }

    /// The client's channel is gone: it waits for nothing any more. What it
    /// holds stays charged as long as its process lives.
    pub fn hang_up(&mut self, client: ClientId) {
        self.turns.gone(client);
        self.queue.retain(|waiting| waiting.client != client);
        self.overdue.retain(|answer| answer.client != client);
    }

    /// The client's process died; returns what is to be reclaimed.
    pub fn die(&mut self, client: ClientId, now: Duration) -> Vec<Reclaiming> {
        self.hang_up(client);
        self.ends_with_its_process(client, now);
        self.overhead_ends(client);
        self.clients.remove(&client);
        let lost = self.ledger.die(client, false, now);
        self.forget_touches(client);
        lost
    }

    /// A process that held something was killed.
    pub fn count_killed(&mut self) {
        self.counts.died_holding += 1;
    }

    /// The client's process lives on as another program, which connected anew:
    /// what the old program held is to be reclaimed, except tasks that are the
    /// process.
    pub fn exec(&mut self, client: ClientId, now: Duration) -> Vec<Reclaiming> {
        self.hang_up(client);
        self.past.forget_client(client);
        self.overhead_ends(client);
        let lost = self.ledger.die(client, true, now);
        self.forget_touches(client);
        lost
    }

    fn forget_touches(&mut self, client: ClientId) {
        self.touched
            .retain(|key, _| key.client != client || self.ledger.task(*key).is_some());
    }

    /// Tasks that run to the end of their process: lazy ones of programs that free nothing, and whole processes.
    fn ends_with_its_process(&mut self, client: ClientId, now: Duration) {
        for (key, held) in self.ledger.tasks_of(client) {
            self.past.ended(key, now.saturating_sub(held.granted));
        }
        self.past.forget_client(client);
    }

    /// A lease was taken away: the task is over, and held nothing.
    pub fn take_lease(&mut self, key: TaskKey) {
        self.past.forget(key);
        if self.ledger.end(key, 0).is_ok() {
            self.forget_if_over(key);
        }
    }

    /// The driver shows that room free.
    pub fn freed(&mut self, id: u64) -> Option<Reclaiming> {
        self.ledger.freed(id)
    }
}

/// Bytes that the client's tasks have reserved on the GPU.
fn reserved_on(ledger: &Ledger, client: ClientId, gpu: usize) -> u64 {
    ledger
        .tasks_of(client)
        .filter(|(_, held)| held.gpu == gpu)
        .map(|(_, held)| held.reserved)
        .sum()
}

impl Broker {
    /// GPUs on which the client has a context, as a set by index.
    fn contexts_of(&self, client: ClientId) -> u64 {
        self.ledger.contexts_of(client).fold(0, |set, gpu| set | 1 << gpu)
    }

    /// Whether the request is for a task that wants a GPU for itself. Policies that know no memory know none.
    fn wants_alone(&self, waiting: &Waiting) -> bool {
        !self.ledger.blind() && !waiting.grows() && waiting.request.need.flags & ALONE != 0
    }
}

fn is_whole_process(request: &Request) -> bool {
    request.flags & WHOLE_PROCESS != 0
}

#[cfg(test)]
mod tests;

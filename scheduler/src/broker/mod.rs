//! The broker: takes the clients' requests, keeps the queue, and answers.
//!
//! It has no clock, no driver and no channel: whoever runs it says what time it
//! is, what the driver shows ([`Snapshot`]), and carries the answers. `mgbd` does,
//! and so do the tests.

mod accounts;
mod agent;
mod answer;
mod ask;
mod claims;
mod control;
mod evict;
mod expect;
mod failing;
mod follow;
mod further;
mod gather;
mod gathered;
mod health;
mod held;
mod hold_back;
mod jobs;
mod lasting;
mod leave;
mod memory;
mod moves;
mod moving;
mod overhead;
mod owners;
mod past;
mod pending;
mod places;
mod placing;
mod program;
mod quota;
mod remembered;
mod rules;
mod serve;
mod shares;
mod show;
mod snapshot;
mod stuck;
mod suspended;
mod swap_quota;
mod times;
mod took;
mod turns;
mod usable;
mod usage;
mod user_places;
mod view;
mod waiting;
mod waiting_quota;

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::Gpu;
use mgb_probe::need::ALONE;
use mgb_probe::view::{Counts, Hindrance};

pub use agent::OrderTo;
pub use answer::Answer;
pub use program::Program;
pub use remembered::Remembered;
pub use rules::{MPS_CLIENTS, PATIENCE, Rules};
pub use snapshot::{Activity, Snapshot};
pub use times::{Late, Times};
pub use view::WHOLE;

use crate::client::ClientId;
use crate::eviction::Speed;
use crate::gpu_set::GpuSet;
use crate::ledger::{Ledger, Reclaiming, TaskKey};
use crate::policies::Claim;
use accounts::Accounts;
use agent::{Agent, FIRST_SPEED};
use gathered::Gathers;
use health::Health;
use held::Held;
use jobs::{JobOfUser, Jobs};
use moves::{Moves, Wish};
use overhead::Overheads;
use past::Past;
use pending::Pending;
use places::Places;
use suspended::Suspended;
use turns::Turns;
use usage::Usages;
use waiting::{Waiting, is_whole_process};

/// A client that was sent an order to swap out and has not asked again.
#[derive(Clone, Copy, Debug)]
struct SwapOrder {
    thread: u32,
    gpu: usize,
    reserved: u64,
}

#[derive(Clone, Debug, Default)]
struct Client {
    pid: u32,
    /// Its user.
    uid: u32,
    program: Option<Program>,
    /// The job that it belongs to; 0: none.
    job: u64,
    /// It begins no task: it looks, or speaks for a person.
    looks: bool,
    /// Its orders may be about everybody's programs.
    administers: bool,
    swap_order: Option<SwapOrder>,
    /// GPUs on which an order to swap freed nothing.
    cannot_swap: GpuSet,
    agent: Agent,
}

impl Client {
    fn job_of_user(&self) -> JobOfUser {
        (self.uid, self.job)
    }
}

/// The thread that last asked for a task, and when.
#[derive(Clone, Copy, Debug)]
struct Touch {
    thread: u32,
    at: Duration,
}

/// The scheduler without clock, driver and sockets: it takes requests, keeps the queue and answers.
#[derive(Debug)]
pub struct Broker {
    rules: Rules,
    ledger: Ledger,
    clients: BTreeMap<ClientId, Client>,
    queue: Pending,
    /// For whom others make room, by GPU.
    claims: BTreeMap<usize, Claim>,
    /// Where room gathers.
    gathers: Gathers,
    /// Requests that are not in the queue because a person wants it.
    held: Vec<Held>,
    suspended: Suspended,
    accounts: Accounts,
    /// GPUs that are drained.
    drained: GpuSet,
    health: Health,
    /// GPUs that the driver cannot reach, as last seen.
    lost: GpuSet,
    /// In a round: bytes that clients have mapped beyond their reservations ([`Snapshot::ahead`]).
    ahead: BTreeMap<(ClientId, usize), u64>,
    /// Whether what people want has changed, and was not taken down yet.
    standing_changed: bool,
    /// Whether requests may be kept off GPUs on which they fit.
    narrowed: bool,
    /// What keeps memory where it is that a person wants to leave, as of the last round.
    hindrances: BTreeMap<(ClientId, usize), Hindrance>,
    /// Answers to requests that left the queue without a grant; the next round delivers them.
    overdue: Vec<Answer>,
    past: Past,
    overheads: Overheads,
    turns: Turns,
    jobs: Jobs,
    /// The GPUs of jobs that use several.
    places: Places,
    usages: Usages,
    touched: BTreeMap<TaskKey, Touch>,
    /// When a task ended last, by GPU.
    work_ended: BTreeMap<usize, Duration>,
    /// Tasks that have moved: how often, and when last.
    moves: BTreeMap<TaskKey, Moves>,
    /// What people want to move, and was not ordered yet.
    wishes: Vec<Wish>,
    /// Between which GPUs there is work to be evened out, and since when.
    uneven: Option<(usize, usize, Duration)>,
    /// When a task is moved at random next.
    shuffle_at: Duration,
    /// The first task that only expectations keep from beginning, and since when it is that.
    kept_out: Option<(TaskKey, Duration)>,
    counts: Counts,
    /// Decided on, and not carried to the clients yet.
    orders: Vec<OrderTo>,
    /// How fast memory is expected to go to the host.
    speed: Speed,
}

impl Broker {
    /// A broker over idle GPUs.
    pub fn new(gpus: Vec<Gpu>, rules: Rules) -> Broker {
        Broker {
            ledger: Ledger::new(gpus, rules.policy.blind()),
            rules,
            clients: BTreeMap::new(),
            queue: Pending::default(),
            claims: BTreeMap::new(),
            gathers: Gathers::default(),
            held: Vec::new(),
            suspended: Suspended::default(),
            accounts: Accounts::default(),
            drained: GpuSet::EMPTY,
            health: Health::default(),
            lost: GpuSet::EMPTY,
            ahead: BTreeMap::new(),
            standing_changed: false,
            narrowed: false,
            hindrances: BTreeMap::new(),
            overdue: Vec::new(),
            past: Past::default(),
            overheads: Overheads::default(),
            turns: Turns::default(),
            jobs: Jobs::default(),
            places: Places::default(),
            usages: Usages::default(),
            touched: BTreeMap::new(),
            work_ended: BTreeMap::new(),
            moves: BTreeMap::new(),
            wishes: Vec::new(),
            uneven: None,
            shuffle_at: Duration::ZERO,
            kept_out: None,
            counts: Counts::default(),
            orders: Vec::new(),
            speed: FIRST_SPEED,
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
        !self.queue.is_empty() || !self.overdue.is_empty() || !self.jobs.followers().is_empty()
    }

    /// Gives turns at the driver to waiting processes. Called after each event, and when
    /// [`Broker::next_turn_in`] says so.
    pub fn take_turns(&mut self, now: Duration) -> Vec<Answer> {
        let (ledger, clients) = (&self.ledger, &self.clients);
        let users = turns::Users {
            of: |client| clients.get(&client).map_or(0, |entry| entry.uid),
            are_several: self.accounts.several,
        };
        self.turns
            .next(now, |client| ledger.tasks_of(client).next().is_some(), &users)
    }

    /// How many processes wait for their turn at the driver.
    pub fn starting(&self) -> u32 {
        self.turns.waiting()
    }

    /// How long until the next turn if nothing happens; `None`: no process waits for one.
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

    /// The client's process is this user's.
    pub fn belongs_to(&mut self, client: ClientId, uid: u32) {
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.uid = uid;
        }
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
        self.jobs.hang_up(client);
        self.queue.retain(|waiting| waiting.client != client);
        self.drop_held(client);
        self.drop_beyond(client);
        self.overdue.retain(|answer| answer.client != client);
    }

    /// The client's process died; returns what is to be reclaimed.
    pub fn die(&mut self, client: ClientId, now: Duration) -> Vec<Reclaiming> {
        self.hang_up(client);
        self.ends_with_its_process(client, now);
        self.overhead_ends(client);
        self.jobs.leave(client);
        self.places.leave(client);
        self.forget_suspended(client);
        let lost = self.ledger.die(client, false, now);
        self.stays_on_account(client, &lost);
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
        self.jobs.leave(client);
        self.places.leave(client);
        let lost = self.ledger.die(client, true, now);
        self.stays_on_account(client, &lost);
        self.forget_touches(client);
        lost
    }

    fn forget_touches(&mut self, client: ClientId) {
        let is_there = |key: &TaskKey| key.client != client || self.ledger.task(*key).is_some();
        self.touched.retain(|key, _| is_there(key));
        self.moves.retain(|key, _| is_there(key));
    }

    /// Tasks that run to the end of their process: lazy ones of programs that free nothing, and whole
    /// processes.
    fn ends_with_its_process(&mut self, client: ClientId, now: Duration) {
        let mut held_for = Duration::ZERO;
        for (key, held) in self.ledger.tasks_of(client) {
            self.work_ended.insert(held.gpu, now);
            let lasted = now.saturating_sub(held.granted);
            self.past.ended(key, lasted);
            held_for += if held.running { lasted } else { Duration::ZERO };
        }
        self.held_for(client, held_for, now);
        self.past.forget_client(client);
    }

    /// When a task on the GPU, or its process, ended last; `None`: none has.
    pub fn work_ended(&self, gpu: usize) -> Option<Duration> {
        self.work_ended.get(&gpu).copied()
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
        self.accounts.reclaiming.remove(&id);
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
    /// GPUs on which the client has a context.
    fn contexts_of(&self, client: ClientId) -> GpuSet {
        self.ledger.contexts_of(client).collect()
    }

    /// Whether the request is for a task that wants a GPU for itself. Policies that know no memory know none.
    fn wants_alone(&self, waiting: &Waiting) -> bool {
        !self.ledger.blind() && !waiting.grows() && waiting.request.need.flags & ALONE != 0
    }
}

#[cfg(test)]
mod tests;

//! The broker: takes the clients' requests, keeps the queue, and answers.
//!
//! It has no clock, no driver and no channel: whoever runs it says what time it
//! is, what the driver shows ([`Sight`]), and carries the answers. `mgbd` does,
//! and so do the tests.

mod serve;
mod show;
mod stuck;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::Gpu;
use mgb_probe::view::Counts;
use mgb_probe::wire::{Op, Reply, Request, Text, WHOLE_PROCESS};

use crate::Policy;
use crate::ledger::{ClientId, Ledger, Reclaiming, TaskKey};

/// Most tasks a client can have in the ledger at once: what an honest program
/// never comes near, and what bounds the memory a hostile one can take.
const MAX_TASKS: usize = 16 << 10;

/// What the driver and the clients' publications show.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// By GPU: bytes that the driver shows free beyond what holders may still
    /// map. `None`: the driver does not say, and the ledger alone decides.
    pub covered: Vec<Option<u64>>,
    /// Clients with launches in flight, by GPU.
    pub busy: BTreeSet<(ClientId, usize)>,
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
    /// How long the first in the queue may be passed by others.
    pub patience: Duration,
    /// Most processes on a GPU at once.
    pub max_processes: u32,
}

/// How long the first in the queue may be passed by others, unless set.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Clients that an MPS server takes for one GPU.
pub const MPS_CLIENTS: u32 = 48;

impl Rules {
    /// The usual rules for a policy.
    pub fn new(policy: Policy) -> Rules {
        Rules {
            policy,
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
    /// GPUs it can go to.
    gpus: u64,
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
    queue: Vec<Waiting>,
    touched: BTreeMap<TaskKey, Touch>,
    counts: Counts,
}

impl Broker {
    /// A broker over idle GPUs.
    pub fn new(gpus: Vec<Gpu>, rules: Rules) -> Broker {
        Broker {
            ledger: Ledger::new(gpus, rules.policy.blind()),
            rules,
            clients: BTreeMap::new(),
            queue: Vec::new(),
            touched: BTreeMap::new(),
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

    /// Whether anybody waits.
    pub fn waiting(&self) -> bool {
        !self.queue.is_empty()
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

    /// The client's channel is gone: it waits for nothing any more. What it
    /// holds stays charged as long as its process lives.
    pub fn hang_up(&mut self, client: ClientId) {
        self.queue.retain(|waiting| waiting.client != client);
    }

    /// The client's process died; returns what is to be reclaimed.
    pub fn die(&mut self, client: ClientId, now: Duration) -> Vec<Reclaiming> {
        self.hang_up(client);
        self.clients.remove(&client);
        let lost = self.ledger.die(client, false, now);
        self.counts.died_holding += u64::from(!lost.is_empty());
        self.forget_touches(client);
        lost
    }

    /// The client's process lives on as another program, which connected anew:
    /// what the old program held is to be reclaimed, except tasks that are the
    /// process.
    pub fn exec(&mut self, client: ClientId, now: Duration) -> Vec<Reclaiming> {
        self.hang_up(client);
        let lost = self.ledger.die(client, true, now);
        self.forget_touches(client);
        lost
    }

    fn forget_touches(&mut self, client: ClientId) {
        self.touched
            .retain(|key, _| key.client != client || self.ledger.task(*key).is_some());
    }

    /// The driver shows that room free.
    pub fn freed(&mut self, id: u64) -> Option<Reclaiming> {
        self.ledger.freed(id)
    }

    /// Takes a request. `None`: it was put in the queue, and [`Broker::serve`]
    /// answers it.
    pub fn request(
        &mut self,
        client: ClientId,
        cell: usize,
        request: Request,
        now: Duration,
    ) -> Option<Reply> {
        let key = TaskKey {
            client,
            task: request.task,
        };
        match request.op {
            Op::Begin => self.begin(key, cell, request, now),
            Op::Grow => self.grow(key, cell, request, now),
            Op::Swapped => Some(self.change(key, request, |ledger| ledger.swap(key, request.bytes))),
            Op::GiveBack => Some(self.change(key, request, |ledger| ledger.shrink(key, request.bytes))),
            Op::End => Some(self.change(key, request, |ledger| ledger.end(key, request.bytes))),
        }
    }

    fn change<E>(
        &mut self,
        key: TaskKey,
        request: Request,
        change: impl FnOnce(&mut Ledger) -> Result<u64, E>,
    ) -> Reply {
        if change(&mut self.ledger).is_err() {
            return unknown(request.task);
        }
        if self.ledger.task(key).is_none() {
            self.touched.remove(&key);
            // Growing and ending at once: whoever waits would wait for ever.
            self.queue
                .retain(|waiting| waiting.key() != key || !waiting.grows());
        }
        Reply::Done
    }

    fn begin(&mut self, key: TaskKey, cell: usize, request: Request, now: Duration) -> Option<Reply> {
        if request.task == 0 || self.ledger.task(key).is_some() || self.is_queued(key) {
            return Some(bad("that task number is taken, or 0"));
        }
        if self.ledger.tasks_of(key.client).count() >= MAX_TASKS {
            return Some(bad("the process has too many tasks at once"));
        }
        let bytes = request.need.reserved_bytes();
        let gpus = self.ledger.gpus();
        let allowed: Vec<usize> = (0..gpus.len())
            .filter(|gpu| request.gpus & (1 << gpu) != 0)
            .collect();
        let Some(&largest) = allowed.iter().max_by_key(|&&gpu| gpus[gpu].usable_bytes) else {
            self.counts.refused += 1;
            return Some(Reply::NoGpu);
        };
        let fit = allowed
            .iter()
            .filter(|&&gpu| {
                self.ledger.blind() || bytes.saturating_add(gpus[gpu].context_bytes) <= gpus[gpu].usable_bytes
            })
            .fold(0u64, |mask, gpu| mask | 1 << gpu);
        if fit == 0 {
            self.counts.refused += 1;
            let gpu = &gpus[largest];
            return Some(Reply::NeverFits {
                wanted: bytes.saturating_add(gpu.context_bytes),
                largest: gpu.usable_bytes,
            });
        }
        self.enqueue(Waiting {
            client: key.client,
            cell,
            request,
            since: now,
            bytes,
            gpus: fit,
        });
        None
    }

    fn grow(&mut self, key: TaskKey, cell: usize, request: Request, now: Duration) -> Option<Reply> {
        let Some(holding) = self.ledger.task(key) else {
            return Some(unknown(request.task));
        };
        if self.is_queued(key) {
            return Some(bad("the task waits already"));
        }
        let (gpu, reserved) = (holding.gpu, holding.reserved);
        let bytes = request.bytes;
        let usable = self.ledger.gpus()[gpu].usable_bytes;
        let whole = reserved
            .saturating_add(bytes)
            .saturating_add(self.ledger.gpus()[gpu].context_bytes);
        if !self.ledger.blind() && whole > usable {
            self.counts.refused += 1;
            return Some(Reply::NeverFits {
                wanted: whole,
                largest: usable,
            });
        }
        if bytes == 0 {
            return Some(Reply::Granted {
                gpu: gpu as u32,
                reserved,
            });
        }
        self.enqueue(Waiting {
            client: key.client,
            cell,
            request,
            since: now,
            bytes,
            gpus: 1 << gpu,
        });
        None
    }

    fn is_queued(&self, key: TaskKey) -> bool {
        self.queue.iter().any(|waiting| waiting.key() == key)
    }

    fn enqueue(&mut self, waiting: Waiting) {
        let thread = waiting.request.thread;
        if let Some(client) = self.clients.get_mut(&waiting.client)
            && let Some(told) = client.told.filter(|told| told.thread == thread)
        {
            // It asks again: did it make room?
            client.told = None;
            let reserved = reserved_on(&self.ledger, waiting.client, told.gpu);
            if reserved >= told.reserved {
                client.cannot_swap |= 1 << told.gpu;
            } else {
                client.cannot_swap &= !(1 << told.gpu);
            }
        }
        if waiting.grows() {
            self.touched.insert(
                waiting.key(),
                Touch {
                    thread,
                    at: waiting.since,
                },
            );
        }
        self.queue.push(waiting);
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

fn bad(text: &str) -> Reply {
    Reply::Bad(Text::new(text))
}

fn unknown(task: u64) -> Reply {
    bad(&format!("task {task} is not known"))
}

fn is_whole_process(request: &Request) -> bool {
    request.flags & WHOLE_PROCESS != 0
}

#[cfg(test)]
mod tests;

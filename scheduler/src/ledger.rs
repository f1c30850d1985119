//! The ledger: what each process holds on which GPU. It has one writer, and refuses
//! every entry that would charge a GPU beyond its capacity.
//!
//! A GPU is charged for the reservations of tasks, for what they are expected to need beyond those
//! ([`Holding::headroom`]), for the contexts of processes that ever got a grant on it and what these are
//! expected to take beside ([`ContextCharge`]), for tasks on their way to it ([`Arrival`]), and for what dead
//! processes held until somebody says that it is free ([`Ledger::freed`]). Under a policy that knows no
//! memory the ledger is *blind*: it keeps the same books and refuses nothing, but charges no GPU more than
//! [`MOST_CHARGED`], so that no sum of what clients ask for overflows.

mod arrivals;
mod changes;
mod colocation;
mod compute;
mod contexts;
mod entries;
mod headroom;
mod lasting;
mod rooms;
mod tasks;
mod times;

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::Gpu;
use mgb_probe::view::TaskState;

use crate::client::ClientId;
use crate::sms::{SmShape, Sms, Spread};

use changes::Touched;
pub use changes::{Changes, TaskHolding};
pub use colocation::Colocation;
pub use entries::{Arrival, Charges, ContextCharge, EvictedTime, Holding, LedgerError, Reclaiming, TaskKey};
use tasks::Tasks;

/// Most bytes that a blind ledger charges a GPU for tasks.
pub const MOST_CHARGED: u64 = 1 << 60;

/// What every task and process holds on every GPU, and the sums of it.
#[derive(Clone, Debug)]
pub struct Ledger {
    gpus: Vec<Gpu>,
    blind: bool,
    charges: Vec<Charges>,
    tasks: Tasks,
    contexts: BTreeMap<(ClientId, usize), ContextCharge>,
    /// By GPU: processes with a context.
    processes: Vec<u32>,
    /// By GPU: what runs on its multiprocessors, of tasks in `computing`.
    sms: Vec<Sms>,
    computing: BTreeMap<TaskKey, (SmShape, Spread)>,
    /// Room for tasks on their way to another GPU.
    arrivals: BTreeMap<TaskKey, Arrival>,
    reclaiming: Vec<Reclaiming>,
    next_reclaiming: u64,
    /// What has changed and was not taken down yet.
    touched: Touched,
    /// By GPU: what was charged when the entries of an earlier ledger came in, which may have had more room.
    brought: Vec<u64>,
}

impl Ledger {
    /// An empty ledger over `gpus`.
    pub fn new(gpus: Vec<Gpu>, blind: bool) -> Ledger {
        let charges = vec![Charges::default(); gpus.len()];
        Ledger {
            blind,
            charges,
            tasks: Tasks::default(),
            contexts: BTreeMap::new(),
            processes: vec![0; gpus.len()],
            brought: vec![0; gpus.len()],
            touched: Touched::default(),
            sms: gpus.iter().map(|gpu| Sms::new(gpu.multiprocessors)).collect(),
            computing: BTreeMap::new(),
            gpus,
            arrivals: BTreeMap::new(),
            reclaiming: Vec::new(),
            next_reclaiming: 1,
        }
    }

    /// The GPUs that are charged.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Whether the policy ignores memory.
    pub fn blind(&self) -> bool {
        self.blind
    }

    /// What a GPU is charged.
    pub fn charges(&self, gpu: usize) -> Charges {
        self.charges[gpu]
    }

    /// Bytes of tasks on the GPU that are in host memory.
    pub fn evicted_of(&self, gpu: usize) -> u64 {
        let there = self.tasks.values().filter(|held| held.gpu == gpu);
        there.map(|held| held.evicted).fold(0, u64::saturating_add)
    }

    /// Bytes not charged.
    pub fn room(&self, gpu: usize) -> u64 {
        self.gpus[gpu]
            .usable_bytes
            .saturating_sub(self.charges[gpu].bytes())
    }

    /// All tasks, by client and number.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskKey, &Holding)> {
        self.tasks.iter().map(|(key, holding)| (*key, holding))
    }

    /// The tasks of one client.
    pub fn tasks_of(&self, client: ClientId) -> impl Iterator<Item = (TaskKey, &Holding)> {
        let range = TaskKey { client, task: 0 }..=TaskKey {
            client,
            task: u64::MAX,
        };
        self.tasks.range(range).map(|(key, holding)| (*key, holding))
    }

    /// How many tasks there are.
    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    /// How many tasks a client has.
    pub fn count_of(&self, client: ClientId) -> usize {
        self.tasks.counts().get(&client).copied().unwrap_or(0)
    }

    /// The same of all clients that have any.
    pub fn counts(&self) -> impl Iterator<Item = (ClientId, usize)> {
        self.tasks
            .counts()
            .iter()
            .map(|(client, count)| (*client, *count))
    }

    /// What a task holds.
    pub fn task(&self, key: TaskKey) -> Option<&Holding> {
        self.tasks.get(&key)
    }

    /// Room of dead processes that the driver does not show free yet.
    pub fn reclaiming(&self) -> &[Reclaiming] {
        &self.reclaiming
    }

    fn admit(&self, gpu: usize, wanted: u64) -> Result<(), LedgerError> {
        let room = self.room(gpu);
        if self.blind || wanted <= room {
            Ok(())
        } else {
            Err(LedgerError::Full { gpu, wanted, room })
        }
    }

    /// How many of these bytes are charged: all of them, unless the ledger is blind and they would make a
    /// sum overflow.
    fn charged(&self, gpu: usize, bytes: u64) -> u64 {
        if self.blind {
            bytes.min(MOST_CHARGED.saturating_sub(self.charges[gpu].bytes()))
        } else {
            bytes
        }
    }

    /// Enters a granted task. If it is the process's first one there, `overhead` is what the process is
    /// expected to take beside its tasks and an ordinary context.
    pub fn grant(&mut self, key: TaskKey, mut holding: Holding, overhead: u64) -> Result<(), LedgerError> {
        if self.tasks.contains_key(&key) {
            return Err(LedgerError::Task(key, true));
        }
        let gpu = holding.gpu;
        holding.reserved = self.charged(gpu, holding.reserved);
        holding.peak = holding.reserved;
        holding.expected_bytes = self.charged(gpu, holding.expected_bytes);
        let is_first = !self.has_context(key.client, gpu);
        let overhead = if is_first { overhead } else { 0 };
        let cost = self.cost(key.client, gpu, holding.charged());
        self.admit(gpu, cost.saturating_add(overhead))?;
        if is_first {
            self.make_context(key.client, gpu, overhead);
        }
        self.charges[gpu].put_on(&holding);
        self.tasks.insert(key, holding);
        self.touched.task(key);
        self.check();
        Ok(())
    }

    /// Reserves `more` for a task, out of its headroom first; returns the whole.
    pub fn grow(&mut self, key: TaskKey, more: u64) -> Result<u64, LedgerError> {
        let gpu = self.tasks.get(&key).ok_or(LedgerError::Task(key, false))?.gpu;
        let more = self.charged(gpu, more);
        self.admit(gpu, self.beyond_headroom(key, more))?;
        // Who asks for more asks for all that is to come back.
        let back = |held: &mut Holding| {
            held.reserved += more;
            held.evicted = 0;
        };
        let reserved = self.alter(key, back)?.reserved;
        self.check();
        Ok(reserved)
    }

    /// Takes up to `less` off a task's reservation; returns what was taken, which becomes headroom as far as
    /// the task is expected to need it again. An ended task without a reservation leaves the ledger.
    pub fn shrink(&mut self, key: TaskKey, less: u64) -> Result<u64, LedgerError> {
        self.alter(key, |held| held.swapped = false)?;
        self.take(key, less)
    }

    /// As [`Ledger::shrink`], for memory that went to the host: the task stays
    /// known, so that it can grow again. It has no headroom any more.
    pub fn swap(&mut self, key: TaskKey, less: u64) -> Result<u64, LedgerError> {
        self.alter(key, |held| {
            held.swapped = true;
            held.expected_bytes = 0;
        })?;
        let taken = self.take(key, less)?;
        self.alter(key, |held| held.evicted = held.evicted.saturating_add(taken))?;
        Ok(taken)
    }

    fn take(&mut self, key: TaskKey, less: u64) -> Result<u64, LedgerError> {
        let mut taken = 0;
        let holding = self.alter(key, |held| {
            taken = less.min(held.reserved);
            held.reserved -= taken;
        })?;
        if !holding.running && !holding.swapped && holding.reserved == 0 {
            self.tasks.remove(&key);
            self.give_up_arrival(key);
        }
        self.check();
        Ok(taken)
    }

    /// Ends a task of which `kept` bytes stay; returns the bytes given back.
    pub fn end(&mut self, key: TaskKey, kept: u64) -> Result<u64, LedgerError> {
        let holding = self.alter(key, |held| {
            held.warps = 0;
            held.running = false;
            held.expected_bytes = 0;
        })?;
        let less = holding.reserved.saturating_sub(kept);
        self.rest(key);
        self.take(key, less)
    }

    /// The client's process is dead: all it held becomes reclaiming, one entry
    /// for each GPU. With `keep_whole_process` the process lives on as another
    /// program (`exec`), and tasks that are the process stay.
    pub fn die(&mut self, client: ClientId, keep_whole_process: bool, now: Duration) -> Vec<Reclaiming> {
        let mut lost: BTreeMap<usize, u64> = BTreeMap::new();
        let mut kept_gpus = Vec::new();
        let keys: Vec<TaskKey> = self.tasks_of(client).map(|(key, _)| key).collect();
        for key in keys {
            if keep_whole_process && self.tasks[&key].whole_process {
                kept_gpus.push(self.tasks[&key].gpu);
                continue;
            }
            self.rest(key);
            // It may have begun to use that room.
            if let Some(arrival) = self.arrival(key) {
                self.give_up_arrival(key);
                *lost.entry(arrival.gpu).or_default() += arrival.bytes;
            }
            if let Some(holding) = self.tasks.remove(&key) {
                self.touched.task(key);
                self.charges[holding.gpu].take_off(&holding);
                *lost.entry(holding.gpu).or_default() += holding.reserved;
            }
        }
        for gpu in 0..self.gpus.len() {
            if kept_gpus.contains(&gpu) {
                continue;
            }
            if let Some(context) = self.end_context(client, gpu) {
                *lost.entry(gpu).or_default() += context.bytes;
            }
        }
        let entries: Vec<Reclaiming> = lost
            .into_iter()
            .map(|(gpu, bytes)| {
                let id = self.next_reclaiming;
                self.next_reclaiming += 1;
                self.charges[gpu].reclaiming += bytes;
                Reclaiming {
                    id,
                    client,
                    gpu,
                    bytes,
                    since: now,
                }
            })
            .collect();
        self.reclaiming.extend(entries.iter().cloned());
        self.check();
        entries
    }

    /// The driver shows the room of entry `id` free.
    pub fn freed(&mut self, id: u64) -> Option<Reclaiming> {
        let at = self.reclaiming.iter().position(|entry| entry.id == id)?;
        let entry = self.reclaiming.remove(at);
        self.charges[entry.gpu].reclaiming -= entry.bytes;
        self.check();
        Some(entry)
    }

    /// Bytes of tasks' memory that are in host memory.
    pub fn evicted(&self) -> u64 {
        self.tasks.values().map(|held| held.evicted).sum()
    }

    /// What state a task is in, for people. `leaving`: its process was ordered to bring its memory to the
    /// host.
    pub fn state(&self, key: TaskKey, growing: bool, leaving: bool) -> TaskState {
        match self.tasks.get(&key) {
            None => TaskState::Reclaiming,
            Some(_) if self.arrivals.contains_key(&key) => TaskState::Moving,
            Some(held) if leaving && held.reserved > 0 => TaskState::Evicting,
            Some(held) if growing && held.evicted > 0 => TaskState::Restoring,
            Some(held) if held.evicted > 0 => TaskState::Evicted,
            Some(_) if growing => TaskState::Growing,
            Some(holding) if holding.running => TaskState::Running,
            Some(_) => TaskState::Ended,
        }
    }

    /// The cheap check after every change, in every build; and in debug builds
    /// the sums again from the entries.
    fn check(&self) {
        for ((gpu, charges), brought) in self.gpus.iter().zip(&self.charges).zip(&self.brought) {
            assert!(
                self.blind || charges.bytes() <= gpu.usable_bytes.max(*brought),
                "the ledger charges GPU {} {} of {} bytes",
                gpu.index,
                charges.bytes(),
                gpu.usable_bytes
            );
        }
        #[cfg(debug_assertions)]
        {
            assert_eq!(
                self.charges,
                self.recount(),
                "the ledger's sums differ from its entries"
            );
            let on = |gpu| self.contexts.keys().filter(|(_, at)| *at == gpu).count() as u32;
            assert!((0..self.gpus.len()).all(|gpu| self.processes[gpu] == on(gpu)));
            assert!(
                self.counts()
                    .all(|(client, count)| count == self.tasks_of(client).count())
            );
            assert_eq!(self.counts().map(|(_, count)| count).sum::<usize>(), self.count());
        }
    }

    #[cfg(any(debug_assertions, test))]
    fn recount(&self) -> Vec<Charges> {
        let mut sums = vec![Charges::default(); self.gpus.len()];
        for holding in self.tasks.values() {
            sums[holding.gpu].put_on(holding);
        }
        for ((_, gpu), context) in &self.contexts {
            sums[*gpu].contexts += context.bytes;
            sums[*gpu].overhead += context.overhead;
        }
        for arrival in self.arrivals.values() {
            sums[arrival.gpu].reserved += arrival.bytes;
        }
        for entry in &self.reclaiming {
            sums[entry.gpu].reclaiming += entry.bytes;
        }
        sums
    }
}

#[cfg(test)]
mod tests;

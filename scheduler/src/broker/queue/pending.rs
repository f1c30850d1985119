//! The waiting requests: tasks to begin, in order of arrival and as the
//! policies see them, and tasks to grow.

use std::time::Duration;

use super::waiting::Waiting;
use crate::broker::history::TaskKind;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;
use crate::policies::Waiter;

/// The requests that are scheduled: all that wait and are not suspended.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "requests are large, and leave from the middle")]
pub(in crate::broker) struct Pending {
    begins: Vec<Box<Waiting>>,
    /// The same, entry by entry: what a decision goes through.
    waiters: Vec<Waiter>,
    grows: Vec<Box<Waiting>>,
    /// How many waiters are of processes that have something: mostly none, and then nobody needs to be looked
    /// for.
    of_holders: usize,
    /// How many want a GPU for themselves.
    alone: usize,
    /// How many are to have more room than they ask for.
    expecting: usize,
    /// Whether requests may be kept off GPUs on which they fit.
    narrowed: bool,
}

impl Pending {
    /// Requests are kept off GPUs on which they fit, or not any more. False: they are not and were not.
    pub(in crate::broker) fn narrow(&mut self, narrows: bool) -> bool {
        let was = std::mem::replace(&mut self.narrowed, narrows);
        was || narrows
    }

    pub(in crate::broker) fn is_empty(&self) -> bool {
        self.begins.is_empty() && self.grows.is_empty()
    }

    pub(in crate::broker) fn len(&self) -> usize {
        self.begins.len() + self.grows.len()
    }

    /// All of them, in the order in which they came among their kind.
    pub(in crate::broker) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.begins.iter().chain(&self.grows).map(Box::as_ref)
    }

    /// Requests to grow.
    pub(in crate::broker) fn grows(&self) -> &[Box<Waiting>] {
        &self.grows
    }

    /// GPUs on which tasks wait to grow.
    pub(in crate::broker) fn growing_on(&self) -> GpuSet {
        self.grows.iter().map(|waiting| waiting.gpus).collect()
    }

    /// A request to begin, by its position in [`Pending::waiters`].
    pub(in crate::broker) fn beginner(&self, at: usize) -> &Waiting {
        &self.begins[at]
    }

    /// Requests to begin, as the policies see them.
    pub(in crate::broker) fn waiters(&self) -> &[Waiter] {
        &self.waiters
    }

    /// Requests of processes that hold something, so that others may wait for them.
    pub(in crate::broker) fn of_holders(&self) -> impl Iterator<Item = &Waiting> {
        let among = if self.of_holders > 0 {
            self.waiters.len()
        } else {
            0
        };
        let begins = self.waiters[..among].iter().zip(&self.begins);
        let of_holders = begins.filter(|(waiter, _)| !waiter.contexts.is_empty());
        let of_holders = of_holders.map(|(_, waiting)| waiting);
        of_holders.chain(&self.grows).map(Box::as_ref)
    }

    /// Requests for a GPU of their own that came at that time or before.
    pub(in crate::broker) fn alone_since(&self, then: Duration) -> impl Iterator<Item = &Waiting> {
        let among = if self.alone > 0 { self.waiters.len() } else { 0 };
        let begins = self.waiters[..among].iter().zip(&self.begins);
        begins
            .filter(move |(waiter, _)| waiter.alone && waiter.since <= then)
            .map(|(_, waiting)| waiting.as_ref())
    }

    /// Those of a client.
    pub(in crate::broker) fn of(&self, client: ClientId) -> impl Iterator<Item = &Waiting> {
        let begins = self.waiters.iter().zip(&self.begins);
        let begins = begins.filter(move |(waiter, _)| waiter.client == client);
        let grows = self.grows.iter().filter(move |waiting| waiting.client == client);
        begins.map(|(_, waiting)| waiting).chain(grows).map(Box::as_ref)
    }

    /// Whether the task wants to grow.
    pub(in crate::broker) fn grows_task(&self, key: TaskKey) -> bool {
        self.grows.iter().any(|waiting| waiting.key() == key)
    }

    /// The growths of a task leave.
    pub(in crate::broker) fn take_growths_of(&mut self, key: TaskKey) -> Vec<Waiting> {
        let leave = self.grows.extract_if(.., |waiting| waiting.key() == key);
        leave.map(|waiting| *waiting).collect()
    }

    pub(in crate::broker) fn has(&self, key: TaskKey) -> bool {
        self.of(key.client).any(|waiting| waiting.key() == key)
    }

    /// Whether any request is to have more room than it asks for.
    pub(in crate::broker) fn expects(&self) -> bool {
        self.expecting > 0
    }

    /// The request to begin at this position in [`Pending::waiters`] is to have this room, or what it asks
    /// for if that is more.
    pub(in crate::broker) fn expect(&mut self, at: usize, bytes: u64) {
        let waiting = &mut self.begins[at];
        self.expecting -= usize::from(waiting.expects());
        waiting.expected_bytes = bytes.max(waiting.bytes);
        self.expecting += usize::from(waiting.expects());
        self.waiters[at].bytes = waiting.expected_bytes;
    }

    /// A task of a kind has ended. Requests to begin of the same program last as `lasted` says, and those of
    /// which nothing is known as long as the mean.
    pub(in crate::broker) fn relearn(
        &mut self,
        mean: Duration,
        ended: TaskKind,
        lasted: impl Fn(&TaskKind) -> Option<Duration>,
    ) {
        for (waiting, waiter) in self.begins.iter_mut().zip(&mut self.waiters) {
            let kind = waiting.kind.filter(|kind| kind.is_akin(&ended));
            if let Some(lasted) = kind.and_then(|kind| lasted(&kind)) {
                (waiter.expected, waiting.is_known) = (lasted.max(waiting.at_least), true);
            } else if !waiting.is_known {
                waiter.expected = mean;
            }
        }
    }

    /// Where a task's request to begin stands in [`Pending::waiters`].
    pub(in crate::broker) fn position(&self, key: TaskKey) -> Option<usize> {
        let begins = self.waiters.iter().zip(&self.begins);
        let mut begins = begins.map(|(waiter, waiting)| waiter.client == key.client && waiting.key() == key);
        begins.position(|is_it| is_it)
    }

    /// Room gathers on this GPU for the request to begin at this position.
    pub(in crate::broker) fn gather_on(&mut self, at: usize, gpu: Option<usize>) {
        self.waiters[at].gathers = gpu;
    }

    /// The request to begin at this position may go to these GPUs, where so many bytes are to be there for
    /// it.
    pub(in crate::broker) fn send_to(&mut self, at: usize, gpus: GpuSet, expected: u64) {
        self.begins[at].gpus = gpus;
        self.waiters[at].gpus = gpus;
        self.expect(at, expected);
    }

    /// Adds a request to begin, behind those that wait for as long or longer.
    pub(in crate::broker) fn begin(&mut self, waiting: Waiting, waiter: Waiter) {
        self.expecting += usize::from(waiting.expects());
        let at = self.waiters.partition_point(|other| other.since <= waiter.since);
        self.begins.insert(at, Box::new(waiting));
        self.waiters.insert(at, waiter);
        self.of_holders += usize::from(!waiter.contexts.is_empty());
        self.alone += usize::from(waiter.alone);
    }

    /// Adds a request to grow.
    pub(in crate::broker) fn grow(&mut self, waiting: Waiting) {
        self.grows.push(Box::new(waiting));
    }

    /// The client has these contexts now.
    pub(in crate::broker) fn has_contexts(&mut self, client: ClientId, contexts: GpuSet) {
        for waiter in &mut self.waiters {
            if waiter.client == client {
                self.of_holders += usize::from(!contexts.is_empty());
                self.of_holders -= usize::from(!waiter.contexts.is_empty());
                waiter.contexts = contexts;
            }
        }
    }

    fn count(&mut self) {
        let count = |is: fn(&Waiter) -> bool| self.waiters.iter().filter(|&waiter| is(waiter)).count();
        let counts = (
            count(|waiter| !waiter.contexts.is_empty()),
            count(|waiter| waiter.alone),
        );
        (self.of_holders, self.alone) = counts;
        self.expecting = self.begins.iter().filter(|waiting| waiting.expects()).count();
    }

    /// Whoever is not to be kept leaves.
    pub(in crate::broker) fn retain(&mut self, keep: impl Fn(&Waiting) -> bool) {
        self.grows.retain(|waiting| keep(waiting));
        let gone = |waiting: &Waiting| !keep(waiting);
        if self.begins.iter().any(|waiting| gone(waiting)) {
            let mut begins = self.begins.iter();
            self.waiters
                .retain(|_| begins.next().is_some_and(|waiting| keep(waiting)));
            self.begins.retain(|waiting| keep(waiting));
            self.count();
        }
    }

    /// The request of the client's cell leaves.
    pub(in crate::broker) fn remove(&mut self, client: ClientId, cell: usize) {
        let begins = self.waiters.iter().zip(&self.begins);
        let mut begins = begins.map(|(waiter, waiting)| (waiter.client, waiting.cell));
        match begins.position(|is| is == (client, cell)) {
            Some(at) => {
                let waiting = self.begins.remove(at);
                self.expecting -= usize::from(waiting.expects());
                let waiter = self.waiters.remove(at);
                self.of_holders -= usize::from(!waiter.contexts.is_empty());
                self.alone -= usize::from(waiter.alone);
            }
            None => self
                .grows
                .retain(|waiting| (waiting.client, waiting.cell) != (client, cell)),
        }
    }
}

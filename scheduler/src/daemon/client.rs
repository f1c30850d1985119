//! One client's channel, from `mgbd`'s side. Every word in it is read once, as
//! an atomic, and believed only as far as it is checked.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use mgb_probe::mapping::Mapping;
use mgb_probe::wire::{CELLS, Channel, Order, Reply, Request, offer, state};

use super::greet::Guest;
use crate::client::ClientId;

/// A client, connected or (its process still alive) not any more.
pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) pid: u32,
    pub(super) pidfd: OwnedFd,
    pub(super) observer: bool,
    /// Its process is on its way out; the ledger has let go of it already.
    pub(super) leaving: bool,
    /// `None` once it hung up.
    pub(super) line: Option<Line>,
    mapping: Mapping,
    /// The memory that is mapped, for the holder.
    pub(super) memory: OwnedFd,
    /// The holder knows of it.
    pub(super) is_held: bool,
    /// Bit n: cell n holds a request that is not answered yet.
    busy: u64,
    /// What it was told of others' waiting.
    wanted: bool,
    /// Files that are to outlive it: see [`super::keep`].
    pub(super) kept: Vec<OwnedFd>,
}

/// What a connected client has.
pub(super) struct Line {
    pub(super) socket: OwnedFd,
    pub(super) doorbell: OwnedFd,
}

/// What a client does that no honest one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Breach {
    #[error("it posted an unknown operation")]
    UnknownOp,
    #[error("it posted a cell that is not filled, or not answered yet")]
    Cell,
}

impl Client {
    pub(super) fn new(id: ClientId, guest: Guest, socket: OwnedFd) -> Client {
        Client {
            id,
            pid: guest.pid,
            pidfd: guest.pidfd,
            observer: guest.observer,
            leaving: false,
            line: Some(Line {
                socket,
                doorbell: guest.doorbell,
            }),
            mapping: guest.mapping,
            memory: guest.memory,
            is_held: false,
            busy: 0,
            wanted: false,
            kept: Vec::new(),
        }
    }

    fn channel(&self) -> &Channel {
        self.mapping.shared().expect("the channel was mapped whole")
    }

    /// The requests posted since the last time, each with its cell.
    pub(super) fn take(&mut self) -> Result<Vec<(usize, Request)>, Breach> {
        let posted = self.channel().posted.swap(0, Ordering::Acquire);
        let mut requests = Vec::new();
        for at in (0..CELLS).filter(|at| posted & (1 << at) != 0) {
            let cell = &self.channel().cells[at];
            if self.busy & (1 << at) != 0 || !state::is_posted(&cell.state) {
                return Err(Breach::Cell);
            }
            let request = Request::decode(cell).ok_or(Breach::UnknownOp)?;
            self.busy |= 1 << at;
            requests.push((at, request));
        }
        Ok(requests)
    }

    /// Answers the request in a cell.
    pub(super) fn answer(&mut self, at: usize, reply: &Reply) {
        let bit = 1u64 << at;
        if self.busy & bit == 0 {
            return;
        }
        self.busy &= !bit;
        let cell = &self.channel().cells[at];
        reply.encode(cell);
        state::answer(&cell.state);
    }

    /// Gives it an order.
    pub(super) fn order(&self, number: u32, order: Order) {
        self.channel().order.give(number, order);
    }

    /// Whether it says that its agent listens to orders.
    pub(super) fn listens(&self) -> bool {
        self.line.is_some() && self.channel().order.is_heard()
    }

    /// Bytes it says it has mapped on the GPU, and a count that changes when
    /// they do.
    pub(super) fn resident(&self, gpu: usize) -> (u64, u64) {
        let published = &self.channel().published;
        let changes = published.changes.load(Ordering::Acquire);
        (published.gpus[gpu].resident.load(Ordering::Acquire), changes)
    }

    /// Publishes to the client whether any request waits.
    pub(super) fn want(&mut self, wanted: bool) {
        if self.wanted != wanted {
            offer::want(&self.channel().wanted, wanted);
            self.wanted = wanted;
        }
    }

    /// Tasks that it offers back while it keeps their grants.
    pub(super) fn leases(&self) -> impl Iterator<Item = u64> {
        let words = self.channel().leases.iter();
        words
            .map(|word| word.load(Ordering::Relaxed))
            .filter(|&task| task != 0)
    }

    /// Takes them; the client can take them up no more.
    pub(super) fn take_leases(&self) -> Vec<u64> {
        self.channel().leases.iter().filter_map(offer::take).collect()
    }

    /// Whether it says it has a context on the GPU.
    pub(super) fn says_context(&self, gpu: usize) -> bool {
        self.channel().published.contexts.load(Ordering::Acquire) & (1 << gpu) != 0
    }

    /// Whether it says of the GPU when it gives it work: a plain program does not.
    pub(super) fn publishes(&self, gpu: usize) -> bool {
        self.line.is_some() && self.says_context(gpu)
    }

    /// Whether it says that work of its may be under way on the GPU.
    pub(super) fn is_busy(&self, gpu: usize) -> bool {
        self.channel().published.gpus[gpu].is_busy()
    }

    /// Warps of the largest kernel that it says it has launched on the GPU; 0: it does not say.
    pub(super) fn launched_warps(&self, gpu: usize) -> u64 {
        self.channel().published.gpus[gpu].warps.load(Ordering::Relaxed)
    }

    /// Those of the node's GPUs where it says that work of its may be under way.
    pub(super) fn busy_gpus(&self, gpus: usize) -> Vec<usize> {
        (0..gpus)
            .filter(|&gpu| self.says_context(gpu) && self.is_busy(gpu))
            .collect()
    }

    /// Launches it says are in flight on the GPU.
    pub(super) fn launches(&self, gpu: usize) -> u32 {
        self.channel().published.gpus[gpu]
            .launches
            .load(Ordering::Relaxed)
    }
}

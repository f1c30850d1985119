//! One client's channel, from `mgbd`'s side. Every word in it is read once, as
//! an atomic, and believed only as far as it is checked.

pub(crate) mod client_fds;
pub(crate) mod clients;
pub(crate) mod inherited;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgb_probe::wire::{CELLS, Channel, EndsFor, GpuTime, JoinedMps, Order, Reply, Request, offer, state};
use mgb_probe::{Bursts, Class};

use crate::channel_memory::ChannelMemory;
use crate::client::ClientId;
use crate::daemon::accept::greet::{self, Guest, Offence};
use crate::daemon::client::inherited::InheritedClient;
use crate::journal::{Call, Fate};

/// Rings without a request that are forgiven: some come of requests that an earlier `mgbd` has taken.
const MAX_VAIN: u32 = 1024;
/// Of those, what is usual.
const FEW_VAIN: u32 = 32;

/// A client, connected or (its process still alive) not any more.
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// The user whose rights it has, which may be another one: see [`crate::daemon::accept::identity`].
    pub(crate) reader: u32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) observer: bool,
    /// The class that it has said it has.
    class: Class,
    /// Its process is on its way out; the ledger has let go of it already.
    pub(crate) leaving: bool,
    /// `None` once it hung up.
    pub(crate) line: Option<LiveConnection>,
    mapping: ChannelMemory,
    /// The memory that is mapped, for the holder.
    pub(crate) memory: OwnedFd,
    /// The holder knows of it.
    pub(crate) is_held: bool,
    /// Something was granted to it, or files are kept for it.
    pub(crate) granted: bool,
    /// Bit n: cell n holds a request that is not answered yet.
    busy: u64,
    /// Of those, the ones of which is taken down that they wait.
    noted: u64,
    /// Bit n: the request in cell n was found there, and its bit may come yet, or not at all.
    early: u64,
    /// Bit n: cell n was posted, and what it holds is not taken yet.
    posted: u64,
    /// The last look was at what was posted since the one before it, and not at what that had left.
    anew: bool,
    /// How many more times it rang without a request than it posted one. Who rings once for each, as honest
    /// clients do, stays near 0: a ring finds nothing only where an earlier one has found two.
    vain: u32,
    /// What it was told of others' waiting.
    wanted: bool,
    /// What it was told of its launches: the GPUs where they are held, and where what is in flight is
    /// bounded.
    paced: (u64, u64),
    /// Where it said last that it has work that others wait for.
    was_urgent: u64,
    /// Files that are to outlive it: see [`crate::daemon::client::client_fds`].
    pub(crate) kept: Vec<OwnedFd>,
}

/// What a connected client has.
pub(crate) struct LiveConnection {
    pub(crate) socket: OwnedFd,
    pub(crate) doorbell: OwnedFd,
}

/// What a client does that no honest one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Breach {
    #[error("it posted an unknown operation")]
    UnknownOp,
    #[error("it posted a cell that is not filled, or not answered yet")]
    Cell,
    #[error("it rings without a request again and again")]
    Rings,
}

impl Client {
    pub(crate) fn new(id: ClientId, guest: Guest, socket: OwnedFd, is_held: bool) -> Client {
        Client {
            id,
            pid: guest.pid,
            uid: guest.whose.account,
            reader: guest.whose.uid,
            pidfd: guest.pidfd,
            observer: guest.observer,
            class: guest.class,
            leaving: false,
            line: Some(LiveConnection {
                socket,
                doorbell: guest.doorbell,
            }),
            mapping: guest.mapping,
            memory: guest.memory,
            is_held,
            granted: false,
            busy: 0,
            noted: 0,
            early: 0,
            posted: 0,
            anew: false,
            vain: 0,
            wanted: false,
            paced: (0, 0),
            was_urgent: 0,
            kept: Vec::new(),
        }
    }

    /// One that another `mgbd` has left.
    pub(crate) fn again(left: InheritedClient, uid: u32, reader: u32) -> Result<Client, Offence> {
        greet::check_memory(&left.memory)?;
        let mapping = ChannelMemory::new(&left.memory, true)
            .map_err(|error| Offence::System("failed to map its memory", error))?;
        let mut client = Client {
            id: left.id,
            pid: left.pid,
            uid,
            reader,
            pidfd: left.pidfd,
            observer: false,
            class: Class::Batch,
            leaving: false,
            line: Some(LiveConnection {
                socket: left.socket,
                doorbell: left.doorbell,
            }),
            mapping,
            memory: left.memory,
            is_held: true,
            granted: left.granted,
            busy: 0,
            noted: 0,
            early: 0,
            posted: 0,
            anew: false,
            vain: 0,
            wanted: false,
            paced: (0, 0),
            was_urgent: 0,
            kept: left.kept,
        };
        client.wanted = client.channel().wanted.load(Ordering::Relaxed) != 0;
        client.paced = client.channel().pace.said();
        client.class = client.channel().published.class();
        Ok(client)
    }

    /// The requests that were not answered, each with the time since when it waits and its cell. What was
    /// answered and not told is told now.
    pub(crate) fn take_again(
        &mut self,
        calls: &BTreeMap<(ClientId, usize), (u64, Fate)>,
        now: Duration,
    ) -> Result<Vec<(Duration, usize, Request)>, Breach> {
        let posted = self.channel().posted.swap(0, Ordering::Acquire);
        let mut requests = Vec::new();
        for at in 0..CELLS {
            let cell = &self.channel().cells[at];
            if !state::is_posted(&cell.state) {
                continue;
            }
            let seq = cell.seq.load(Ordering::Relaxed);
            let fate = calls.get(&(self.id, at)).filter(|(of, _)| *of == seq);
            let since = match fate {
                Some((_, Fate::Answered)) => {
                    state::answer(&cell.state);
                    continue;
                }
                Some((_, Fate::Waits(since))) => *since,
                None => now,
            };
            let request = Request::decode(cell).ok_or(Breach::UnknownOp)?;
            let bit = 1 << at;
            self.busy |= bit;
            self.noted |= if fate.is_some() { bit } else { 0 };
            self.early |= bit & !posted;
            requests.push((since, at, request));
        }
        Ok(requests)
    }

    /// A request by its name in the journal.
    pub(crate) fn call(&self, cell: usize) -> Call {
        Call {
            client: self.id,
            cell,
            seq: self.channel().cells[cell].seq.load(Ordering::Relaxed),
        }
    }

    /// Requests that wait, and of which that was not asked yet.
    pub(crate) fn new_waits(&mut self) -> Vec<Call> {
        let new = self.busy & !self.noted;
        if new == 0 {
            return Vec::new();
        }
        self.noted = self.busy;
        let cells = (0..CELLS).filter(|at| new & (1 << at) != 0);
        cells.map(|at| self.call(at)).collect()
    }

    /// Whether it has heard that it is a client, as far as one sees.
    pub(crate) fn has_heard_hello(&self) -> bool {
        self.channel().magic.load(Ordering::Acquire) != 0
    }

    /// The number of the last order that it was given.
    pub(crate) fn last_order(&self) -> u32 {
        self.channel().order.last()
    }

    fn channel(&self) -> &Channel {
        self.mapping.shared().expect("the channel was mapped whole")
    }

    /// So many of the requests that were posted, at most, each with its cell; those that are left come before
    /// any that are posted from now on.
    pub(crate) fn take(&mut self, most: usize) -> Result<Vec<(usize, Request)>, Breach> {
        self.anew = self.posted == 0;
        if self.anew {
            self.posted = self.channel().posted.swap(0, Ordering::Acquire);
        }
        let mut requests = Vec::new();
        while self.posted != 0 && requests.len() < most {
            let at = self.posted.trailing_zeros() as usize;
            let bit = 1 << at;
            self.posted &= !bit;
            let is_early = self.early & bit != 0;
            self.early &= !bit;
            let cell = &self.channel().cells[at];
            let is_none = self.busy & bit != 0 || !state::is_posted(&cell.state);
            if is_early && is_none {
                continue;
            }
            if is_none {
                return Err(Breach::Cell);
            }
            let request = Request::decode(cell).ok_or(Breach::UnknownOp)?;
            self.busy |= bit;
            requests.push((at, request));
        }
        let urgent = self.urgent();
        let is_news = urgent != self.was_urgent;
        self.was_urgent = urgent;
        self.vain = match requests.len() {
            // What it has told may be over before it is looked at.
            0 if is_news || self.class() == Class::Latency && self.vain >= FEW_VAIN => self.vain,
            0 if self.anew => self.vain + 1,
            some => self.vain.saturating_sub(some as u32),
        };
        if self.vain > MAX_VAIN {
            return Err(Breach::Rings);
        }
        Ok(requests)
    }

    /// Whether it rings without a request more often than honest clients do.
    pub(crate) fn rings_in_vain(&self) -> bool {
        self.vain > FEW_VAIN
    }

    /// Whether requests are left to be taken. Those that came while only earlier ones were taken have rung
    /// before, and will not ring again.
    pub(crate) fn has_more(&self) -> bool {
        let came = || !self.anew && self.channel().posted.load(Ordering::Acquire) != 0;
        self.line.is_some() && (self.posted != 0 || came())
    }

    /// Writes the answer to the request in a cell; it counts with [`Client::answer`].
    pub(crate) fn write(&self, at: usize, reply: &Reply) {
        if self.busy & (1u64 << at) != 0 {
            reply.encode(&self.channel().cells[at]);
        }
    }

    /// How many requests are not answered yet.
    pub(crate) fn unanswered(&self) -> u32 {
        self.busy.count_ones()
    }

    /// Nothing is answered any more; how many were to be.
    pub(crate) fn drop_calls(&mut self) -> u32 {
        std::mem::take(&mut self.busy).count_ones()
    }

    /// Answers the request in a cell with what was written there; false if none waits there.
    pub(crate) fn answer(&mut self, at: usize) -> bool {
        let bit = 1u64 << at;
        if self.busy & bit == 0 {
            return false;
        }
        self.busy &= !bit;
        self.noted &= !bit;
        state::answer(&self.channel().cells[at].state);
        true
    }

    /// Gives it an order.
    pub(crate) fn order(&self, number: u32, order: Order) {
        self.channel().order.give(number, order);
    }

    /// Has it say why it is about to be ended.
    pub(crate) fn explain(&self, why: EndsFor) {
        self.channel().order.explain(why);
    }

    /// Whether it says that its agent listens to orders.
    pub(crate) fn listens(&self) -> bool {
        self.line.is_some() && self.channel().order.is_heard()
    }

    /// Bytes it says it has mapped on the GPU, and a count that changes when
    /// they do.
    pub(crate) fn resident(&self, gpu: usize) -> (u64, u64) {
        let published = &self.channel().published;
        let changes = published.changes.load(Ordering::Acquire);
        (published.gpus[gpu].resident.load(Ordering::Acquire), changes)
    }

    /// The class that it has said it has, as it connected or since.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// It says that it has become a latency program, which it stays, whatever its word says after that.
    pub(crate) fn becomes_latency(&mut self) {
        self.class = Class::Latency;
    }

    /// Where it says that it has work that others wait for, one bit a GPU.
    pub(crate) fn urgent(&self) -> u64 {
        self.channel().published.urgent.load(Ordering::Acquire)
    }

    /// The GPUs on which it says it has a context, one bit each.
    pub(crate) fn contexts(&self) -> u64 {
        self.channel().published.contexts.load(Ordering::Acquire)
    }

    /// Tells it on which GPUs its launches are held, and on which what is in flight is bounded, if it was
    /// told otherwise, or anew where something is held.
    pub(crate) fn pace(&mut self, holds: u64, bounds: u64, anew: bool) {
        if self.paced != (holds, holds | bounds) || anew && holds != 0 {
            self.channel().pace.set(holds, bounds);
            self.paced = (holds, holds | bounds);
        }
    }

    /// Its process is gone: what runs of it in parts stops.
    pub(crate) fn say_gone(&self) {
        self.channel().pace.say_gone();
    }

    /// What it was told of its launches on the GPU: whether they are held, and whether what is in flight is
    /// bounded.
    pub(crate) fn is_paced(&self, gpu: u32) -> (bool, bool) {
        let bit = 1u64.checked_shl(gpu).unwrap_or(0);
        (self.paced.0 & bit != 0, self.paced.1 & bit != 0)
    }

    /// How it says that it has joined MPS.
    pub(crate) fn joined_mps(&self) -> Option<JoinedMps> {
        self.channel().published.joined_mps()
    }

    /// How long it says that its bursts took, as a latency program.
    pub(crate) fn bursts(&self) -> Option<Bursts> {
        self.channel().bursts.bursts()
    }

    /// Launches of its, as long as they are paced.
    pub(crate) fn launched(&self) -> u64 {
        self.channel().pace.launched()
    }

    /// For how long it says that launches of its were held.
    pub(crate) fn held(&self) -> Duration {
        self.channel().pace.held()
    }

    /// Publishes to the client whether any request waits.
    pub(crate) fn want(&mut self, wanted: bool) {
        if self.wanted != wanted {
            offer::want(&self.channel().wanted, wanted);
            self.wanted = wanted;
        }
    }

    /// Tasks that it offers back while it keeps their grants.
    pub(crate) fn leases(&self) -> impl Iterator<Item = u64> {
        let words = self.channel().leases.iter();
        words
            .map(|word| word.load(Ordering::Relaxed))
            .filter(|&task| task != 0)
    }

    /// Takes them; the client can take them up no more.
    pub(crate) fn take_leases(&self) -> Vec<u64> {
        self.channel().leases.iter().filter_map(offer::take).collect()
    }

    /// Whether it says it has a context on the GPU.
    pub(crate) fn says_context(&self, gpu: usize) -> bool {
        self.channel().published.contexts.load(Ordering::Acquire) & (1 << gpu) != 0
    }

    /// Whether it says of the GPU when it gives it work: a plain program does not.
    pub(crate) fn publishes(&self, gpu: usize) -> bool {
        self.line.is_some() && self.says_context(gpu)
    }

    /// Whether it says that work of its may be under way on the GPU.
    pub(crate) fn is_busy(&self, gpu: usize) -> bool {
        self.channel().published.gpus[gpu].is_busy()
    }

    /// Warps of the largest kernel that it says it has launched on the GPU; 0: it does not say.
    pub(crate) fn launched_warps(&self, gpu: usize) -> u64 {
        self.channel().published.gpus[gpu].warps.load(Ordering::Relaxed)
    }

    /// Tells it whose the GPU's time was.
    pub(crate) fn tell_time(&self, gpu: usize, time: GpuTime) {
        self.channel().published.gpus[gpu].tell_time(time);
    }

    /// Those of the node's GPUs where it says that work of its may be under way.
    pub(crate) fn busy_gpus(&self, gpus: usize) -> Vec<usize> {
        (0..gpus)
            .filter(|&gpu| self.says_context(gpu) && self.is_busy(gpu))
            .collect()
    }

    /// Launches it says are in flight on the GPU.
    pub(crate) fn launches(&self, gpu: usize) -> u32 {
        self.channel().published.gpus[gpu]
            .launches
            .load(Ordering::Relaxed)
    }
}

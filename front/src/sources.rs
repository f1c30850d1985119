//! Where memory in stream order comes from: *sources*, which are pools, and what graphs have on each device.
//! The driver takes it from the device in large steps and keeps it for a while; what a source holds is
//! charged.
//!
//! What a call makes a source take is known only afterwards. Before the call there is room for the most that
//! it may be. What the driver has taken by then is published first and charged after that, so that it is
//! never also counted as missing. What a source keeps unused is given up before the program waits for room on
//! its device: the driver does so by itself where it has no memory left, and never sees that others are to
//! have that.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mgb_abi::graph::GRAPH_MEM_RESERVED_CURRENT;
use mgb_abi::pool::{POOL_RESERVED_CURRENT, POOL_USED_CURRENT};
use mgb_core::{captures, gate, gpu_idle};
use mgb_probe::need::GRANULE;
use parking_lot::Mutex;

use crate::calls::{Code, driver};
use crate::{driver_memory, room, swap};

/// What sources take from the device at a time.
pub const GROWTH_STEP: u64 = 32 << 20;
/// How long work may take after which freed memory is unused.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where such memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A pool of a device's memory, by its handle.
    Pool(usize),
    /// The memory of graphs on a device.
    Graphs(c_int),
}

/// What a call may make a source take.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// The pool or the graphs of a device, by which the driver takes memory.
    pub source: Source,
    /// The device whose memory the source takes.
    pub device: c_int,
    /// Bytes at most, beyond what the source keeps unused if it is a pool.
    pub bytes: u64,
    /// The source may be at a limit of its own, which more room on the device does not change.
    pub is_limited: bool,
}

/// What is known of a source.
#[derive(Clone, Copy, Debug)]
struct SourceAccount {
    device: c_int,
    /// In whole granules.
    charged: u64,
    /// As mgbd was told.
    held: u64,
    /// Threads that are about to take from it.
    users: u32,
    /// A pool that the program has destroyed while allocations of it live. It ends with the last of them.
    is_ending: bool,
}

static KNOWN: Mutex<Option<HashMap<Source, SourceAccount>>> = Mutex::new(None);
static USED_ANY: AtomicBool = AtomicBool::new(false);
/// Rises when graphs may have lost memory that they had.
static GRAPHS_LOST: AtomicU64 = AtomicU64::new(0);

/// A number that rises when graphs may have lost memory that they had: launches take it anew.
pub fn graphs_lost() -> u64 {
    GRAPHS_LOST.load(Ordering::Acquire)
}

/// Graphs may have lost memory that they had on a device.
fn graphs_lose() {
    GRAPHS_LOST.fetch_add(1, Ordering::AcqRel);
}

impl Source {
    /// Bytes that it holds, and those of them that are allocated.
    pub fn levels(self) -> Option<(u64, u64)> {
        match self {
            Source::Pool(pool) => Some((
                driver().pool_attribute(pool, POOL_RESERVED_CURRENT).ok()?,
                driver().pool_attribute(pool, POOL_USED_CURRENT).ok()?,
            )),
            // The driver has no figure for how much of it is in use.
            Source::Graphs(device) => driver()
                .graph_attribute(device, GRAPH_MEM_RESERVED_CURRENT)
                .map(|held| (held, held)),
        }
    }

    /// Bytes that it holds.
    fn held(self) -> Option<u64> {
        match self {
            Source::Pool(pool) => driver().pool_attribute(pool, POOL_RESERVED_CURRENT).ok(),
            Source::Graphs(device) => driver().graph_attribute(device, GRAPH_MEM_RESERVED_CURRENT),
        }
    }

    /// Whether the driver knows no such pool any more. In a context that has failed it says nothing of any.
    fn is_gone(self) -> bool {
        let level = |pool| driver().pool_attribute(pool, POOL_RESERVED_CURRENT);
        matches!(self, Source::Pool(pool) if level(pool) == Err(Code::INVALID_VALUE))
    }

    /// Has it free what it keeps unused.
    fn trim(self) {
        match self {
            Source::Pool(pool) => driver().trim_pool(pool),
            Source::Graphs(device) => {
                graphs_lose();
                driver().trim_graphs(device)
            }
        };
    }

    fn with<T>(self, change: impl FnOnce(&mut SourceAccount) -> T) -> Option<T> {
        KNOWN.lock().get_or_insert_default().get_mut(&self).map(change)
    }

    /// Whether it may keep memory that nothing uses.
    fn may_be_idle(self) -> bool {
        match self {
            Source::Pool(_) => self.levels().is_some_and(|(held, used)| held > used),
            Source::Graphs(_) => self.levels().is_some_and(|(held, _)| held > 0),
        }
    }

    /// Charges it so many bytes, if it is charged less, and waits until there is room. False: there is none.
    fn raise(self, to: u64) -> bool {
        let to = to.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        let lacks = self.with(|known| (known.device, to.saturating_sub(known.charged)));
        match lacks {
            None | Some((_, 0)) => true,
            Some((_, lacks)) if lacks > room::MAX_CHARGED_BYTES => false,
            Some((device, lacks)) => {
                let has_room = room::charge(device, lacks);
                if has_room && self.with(|known| known.charged += lacks).is_none() {
                    // The source has ended meanwhile.
                    room::discharge(device, lacks);
                }
                has_room
            }
        }
    }

    /// Publishes what it holds, and lowers the charge to that unless more than `own` threads are about to
    /// take from it.
    fn settle(self, own: u32) {
        // Under the lock, so that no thread begins to take from it meanwhile.
        let mut all = KNOWN.lock();
        let Some(known) = all.get_or_insert_default().get_mut(&self) else {
            return;
        };
        if known.users > own {
            return;
        }
        let Some(held) = self.held() else {
            drop(all);
            // It was destroyed as a thread began to take from it.
            if self.is_gone() {
                forget_all(|source, known| source == self && known.users <= own);
            }
            return;
        };
        if held < known.held && matches!(self, Source::Graphs(_)) {
            // The driver has taken it for something else.
            graphs_lose();
        }
        let charged = held.next_multiple_of(GRANULE);
        let less = known.charged.saturating_sub(charged);
        known.charged -= less;
        publish(known, held);
        let device = known.device;
        drop(all);
        if less > 0 {
            room::discharge(device, less);
        }
    }

    /// A pool that the program has destroyed: ends it once nothing of it is in use.
    fn end_if_unused(self) {
        let Source::Pool(pool) = self else { return };
        self.trim();
        self.settle(0);
        if self.with(|known| known.users > 0) == Some(true) {
            return;
        }
        if self.levels().is_some_and(|(_, used)| used > 0) {
            return;
        }
        {
            let _inside = gate::enter();
            driver().destroy_pool(pool);
        }
        forget_all(|source, _| source == self);
    }
}

impl Want {
    /// The bytes that the source may hold after the call, and how many of these there can be: no more than
    /// the device has for it. The driver may do with less.
    fn target(&self, (held, used): (u64, u64), charged: u64) -> (u64, u64) {
        let wanted = held.saturating_add(self.bytes.saturating_sub(held.saturating_sub(used)));
        if wanted <= charged {
            return (wanted, wanted);
        }
        let most = room::most_beside(self.device, charged) / GRANULE * GRANULE;
        (wanted, wanted.min(most.max(held)))
    }

    /// Whether a pool can never have so much: what it has in use and this are more than there can be for it.
    fn can_never_be(&self, (_, used): (u64, u64), charged: u64) -> bool {
        matches!(self.source, Source::Pool(_))
            && used.saturating_add(self.bytes) > room::most_beside(self.device, charged)
    }

    fn charged(&self) -> u64 {
        self.source.with(|known| known.charged).unwrap_or(0)
    }

    /// Room for the call. False: there is none.
    fn make_room(&self) -> bool {
        let Some(levels) = self.source.levels() else {
            // No such pool: the driver says so.
            return true;
        };
        let charged = self.charged();
        let (wanted, target) = self.target(levels, charged);
        if wanted <= charged {
            return true;
        }
        if self.can_never_be(levels, charged) {
            reclaim(self.device, Some(self.source));
            let levels = self.source.levels().unwrap_or((0, 0));
            if self.can_never_be(levels, self.charged()) {
                // Natively it fails at once: nobody is waited for.
                return self.source.raise(levels.1.saturating_add(self.bytes));
            }
        }
        let fits = wanted == target && room::has_now(self.device, target.saturating_sub(charged));
        if fits || !self.source.may_be_idle() {
            return self.source.raise(target);
        }
        // It would wait for what it may have itself.
        reclaim(self.device, Some(self.source));
        let levels = self.source.levels().unwrap_or((0, 0));
        self.source.raise(self.target(levels, self.charged()).1)
    }

    /// More room, where the driver lacks memory nevertheless: in the source nothing that is unused fits.
    fn make_more_room(&self) -> bool {
        if self.source.may_be_idle() {
            reclaim(self.device, Some(self.source));
        }
        let held = self.source.held().unwrap_or(0);
        let more = Want {
            bytes: self.bytes.saturating_add(GROWTH_STEP),
            ..*self
        };
        self.source.raise(more.target((held, held), self.charged()).1)
    }

    /// Publishes and charges what the driver has taken. False: there is no room for it.
    fn charge_taken(&self) -> bool {
        let Some(held) = self.source.held() else {
            return true;
        };
        self.source.with(|known| publish(known, held));
        self.source.raise(held)
    }
}

/// Makes room for a call that takes from sources, does it, and charges what was really taken. `undo` takes
/// back what the call did where there is no room for that, and says whether it could. The caller is outside
/// the gate and holds no lock.
pub fn take(wants: &[Want], call: impl Fn() -> Code, undo: impl FnOnce() -> bool) -> Code {
    USED_ANY.store(true, Ordering::Release);
    for want in wants {
        // A pool may be of a device that the process has not used yet.
        room::begin(want.device);
        let mut all = KNOWN.lock();
        let known = all
            .get_or_insert_default()
            .entry(want.source)
            .or_insert(SourceAccount {
                device: want.device,
                charged: 0,
                held: 0,
                users: 0,
                is_ending: false,
            });
        known.users += 1;
    }
    let mut code = Code::MEMORY_ALLOCATION;
    if wants.iter().all(Want::make_room) {
        code = call();
        if code == Code::MEMORY_ALLOCATION && wants.iter().all(Want::make_more_room) {
            code = if wants.iter().any(|want| want.is_limited) {
                call()
            } else {
                driver_memory::granted(&call)
            };
        }
    }
    if code == Code::SUCCESS && !wants.iter().all(Want::charge_taken) && undo() {
        code = Code::MEMORY_ALLOCATION;
    }
    for want in wants {
        want.source.with(|known| known.users -= 1);
        want.source.settle(0);
    }
    code
}

/// Tells mgbd what the source holds.
fn publish(known: &mut SourceAccount, held: u64) {
    let before = std::mem::replace(&mut known.held, held);
    if held >= before {
        room::mapped_exactly(known.device, held - before);
    } else {
        room::unmapping_exactly(known.device, before - held);
    }
}

fn all() -> Vec<(Source, SourceAccount)> {
    let known = KNOWN.lock();
    let all = known.iter().flatten();
    all.map(|(source, known)| (*source, *known)).collect()
}

/// Whether a source keeps memory of the device that nothing uses.
pub fn has_idle(device: c_int) -> bool {
    USED_ANY.load(Ordering::Acquire)
        && all()
            .into_iter()
            .any(|(source, known)| known.device == device && source.may_be_idle())
}

/// Gives up what sources of the device keep unused, after the work under way if that takes no longer than
/// [`SETTLE_TIMEOUT`]. `own`: the source that the thread is about to take from. Nothing while a stream
/// captures.
pub fn reclaim(device: c_int, own: Option<Source>) {
    let line = u32::try_from(device).unwrap_or(0);
    let until = Instant::now() + SETTLE_TIMEOUT;
    gpu_idle::wait(line, until, move || swap::settle_beside(device));
    if captures::any() {
        return;
    }
    for (source, _) in all().into_iter().filter(|(_, known)| known.device == device) {
        source.trim();
        source.settle(u32::from(own == Some(source)));
    }
}

/// Publishes what every source holds, and lowers its charge to that; gives up what is unused where a thread
/// of the program waits for room.
pub fn settle_all() {
    if !USED_ANY.load(Ordering::Acquire) {
        return;
    }
    for (source, known) in all() {
        if known.is_ending {
            source.end_if_unused();
            continue;
        }
        if known.users == 0 && room::waits(known.device) && !captures::any() && source.may_be_idle() {
            source.trim();
        }
        source.settle(0);
    }
}

/// Publishes what one source holds, and lowers its charge to that.
pub fn settle(source: Source) {
    if let Source::Graphs(_) = source {
        graphs_lose();
    }
    source.settle(0);
}

/// Notices whether graphs have lost memory on a device: the driver takes what is unused for something else.
pub fn notice_loss(source: Source) {
    let held = source.held().unwrap_or(0);
    if source.with(|known| held < known.held) == Some(true) {
        source.settle(0);
    }
}

/// Ends a pool by `call`. One of which memory is in use ends later, with that: until then it is charged.
pub fn end_pool(pool: usize, call: impl FnOnce() -> Code) -> Code {
    let source = Source::Pool(pool);
    let Some(known) = source.with(|known| *known) else {
        return call();
    };
    if known.is_ending {
        return Code::INVALID_VALUE;
    }
    // A thread that is about to take from it was there first.
    if known.users > 0 || source.levels().is_some_and(|(_, used)| used > 0) {
        // As if it were gone: who allocates from the device's pool gets memory of the default one.
        if driver().pool_of(known.device) == Some(pool)
            && let Some(default) = driver().default_pool_of(known.device)
        {
            driver().set_pool(known.device, default);
        }
        source.with(|known| known.is_ending = true);
        return Code::SUCCESS;
    }
    let code = call();
    if code == Code::SUCCESS {
        forget_all(|other, _| other == source);
    }
    code
}

/// The device's primary context is gone, and with it what its sources held.
pub fn forget(device: c_int) {
    graphs_lose();
    forget_all(|_, known| known.device == device);
}

fn forget_all(which: impl Fn(Source, &SourceAccount) -> bool) {
    let gone: Vec<SourceAccount> = {
        let mut all = KNOWN.lock();
        let gone = all
            .get_or_insert_default()
            .extract_if(|source, known| which(*source, known));
        gone.map(|(_, known)| known).collect()
    };
    for mut known in gone {
        publish(&mut known, 0);
        room::discharge(known.device, known.charged);
    }
}

//! Tasks: which extents each owns, on which GPU, with how much room.

use std::collections::BTreeSet;
use std::time::Duration;

use mgb_core::arena::Pool;
use mgb_probe::clock;
use mgb_probe::trace::Swap;
use mgb_probe::{Need, Site, TaskId};

use crate::deferred_ops::Records;
use crate::launch_view::{Device, LaunchView};
use crate::non_arena_memory::Outside;
use crate::thread;
use crate::thread::Activation;

/// A static task's site, kept beyond the call that named it.
#[derive(Clone, Debug)]
pub struct OwnSite {
    /// Address of the site: equal for equal sites.
    pub key: usize,
    /// Number in its module's report.
    pub id: u32,
    /// The source file that it is in.
    pub module: String,
    /// The function that it is in.
    pub function: String,
}

impl From<&Site<'_>> for OwnSite {
    fn from(site: &Site<'_>) -> OwnSite {
        OwnSite {
            key: site.key,
            id: site.id,
            module: site.module.to_owned(),
            function: site.function.to_owned(),
        }
    }
}

/// What was seen of a task, for the trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskCounts {
    /// Bytes asked for, live at once at most.
    pub peak: u64,
    /// Bytes mapped at once at most.
    pub mapped: u64,
    /// How many objects were allocated.
    pub objects: u64,
    /// Time waited for room.
    pub waited: Duration,
    /// Time from the grant to the end.
    pub run: Duration,
}

/// A stretch of time that a task held its room. Times of the machine's monotonic clock, which all processes
/// share.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// GPU; index into the hello.
    pub gpu: u32,
    /// When it was granted.
    pub from: Duration,
    /// When it was over.
    pub to: Duration,
}

/// A task of the program, static or lazy.
#[derive(Debug)]
pub struct Task {
    /// What launches see.
    pub shared: &'static LaunchView,
    /// Where in the program it is; none for the lazy task.
    pub site: Option<OwnSite>,
    /// The activation whose objects it has; none for a lazy task.
    pub activation: Option<Activation>,
    /// Bound at run time, for lack of a begin.
    pub lazy: bool,
    /// The program's device that was current when it was made.
    pub device: Device,
    /// Its identity at mgbd, once granted.
    pub id: Option<TaskId>,
    /// GPU it is bound to, or was last; index into the hello.
    pub gpu: Option<u32>,
    /// What it asked for.
    pub need: Need,
    /// Whether the program has ended it.
    pub ended: bool,
    /// Whether mgbd refused it.
    pub refused: bool,
    /// Whether a thread is asking mgbd for it.
    pub busy: bool,
    /// Whether a thread changes what backs its extents, without the lock.
    moving: bool,
    /// Bytes it may map.
    pub reserved: u64,
    /// Bytes it has mapped.
    pub mapped: u64,
    /// Starts of its extents.
    pub extents: BTreeSet<u64>,
    /// Starts of the extents without memory.
    pub unbacked: BTreeSet<u64>,
    /// Bytes of the extents without memory.
    pub unbacked_bytes: u64,
    /// Other GPUs that its memory was ever lent to, one bit each: graphs made there may use it again.
    pub borrowers: u64,
    /// What it has outside the arena.
    pub outside: Outside,
    /// Room for small objects.
    pub pool: Pool,
    /// Ops before it was bound.
    pub records: Records,
    /// Live bytes as asked for.
    pub live: u64,
    /// How many objects are live.
    pub objects: u64,
    /// For the trace.
    pub seen: TaskCounts,
    /// Since when it holds its room, by the machine's monotonic clock.
    granted: Option<Duration>,
    /// When it held room before, if a trace is wanted.
    pub spans: Vec<Span>,
    /// When its memory left its GPU and came back, if a trace is wanted.
    pub swaps: Vec<Swap>,
}

impl Task {
    /// A task that holds nothing.
    pub fn new(
        shared: &'static LaunchView,
        site: Option<OwnSite>,
        activation: Option<Activation>,
        lazy: bool,
    ) -> Task {
        let device = thread::current_device();
        shared.renew(device);
        Task {
            shared,
            site,
            activation,
            lazy,
            device,
            id: None,
            gpu: None,
            need: Need::default(),
            ended: false,
            refused: false,
            busy: false,
            moving: false,
            reserved: 0,
            mapped: 0,
            extents: BTreeSet::new(),
            unbacked: BTreeSet::new(),
            unbacked_bytes: 0,
            borrowers: 0,
            outside: Outside::default(),
            pool: Pool::default(),
            records: Records::default(),
            live: 0,
            objects: 0,
            seen: TaskCounts::default(),
            granted: None,
            spans: Vec::new(),
            swaps: Vec::new(),
        }
    }

    /// Whether it has to ask for a GPU before it can go on.
    pub fn is_unbound(&self) -> bool {
        self.id.is_none()
    }

    /// The GPU where it runs or has memory.
    pub fn occupied(&self) -> Option<u32> {
        self.id.and(self.gpu).filter(|_| !self.shared.is_resting())
    }

    /// Whether the task was bound at run time, with what it had then: what it will need is not known.
    pub fn is_loose(&self) -> bool {
        self.need.flags & mgb_probe::need::LAZY != 0
    }

    /// Whether anything has to be done before its next op.
    pub fn is_ready(&self) -> bool {
        !self.is_unbound()
            && !self.refused
            && !self.moving
            && self.unbacked.is_empty()
            && self.records.is_empty()
    }

    /// Tells launches how it stands. Called after every change.
    pub fn publish(&self) {
        self.shared.set(self.is_ready(), self.extents.is_empty());
    }

    /// Notes that mgbd has granted the task.
    pub fn bind(&mut self, id: TaskId, gpu: u32, ordinal: i32, reserved: u64) {
        self.id = Some(id);
        self.gpu = Some(gpu);
        self.reserved = reserved;
        self.ended = false;
        self.granted = Some(clock::now());
        self.shared.bind(id.raw(), gpu, ordinal);
        self.publish();
    }

    /// Notes that it goes on, on another GPU.
    pub fn move_to(&mut self, gpu: u32, ordinal: i32) {
        let Some(id) = self.id else { return };
        self.stop_clock();
        self.gpu = Some(gpu);
        self.granted = Some(clock::now());
        self.shared.bind(id.raw(), gpu, ordinal);
        self.publish();
    }

    /// Notes that mgbd has no such task any more.
    pub fn unbind(&mut self) {
        self.stop_clock();
        self.id = None;
        self.reserved = 0;
        self.publish();
    }

    /// Notes that the task runs no longer.
    pub fn stop_clock(&mut self) {
        if let Some(from) = self.granted.take() {
            let to = clock::now();
            self.seen.run += to.saturating_sub(from);
            if let Some(gpu) = self.gpu.filter(|_| mgb_probe::trace::is_wanted()) {
                self.spans.push(Span { gpu, from, to });
            }
        }
    }

    /// An extent without memory is its own now.
    pub fn add_unbacked(&mut self, extent: u64, length: u64) {
        self.extents.insert(extent);
        if self.unbacked.insert(extent) {
            self.unbacked_bytes += length;
        }
        self.publish();
    }

    /// Whether a thread is about to change it, which others wait for.
    pub fn is_held(&self) -> bool {
        self.busy || self.moving
    }

    /// Whether a thread changes what is behind its extents.
    pub fn is_moving(&self) -> bool {
        self.moving
    }

    /// Begins a move: a thread changes what backs the task's extents, and launches wait.
    pub fn begin_move(&mut self) {
        self.moving = true;
        self.publish();
    }

    /// Ends the move. The caller notifies the threads that wait for it.
    pub fn end_move(&mut self) {
        self.moving = false;
        self.publish();
    }

    /// An extent that counts as mapped has new memory, which no other GPU may use yet.
    pub fn note_backed(&mut self) {
        self.shared.forget_lent();
        self.seen.mapped = self.seen.mapped.max(self.mapped);
    }

    /// An extent that counts as mapped has no memory.
    pub fn note_unbacked(&mut self, extent: u64, length: u64) {
        self.mapped -= length;
        if self.unbacked.insert(extent) {
            self.unbacked_bytes += length;
        }
    }

    /// An object of that size is live.
    pub fn count_object(&mut self, bytes: u64) {
        self.live += bytes;
        self.objects += 1;
        self.seen.objects += 1;
        self.seen.peak = self.seen.peak.max(self.live);
    }

    /// Bytes that its GPU holds for the task once all objects of the task are backed.
    pub fn committed(&self) -> u64 {
        let unevictable = self.unevictable();
        unevictable + self.outside.managed_beside(unevictable)
    }

    /// The committed bytes that must stay on the GPU: all but managed memory, which the driver can evict.
    pub fn unevictable(&self) -> u64 {
        self.mapped + self.unbacked_bytes + self.outside.unevictable()
    }

    /// Bytes that its GPU holds for the task now, or may hold at any time.
    pub fn resident(&self) -> u64 {
        self.committed() - self.unbacked_bytes
    }
}

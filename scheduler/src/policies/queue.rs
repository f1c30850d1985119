//! The order in which memory-hard policies serve, apart from where they place.
//!
//! *Backfill*: first come first, but a task that cannot be placed may be passed
//! by later ones that can. Once it has waited longer than the patience, room
//! gathers for it on one GPU, which the caller chooses for a bounded time
//! ([`Waiter::gathers`]): no later task takes room there, so nobody starves, and the
//! other GPUs are everybody's. Tasks of processes that already have something pass it for some time
//! longer ([`HOLDER_PATIENCE`] times the patience): others wait for what they
//! hold, the first in the queue among them. Where nobody who holds memory can go
//! on (a *stalled* GPU), they pass it in any case.
//!
//! *In order*: no task passes one that came before it and may go to the same GPUs.
//!
//! *Largest first*: as backfill, but of those within the patience the one that
//! needs most memory goes first; those beyond it go before all others, in the
//! order in which they came. What is small finds room between the large ones, and
//! not the other way round.
//!
//! *Shortest first*: the same with the one that is expected to end first.
//!
//! *By deadline*, earliest first or least laxity first: the same with the one whose deadline says so
//! ([`super::deadline`]). Tasks are served so until they have waited for `HOLDER_PATIENCE` times the
//! patience: where deadlines are minutes away, most of what waits is beyond the patience.
//!
//! So the bound on waiting is the same for all of them: once a task has waited for
//! `HOLDER_PATIENCE` times the patience, nothing begins before it on the GPU where
//! room gathers for it but tasks that have waited for as long and, on a stalled GPU, tasks that others
//! wait for. What runs there then has to end, and it is its turn.
//!
//! On a GPU where a granted task waits to grow, processes that hold nothing there do not begin, until nothing
//! has left it for long. One that asks for no memory begins there after the patience: others may wait for it,
//! those who hold what the growing task waits for among them. Where others make room for a process on a
//! stalled GPU (a *claim*), that process takes it and not they.
//!
//! A task that lacks something else than memory is passed in the same way. Where compute is hard, it keeps
//! the GPU that it needs least of, the same one for all such tasks that may go there.

use std::time::Duration;

use mgb_interface::Queue;

use super::{GpuState, Placement, View, Waiter, edf, laxity};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;

/// How many times the patience a process that has something may pass others.
pub const HOLDER_PATIENCE: u32 = 4;

/// The sort key of a request that has waited for less than [`turn_timeout`]: less goes first. `None`: order
/// of arrival. It is a matter of the moment: a deadline that could be met may be lost now.
pub(crate) fn turn(queue: Queue, waiter: &Waiter, now: Duration) -> Option<u64> {
    match queue {
        Queue::InOrder | Queue::Backfill => None,
        Queue::Shortest => Some(u64::try_from(waiter.expected.as_nanos()).unwrap_or(u64::MAX)),
        Queue::Largest => Some(u64::MAX - waiter.bytes),
        Queue::Edf => Some(edf::turn(waiter, now)),
        Queue::Laxity => Some(laxity::turn(waiter, now)),
    }
}

/// How long requests wait for their turns by the queue: those that have waited for longer go first, in the
/// order of arrival.
pub(crate) fn turn_timeout(queue: Queue, patience: Duration) -> Duration {
    if queue.by_deadline() {
        patience.saturating_mul(HOLDER_PATIENCE)
    } else {
        patience
    }
}

fn sorts(queue: Queue) -> bool {
    !matches!(queue, Queue::InOrder | Queue::Backfill)
}

/// Where a policy places.
pub(super) trait Choose {
    /// The one of the GPUs `fitting` (not empty) that the task gets; all have the memory.
    /// `None`: none of them will do for now.
    fn choose(&mut self, waiter: &Waiter, fitting: GpuSet, gpus: &[GpuState]) -> Option<usize>;

    /// It has got this one.
    fn placed(&mut self, _waiter: &Waiter, _gpu: usize) {}

    /// Of GPUs that will not do for now, the one that is to be kept for the task; never one that has less to
    /// spare than another, so that it does not change for ever.
    fn nearest(&mut self, _waiter: &Waiter, fitting: GpuSet, _gpus: &[GpuState]) -> usize {
        fitting.first().unwrap_or(0)
    }
}

/// One round over the queue.
struct Round<'a> {
    view: &'a View<'a>,
    gpus: Vec<GpuState>,
    /// Contexts that grants of this round bring.
    contexts: Vec<(ClientId, GpuSet)>,
    placements: Vec<Placement>,
    all: GpuSet,
    stalled: GpuSet,
    /// GPUs where a process may begin if it has a context there, and if it has none.
    open: [GpuSet; 2],
    /// GPUs where one more process may be, whoever waits to grow there.
    places: GpuSet,
    /// The most room that any of those has.
    most: u64,
    /// GPUs kept for others, from newcomers and from processes that have something.
    kept: [GpuSet; 2],
}

fn mask(gpus: &[GpuState], is: impl Fn(&GpuState) -> bool) -> GpuSet {
    (0..gpus.len()).filter(|at| is(&gpus[*at])).collect()
}

impl Round<'_> {
    /// What is open, after a change.
    fn survey(&mut self) {
        let may_begin = |gpu: &GpuState| !gpu.growth_aged || gpu.stalled;
        let has_place = |gpu: &GpuState| gpu.processes < gpu.max_processes;
        let takes_newcomers = |gpu: &GpuState| may_begin(gpu) && has_place(gpu) && !gpu.growth_waits;
        self.places = mask(&self.gpus, has_place);
        self.open = [mask(&self.gpus, may_begin), mask(&self.gpus, takes_newcomers)];
        self.most = self.open[0]
            .iter()
            .map(|at| self.gpus[at].room)
            .max()
            .unwrap_or(0);
    }

    /// GPUs of the set on which the task has its memory and, if it wants a GPU for itself, no other process.
    fn fitting(&self, waiter: &Waiter, among: GpuSet, order: AgeLimits) -> GpuSet {
        let with = waiter.contexts;
        let asks_for_nothing = waiter.bytes == 0 && order.aged(waiter);
        let newcomers = if asks_for_nothing {
            self.places
        } else {
            self.open[1]
        };
        let open = waiter.gpus & among & (self.open[0] & with | newcomers & !with);
        let fits = |at: &usize| {
            let gpu = &self.gpus[*at];
            waiter.cost(*at, gpu) <= gpu.room
                && gpu.claim.is_none_or(|claim| claim.lets(waiter.client))
                && !gpu.alone_by.others_than(waiter.client)
                && !(waiter.alone && gpu.present_by.others_than(waiter.client))
        };
        open.iter().filter(fits).collect()
    }

    fn place(&mut self, at: usize, waiter: &Waiter, gpu: usize) {
        let state = &mut self.gpus[gpu];
        state.room -= waiter.cost(gpu, state);
        if !waiter.contexts.contains(gpu) {
            state.processes += 1;
            self.contexts.push((waiter.client, GpuSet::of(gpu)));
        }
        let warps = waiter.charge(state);
        state.warps = state.warps.saturating_add(warps);
        state.active_warps = state.active_warps.saturating_add(warps);
        state.resting = false;
        state.present_by = state.present_by.with(waiter.client);
        if waiter.alone {
            state.alone_by = state.alone_by.with(waiter.client);
        }
        self.placements.push(Placement { waiter: at, gpu });
        self.survey();
    }

    /// Whether a newcomer can have nothing, and has nothing kept for it that is not kept already: of most
    /// tasks in a long queue that is all there is to know.
    fn is_settled(&self, waiter: &Waiter, order: AgeLimits) -> bool {
        let wants = waiter.gpus & self.all;
        waiter.contexts.is_empty()
            && (wants & !self.kept[0]).is_empty()
            && ((wants & !self.stalled & !self.kept[1]).is_empty() || !order.very_aged(waiter))
            && !self.contexts.iter().any(|(client, _)| *client == waiter.client)
    }

    /// Serves one task. What `lower` says is kept from it as well.
    fn serve(&mut self, at: usize, lower: [GpuSet; 2], order: AgeLimits, choose: &mut impl Choose) {
        let waiter = &self.view.waiting[at];
        let aged = order.aged(waiter);
        if waiter.bytes > self.most && !aged || self.is_settled(waiter, order) {
            return;
        }
        let mut waiter = *waiter;
        for (client, made) in &self.contexts {
            if *client == waiter.client {
                waiter.contexts |= *made;
            }
        }
        let holds = usize::from(!waiter.contexts.is_empty());
        let closed = self.kept[holds] | lower[holds];
        let fitting = self.fitting(&waiter, self.all & !closed, order);
        if !fitting.is_empty()
            && let Some(gpu) = choose.choose(&waiter, fitting, &self.gpus)
        {
            choose.placed(&waiter, gpu);
            return self.place(at, &waiter, gpu);
        }
        // Nothing is kept from those of higher priority.
        if aged && lower[0].is_empty() {
            self.keep(&waiter, order, choose);
        }
    }

    /// Keeps room for a task that has waited for long.
    fn keep(&mut self, waiter: &Waiter, order: AgeLimits, choose: &mut impl Choose) {
        if (waiter.gpus & self.all & !self.kept[1]).is_empty() {
            return;
        }
        let gathers = waiter.gathers.map_or(GpuSet::EMPTY, GpuSet::of) & waiter.gpus & self.all;
        let keeps = if order.strict {
            waiter.gpus
        } else if waiter.alone {
            gathers
        } else {
            let fitting = self.fitting(waiter, self.all, order);
            match (fitting & self.kept[0]).first() {
                _ if fitting.is_empty() => gathers,
                // It is behind those for whom that one is kept.
                Some(kept) => GpuSet::of(kept),
                None => GpuSet::of(choose.nearest(waiter, fitting, &self.gpus)),
            }
        };
        self.kept[0] |= keeps;
        if order.very_aged(waiter) {
            self.kept[1] |= keeps & !self.stalled;
        }
    }
}

/// How long those who wait are passed.
#[derive(Clone, Copy)]
struct AgeLimits {
    strict: bool,
    /// Requests that have waited since then or longer are aged; `None`: there are none.
    aged: Option<Duration>,
    /// The same for very long.
    very_aged: Option<Duration>,
}

impl AgeLimits {
    fn aged(&self, waiter: &Waiter) -> bool {
        self.strict || self.aged.is_some_and(|then| waiter.since <= then)
    }

    fn very_aged(&self, waiter: &Waiter) -> bool {
        self.strict || self.very_aged.is_some_and(|then| waiter.since <= then)
    }
}

/// Serves the queue. With `by_priority`, only tasks of the highest priority there is begin; one that has
/// waited very long counts as such.
pub(super) fn place(
    view: &View<'_>,
    queue: Queue,
    by_priority: bool,
    choose: &mut impl Choose,
) -> Vec<Placement> {
    let order = AgeLimits {
        strict: queue == Queue::InOrder,
        aged: view.now.checked_sub(view.patience),
        very_aged: view
            .now
            .checked_sub(view.patience.saturating_mul(HOLDER_PATIENCE)),
    };
    let gpus = view.gpus.to_vec();
    let mut round = Round {
        view,
        all: mask(&gpus, |_| true),
        stalled: mask(&gpus, |gpu| gpu.stalled),
        gpus,
        contexts: Vec::new(),
        placements: Vec::new(),
        open: [GpuSet::EMPTY; 2],
        places: GpuSet::EMPTY,
        most: 0,
        kept: [GpuSet::EMPTY; 2],
    };
    round.survey();
    let below = [round.all, round.all & !round.stalled];
    let old = |waiter: &Waiter| order.very_aged.is_some_and(|then| waiter.since <= then);
    let ranks = |waiter: &Waiter| if old(waiter) { u32::MAX } else { waiter.priority };
    let top = if by_priority {
        view.waiting.iter().map(ranks).max().unwrap_or(0)
    } else {
        0
    };
    let lower = |waiter: &Waiter| {
        if ranks(waiter) < top {
            below
        } else {
            [GpuSet::EMPTY; 2]
        }
    };
    // Where users take turns, they are in order already.
    let sorts = sorts(queue) && !view.is_ordered;
    let too_long = view.now.checked_sub(turn_timeout(queue, view.patience));
    let has_turn = |waiter: &Waiter| sorts && too_long.is_none_or(|then| waiter.since > then);
    for (at, waiter) in view.waiting.iter().enumerate() {
        // Nobody can begin any more.
        if round.kept[1] == round.all {
            return round.placements;
        }
        if !has_turn(waiter) {
            round.serve(at, lower(waiter), order, choose);
        }
    }
    if sorts {
        // Of the others, those who cannot be placed change nothing, unless room gathers for them.
        let may_begin = |(at, waiter): (usize, &Waiter)| {
            let is_served = has_turn(waiter) && (waiter.bytes <= round.most || order.aged(waiter));
            is_served.then(|| (turn(queue, waiter, view.now), at))
        };
        let mut turns: Vec<(Option<u64>, usize)> =
            view.waiting.iter().enumerate().filter_map(may_begin).collect();
        turns.sort_unstable();
        for (_, at) in turns {
            // Nobody can begin any more.
            if round.kept[1] == round.all {
                break;
            }
            round.serve(at, lower(&view.waiting[at]), order, choose);
        }
    }
    round.placements
}

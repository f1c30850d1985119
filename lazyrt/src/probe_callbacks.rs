//! lazyrt as the probe's binder: what becomes of the tasks that the program begins and ends.

use mgb_core::notice;
use mgb_core::{mps, work};
use mgb_probe::byte_size::Bytes;
use mgb_probe::need::VARIABLES;
use mgb_probe::{Binder, Constraints, Grant, Hello, Need, Refusal, Site, TaskId};

use crate::launch_view::LaunchView;
use crate::state::{self, CHANGED, Device, Key, ProcessState};
use crate::task::OwnSite;
use crate::task_binding::{self, Asked};
use crate::thread::{self, Activation, SiteHint};
use crate::{adopt_objects, device, driver_start, fault, foreign_cuda, front, in_flight, swap, visible};

struct Lazy;

static LAZY: Lazy = Lazy;

/// Makes lazyrt the process's binder.
pub fn register() {
    mgb_probe::set_binder(&LAZY);
}

/// The task that begins: what its activation allocated for the site, else a new one. A task begun by hand,
/// without a site, is the program's lazy task.
fn beginning(state: &mut ProcessState, site: Option<&Site<'_>>) -> Key {
    let Some(site) = site else {
        let lazy = state.lazy_task();
        let unbound = state
            .task(lazy)
            .is_some_and(|task| task.is_unbound() && !task.busy);
        return if unbound {
            lazy
        } else {
            state.new_task(None, None, false)
        };
    };
    let activation = Activation::new(site.key, site.activation);
    let key = state
        .take_gathered(activation)
        .unwrap_or_else(|| state.new_task(None, Some(activation), false));
    if let Some(task) = state.task(key) {
        task.site = Some(OwnSite::from(site));
    }
    key
}

/// Says that a static task's need was too high. `mgb batch` must not take it for why a job failed.
fn bound_later(site: Option<&Site<'_>>, refusal: &Refusal) {
    let what = site.map_or("a task".to_owned(), |site| {
        format!("task {} ({} in {})", site.id, site.function, site.module)
    });
    let why = match refusal {
        Refusal::NeverFits { wanted, .. } => {
            format!("its need, {} with the context, fits no GPU", Bytes(*wanted))
        }
        other => format!("its need was refused ({other})"),
    };
    notice::once(
        "need",
        format_args!("{what} is bound at run time, by what it allocates: {why}"),
    );
}

/// Whether the task runs where the device's variables have their values.
fn follows_variables(need: &Need) -> bool {
    need.flags & VARIABLES != 0
}

/// Ends the choice of a GPU for the device, if this thread made one.
fn chose(state: &mut ProcessState) {
    if state.chose(state::current()) {
        CHANGED.notify_all();
    }
}

/// Has the device's lazy task do on the GPU what was recorded before a task that may read it; false where it
/// cannot.
fn catch_up(gpu: u32) -> bool {
    let lazy = {
        let mut state = state::lock();
        if !state.has_lazy_records(state::current()) {
            return true;
        }
        state.lazy_task()
    };
    let asked = Asked {
        gpu: Some(gpu),
        ..Asked::default()
    };
    task_binding::prepare(lazy, asked).is_ok()
}

/// Gives a task what earlier tasks of its activation own; false where that is not possible.
fn absorb_all(older: Vec<Key>, key: Key) -> bool {
    let has_all = older.into_iter().all(|older| adopt_objects::older(older, key));
    if !has_all {
        notice::once(
            "absorb",
            format_args!(
                "a task begins again and may use objects of its last run, which cannot leave their GPU: it is \
                 refused; with MGB_STATIC=off all tasks are bound at run time, and share their objects"
            ),
        );
    }
    has_all
}

/// Whether a GPU where a device's task rested has not become another device's since.
fn is_free_for(device: Device, gpu: u32) -> bool {
    !state::may_be_several() || {
        let state = state::lock();
        let others = state.gpus_of_others(device) & 1u64.checked_shl(gpu).unwrap_or(0);
        others == 0 && state.home(device).is_none_or(|home| home == gpu)
    }
}

impl Binder for Lazy {
    fn may_connect(&self) -> bool {
        let reason = || foreign_cuda::reason().unwrap_or_default();
        let left_to_it =
            foreign_cuda::is_open() && front::takes_over(&reason(), foreign_cuda::is_linked_with_driver());
        if left_to_it && mgb_probe::has_said_latency() {
            front::becomes_latency();
        }
        !left_to_it && front::gives_way()
    }

    fn became_latency(&self) {
        front::becomes_latency();
    }

    fn before_cuda(&self, hello: &Hello) {
        let outside = mps::why_outside();
        let variables = mps::variables(hello, outside, |name| std::env::var_os(name));
        driver_start::note_own_percentage(std::env::var_os(mps::PERCENTAGE));
        if let Some(why) = outside.filter(|_| !variables.is_empty()) {
            notice::once("outside", format_args!("{}", mps::notice(why)));
        }
        for (name, value) in variables {
            // SAFETY: the process's first GPU op; the driver, which reads it, is not loaded yet. A thread
            // that reads the environment by itself at this moment is the program's own risk, as with any
            // setenv of a library.
            unsafe { std::env::set_var(name, value) };
        }
    }

    fn bound(&self, site: Option<&Site<'_>>, need: &Need, grant: &Grant) {
        // Behind a reset, if there was one, with a context that works.
        fault::began_anew();
        // Without an ordinal every op of the task fails, with the reason on stderr.
        visible::restrict_to(grant.gpu);
        let ordinal = device::ordinal(grant.gpu).ok();
        let mut state = state::lock();
        let key = beginning(&mut state, site);
        state.name(grant.task.raw(), key);
        let Some(task) = state.task(key) else { return };
        task.need = *need;
        task.seen.waited += grant.waited;
        match ordinal {
            Some(ordinal) => task.bind(grant.task, grant.gpu, ordinal, grant.reserved_bytes),
            None => task.refused = true,
        }
        let follows = follows_variables(need);
        if follows {
            state.put_variables(state::current(), grant.gpu);
        }
        chose(&mut state);
        let older = match site {
            Some(site) => state.begins(Activation::new(site.key, site.activation), key),
            None => Vec::new(),
        };
        drop(state);
        let has_all = absorb_all(older, key);
        if (!has_all || (follows && !catch_up(grant.gpu)))
            && let Some(task) = state::lock().task(key)
        {
            task.refused = true;
            task.publish();
        }
    }

    fn refused(&self, site: Option<&Site<'_>>, need: &Need, task: TaskId, refusal: &Refusal) -> bool {
        let mut state = state::lock();
        let key = beginning(&mut state, site);
        state.name(task.raw(), key);
        chose(&mut state);
        let Some(of_site) = state.task(key) else {
            return false;
        };
        of_site.need = *need;
        if of_site.lazy || refusal.is_for_size() {
            // A need is advice, and what the program really allocates may be less: it is part of the lazy
            // task, which asks as it allocates. On several devices each one's lazy task holds its own.
            let lazy = state.lazy_task();
            state.merge(key, lazy);
            drop(state);
            bound_later(site, refusal);
            return refusal.is_for_size();
        }
        of_site.refused = true;
        of_site.publish();
        false
    }

    fn use_task(&self, site: usize, id: u32, task: Option<TaskId>, activation: u64) {
        let hint = match task.map(TaskId::raw) {
            Some(handle) => SiteHint { site, id, handle },
            None => SiteHint::before_begin(site, id, activation),
        };
        thread::with(|thread| thread.hint(hint));
    }

    fn ending(&self, id: TaskId) -> u64 {
        // A rest would be launched for a task that is gone.
        in_flight::settle();
        let mut state = state::lock();
        let Some(key) = state.by_handle(id.raw()) else {
            return 0;
        };
        let Some(task) = state.task(key) else { return 0 };
        if task.id != Some(id) && !id.is_refused() {
            // Its objects belong to a later task of the same site.
            return 0;
        }
        if id.is_refused() && task.lazy {
            // The refused task is a part of the lazy task, which continues.
            state.forget_handle(id.raw());
            return 0;
        }
        task.ended = true;
        task.stop_clock();
        let kept = task.resident();
        task.reserved = kept;
        if kept == 0 {
            task.unbind();
        }
        task.publish();
        state.drop_if_over(key);
        kept
    }

    fn may_rest(&self, id: TaskId) -> bool {
        in_flight::settle();
        // A trace has a line for every run of its own.
        if mgb_probe::trace::is_wanted() {
            return false;
        }
        let shared = thread::with(|thread| thread.cached(id.raw())).filter(|shared| shared.is_empty());
        if let Some(shared) = shared {
            shared.set_resting(true);
        }
        shared.is_some()
    }

    fn resume(&self, site: &Site<'_>, need: &Need, id: TaskId) -> bool {
        let shared = thread::with(|thread| thread.cached(id.raw()));
        let fits = |shared: &&LaunchView| {
            let (device, (gpu, _)) = (state::current(), shared.placement());
            shared.device() == device && state::lets_be_on(gpu) && is_free_for(device, gpu)
        };
        if let Some(shared) = shared {
            shared.set_resting(false);
        }
        let Some(shared) = shared.filter(fits) else {
            return false;
        };
        if follows_variables(need) {
            let state = state::lock();
            let device = state::current();
            if state.variables_gpu(device) != Some(shared.placement().0) || state.has_lazy_records(device) {
                return false;
            }
        }
        let activation = Activation::new(site.key, site.activation);
        if activation.is_known() || thread::with(|thread| thread.gathers()) {
            let mut state = state::lock();
            let Some(key) = state.by_handle(id.raw()) else {
                return false;
            };
            if let Some(gathered) = state.take_gathered(activation) {
                state.merge(gathered, key);
            }
            // From here on it is this activation's, whichever had it before.
            state.give_to(key, activation);
            let older = state.begins(activation, key);
            drop(state);
            if !absorb_all(older, key)
                && let Some(task) = state::lock().task(key)
            {
                task.refused = true;
                task.publish();
            }
        }
        debug_assert!(shared.is_of(id.raw()));
        true
    }

    fn swap_out(&self, gpu: u32) {
        swap::out_gpu(gpu);
    }

    fn still_waiting(&self) {
        // Handles mean streams whose work this does not see.
        if !state::is_anchored() && !work::any_stream() {
            device::publish_finished();
        }
    }

    fn constraints(&self, need: &Need) -> Constraints {
        let follows = follows_variables(need);
        // Handles of the runtime's own, and those of one of several devices, are on one GPU with all that
        // uses them.
        let has_home = foreign_cuda::is_open() || state::may_be_several();
        let mut state = state::lock();
        let device = state::current();
        loop {
            let tied = visible::gpu().or(state.anchor(device));
            let home = match (has_home, follows) {
                (true, _) => state.home(device),
                (false, true) => state.variables_gpu(device),
                // Launches of the new task may reach lazy objects through pointers in memory.
                (false, false) => state.lazy_gpu(device),
            };
            let gpu = tied.or(home);
            if gpu.is_some() || !(has_home || follows) {
                return Constraints { gpu, avoid: 0 };
            }
            if state.choose(device) {
                return Constraints {
                    gpu: None,
                    avoid: state.gpus_of_others(device),
                };
            }
            CHANGED.wait(&mut state);
        }
    }
}

//! lazyrt as the probe's binder: what becomes of the tasks that the program begins and ends.

use mgb_probe::need::VARIABLES;
use mgb_probe::{Binder, Grant, Hello, Need, Places, Refusal, Site, TaskId};

use crate::bind::{self, Asked};
use crate::launch_view::Shared;
use crate::state::{self, CHANGED, Key, State};
use crate::task::OwnSite;
use crate::thread::{self, Use};
use crate::{absorb, device, swap, visible, work};

struct Lazy;

static LAZY: Lazy = Lazy;

/// Makes lazyrt the process's binder.
pub fn register() {
    mgb_probe::set_binder(&LAZY);
}

/// The task that begins: what this thread allocated for the site, else a new one. A task begun by hand,
/// without a site, is the program's lazy task.
fn beginning(state: &mut State, site: Option<&Site<'_>>) -> Key {
    let Some(site) = site else {
        let lazy = state.lazy_task();
        let unbound = state
            .task(lazy)
            .is_some_and(|task| task.is_unbound() && !task.busy);
        return if unbound {
            lazy
        } else {
            state.new_task(None, 0, false)
        };
    };
    let thread = thread::with(|thread| thread.number());
    let key = state
        .take_pending(site.key)
        .unwrap_or_else(|| state.new_task(None, thread, false));
    if let Some(task) = state.task(key) {
        task.site = Some(OwnSite::from(site));
    }
    key
}

/// Whether the task runs where the device's variables have their values.
fn follows_variables(need: &Need) -> bool {
    need.flags & VARIABLES != 0
}

/// Ends the choice of a GPU for the device's variables, for a task that follows them.
fn chose(state: &mut State, gpu: Option<u32>) {
    state.chose_variables(state::current(), gpu);
    CHANGED.notify_all();
}

/// Has the device's lazy task do on the GPU what was recorded before a task that may read it; false where it cannot.
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
    bind::prepare(lazy, asked).is_ok()
}

impl Binder for Lazy {
    fn before_cuda(&self, hello: &Hello) {
        if let Some(folder) = &hello.mps_pipe {
            // SAFETY: the process's first GPU op; the driver, which reads it, is not loaded yet. A thread
            // that reads the environment by itself at this moment is the program's own risk, as with any
            // setenv of a library.
            unsafe { std::env::set_var("CUDA_MPS_PIPE_DIRECTORY", folder) };
        }
    }

    fn bound(&self, site: Option<&Site<'_>>, need: &Need, grant: &Grant) {
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
            chose(&mut state, Some(grant.gpu));
        }
        match site {
            Some(site) => absorb::ended(state, key, site.key),
            None => drop(state),
        }
        if follows
            && !catch_up(grant.gpu)
            && let Some(task) = state::lock().task(key)
        {
            task.refused = true;
            task.publish();
        }
    }

    fn refused(&self, site: Option<&Site<'_>>, need: &Need, task: TaskId, _refusal: &Refusal) {
        let mut state = state::lock();
        let key = beginning(&mut state, site);
        state.name(task.raw(), key);
        if follows_variables(need) {
            chose(&mut state, None);
        }
        if let Some(task) = state.task(key) {
            task.need = *need;
            // The lazy task may ask again, once it is smaller.
            task.refused = !task.lazy;
            task.publish();
        }
    }

    fn use_task(&self, site: usize, id: u32, task: Option<TaskId>) {
        let handle = task.map_or(0, TaskId::raw);
        thread::with(|thread| thread.tell(Use { site, id, handle }));
    }

    fn ending(&self, id: TaskId) -> u64 {
        let mut state = state::lock();
        let Some(key) = state.by_handle(id.raw()) else {
            return 0;
        };
        let Some(task) = state.task(key) else { return 0 };
        if task.id != Some(id) && !id.is_refused() {
            // Its objects belong to a later task of the same site.
            return 0;
        }
        task.ended = true;
        task.stop_clock();
        let kept = task.held();
        task.reserved = kept;
        if kept == 0 {
            task.unbind();
        }
        task.publish();
        state.drop_if_over(key);
        kept
    }

    fn may_rest(&self, id: TaskId) -> bool {
        // A trace tells of every run by itself.
        if crate::trace::is_wanted() {
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
        let fits =
            |shared: &&Shared| shared.device() == state::current() && state::lets_be_on(shared.place().0);
        if let Some(shared) = shared {
            shared.set_resting(false);
        }
        let Some(shared) = shared.filter(fits) else {
            return false;
        };
        if follows_variables(need) {
            let state = state::lock();
            let device = state::current();
            if state.variables_gpu(device) != Some(shared.place().0) || state.has_lazy_records(device) {
                return false;
            }
        }
        if thread::with(|thread| thread.gathers()) {
            let mut state = state::lock();
            let Some(key) = state.by_handle(id.raw()) else {
                return false;
            };
            if let Some(gathered) = state.take_pending(site.key) {
                state.merge(gathered, key);
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

    fn places(&self, need: &Need) -> Places {
        let mut state = state::lock();
        let device = state::current();
        let tied = visible::gpu().or(state.anchor(device));
        if !follows_variables(need) {
            return Places {
                // Launches of the new task may reach lazy objects through pointers in memory.
                gpu: tied.or(state.lazy_gpu(device)),
                avoid: 0,
            };
        }
        while state.variables_gpu(device).is_none() && !state.choose_variables(device) {
            CHANGED.wait(&mut state);
        }
        Places {
            gpu: tied.or(state.variables_gpu(device)),
            avoid: state.gpus_of_others(device),
        }
    }
}

//! lazyrt as the probe's binder: what becomes of the tasks that the program begins and ends.

use mgb_probe::{Binder, Grant, Hello, Need, Refusal, Site, TaskId};

use crate::ops::opaque;
use crate::state::{self, Key, State};
use crate::task::{OwnSite, Shared};
use crate::thread::{self, Use};
use crate::{absorb, device, handles, narrow, swap};

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
        narrow::before_driver(grant.gpu);
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
        if let Some(site) = site {
            absorb::ended(state, key, site.key);
        }
    }

    fn refused(&self, site: Option<&Site<'_>>, need: &Need, task: TaskId, _refusal: &Refusal) {
        let mut state = state::lock();
        let key = beginning(&mut state, site);
        state.name(task.raw(), key);
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
        !crate::trace::is_wanted()
            && thread::with(|thread| thread.cached(id.raw())).is_some_and(Shared::is_empty)
    }

    fn resume(&self, site: &Site<'_>, id: TaskId) -> bool {
        let shared = thread::with(|thread| thread.cached(id.raw()));
        let fits =
            |shared: &&Shared| shared.device() == state::current() && opaque::lets_be_on(shared.place().0);
        let Some(shared) = shared.filter(fits) else {
            return false;
        };
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
        if !opaque::is_anchored() && !handles::any_stream() {
            device::publish_finished();
        }
    }

    fn must_be_on(&self) -> Option<u32> {
        let state = state::lock();
        // Launches of the new task may reach lazy objects through pointers in memory.
        let device = state::current();
        narrow::gpu().or(state.anchor(device)).or(state.lazy_gpu(device))
    }
}

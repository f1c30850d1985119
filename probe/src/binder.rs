//! Who binds granted tasks: lazyrt registers itself here, so that the C ABI can
//! tell it what became of each task without the probe knowing lazyrt.

use std::sync::OnceLock;

use crate::hello::Hello;
use crate::need::Need;
use crate::task::{Grant, Refusal, TaskId};

/// A static task as the pass describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site<'a> {
    /// Address of the constant in the program: equal for equal sites.
    pub key: usize,
    /// Number of the task in its module's report.
    pub id: u32,
    /// Source file of the module.
    pub module: &'a str,
    /// Function that holds the task.
    pub function: &'a str,
    /// The activation of that function, a number that no other has; 0: its thread stands for it.
    pub activation: u64,
}

/// The limits of a process on where one of its tasks may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// The GPU it must be on, because the process has something there that the task
    /// may use: handles, objects, device variables.
    pub gpu: Option<u32>,
    /// GPUs on which it must not begin, one bit each.
    pub avoid: u64,
}

/// What the C ABI calls as tasks come and go. Called on the thread of the
/// program that made the C call, with no lock of the probe held, except where
/// said otherwise.
pub trait Binder: Sync {
    /// Whether the process is to have a client. False: it runs natively without a word, since something else
    /// in it has one. Must not call [`crate::client()`].
    fn may_connect(&self) -> bool {
        true
    }

    /// The process just got its client, before anything else is done with it:
    /// the place to set `CUDA_MPS_PIPE_DIRECTORY`. Must not call
    /// [`crate::client()`].
    fn before_cuda(&self, hello: &Hello);

    /// The program has said that others wait for it, to this library's own client if there is one.
    fn became_latency(&self) {}

    /// `grant.task` is granted; bind it.
    fn bound(&self, site: Option<&Site<'_>>, need: &Need, grant: &Grant);

    /// The task is refused; `task` is the handle the program will use for it
    /// (and [`TaskId::is_refused`]). True: the need was too high, and the binder
    /// binds the task at run time, by what it really allocates. False: its ops
    /// fail, and the caller says so on stderr.
    fn refused(&self, site: Option<&Site<'_>>, need: &Need, task: TaskId, refusal: &Refusal) -> bool;

    /// The next GPU op of this thread belongs to `task`; without one, the site
    /// still groups allocations made before the task begins. Called before every
    /// op of a static task, so only what is cheap to read is passed: the site's
    /// address ([`Site::key`]; 0: no site), its number, and [`Site::activation`].
    fn use_task(&self, site: usize, id: u32, task: Option<TaskId>, activation: u64);

    /// The task is about to end; returns the bytes that stay mapped.
    fn ending(&self, task: TaskId) -> u64;

    /// Whether a task that is over may keep its grant for the next run of its
    /// site: it holds no memory. Called at every end, so it must be quick.
    fn may_rest(&self, task: TaskId) -> bool {
        let _ = task;
        true
    }

    /// The site begins again on the grant of its last run, `task`; what was
    /// allocated for it since then is the task's. False: it has to ask anew.
    fn resume(&self, site: &Site<'_>, need: &Need, task: TaskId) -> bool {
        let _ = (site, need, task);
        true
    }

    /// This thread waits in `begin` or `grow`, everybody on `gpu` waits, and
    /// this process is to make room: copy the memory of its quiescent tasks on
    /// that GPU to the host, free it there, call [`crate::Client::swapped`] for
    /// each, and ask with `grow` for the whole when one of them is touched
    /// again. Called without the probe's locks; must not wait for other
    /// requests. Where nothing can be freed, `mgbd` sees that nothing was
    /// reported, and in the end refuses the request.
    fn swap_out(&self, gpu: u32) {
        let _ = gpu;
    }

    /// This thread has waited for an answer for about another second: time to
    /// publish which launches have finished, by which `mgbd` tells who can go
    /// on. Called without the probe's locks; must not wait for anything.
    fn still_waiting(&self) {}

    /// The constraints on a task with this need that begins now. May wait for another thread that
    /// is asking; [`Binder::bound`] or [`Binder::refused`] follows in any case.
    fn constraints(&self, need: &Need) -> Constraints {
        let _ = need;
        Constraints::default()
    }
}

static BINDER: OnceLock<&'static dyn Binder> = OnceLock::new();

/// Registers the process's binder. The first one stays; false if there was one.
pub fn set_binder(binder: &'static dyn Binder) -> bool {
    BINDER.set(binder).is_ok()
}

/// The registered binder.
pub fn binder() -> Option<&'static dyn Binder> {
    BINDER.get().copied()
}

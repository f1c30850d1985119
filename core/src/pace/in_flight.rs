//! What each thread has in flight on each GPU. A thread's own, without locks: right behind the write that
//! rings the GPU's doorbell an atomic read-modify-write would wait for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Instant;

use super::events::DriverEvents;
use super::window::LaunchWindow;
use crate::driver::Driver;

/// A thread's launches on one GPU.
struct ThreadLaunches {
    events: DriverEvents,
    window: LaunchWindow<DriverEvents>,
}

impl Drop for ThreadLaunches {
    fn drop(&mut self) {
        self.window.drain(&mut self.events);
    }
}

thread_local! {
    static LAUNCHES: RefCell<BTreeMap<u32, ThreadLaunches>> = const { RefCell::new(BTreeMap::new()) };
}

/// What was in flight in a context that has ended is not any more.
fn forget_ended(all: &mut BTreeMap<u32, ThreadLaunches>, gpu: u32) {
    if all.get(&gpu).is_some_and(|launches| !launches.events.are_there()) {
        all.remove(&gpu);
    }
}

/// Runs this on what the thread has in flight on the GPU. `None`: it has launched nothing there while that
/// was bounded, or ends.
fn with<R>(gpu: u32, run: impl FnOnce(&mut ThreadLaunches) -> R) -> Option<R> {
    let found = LAUNCHES.try_with(|all| {
        let mut all = all.try_borrow_mut().ok()?;
        forget_ended(&mut all, gpu);
        all.get_mut(&gpu).map(run)
    });
    found.ok().flatten()
}

/// Whether one more launch may go, as far as is known without asking the driver.
pub(super) fn has_room(gpu: u32) -> bool {
    with(gpu, |launches| launches.window.has_room()).unwrap_or(true)
}

/// Whether what is in flight leaves room for one more launch, or is not waited for any longer.
pub(super) fn admits(gpu: u32, now: Instant, is_late: bool) -> bool {
    with(gpu, |ThreadLaunches { events, window }| {
        let admits = window.admits(events, now);
        if !admits && is_late {
            window.give_up(events, now);
        }
        admits || is_late
    })
    .unwrap_or(true)
}

/// A kernel or graph of this thread was launched: counted in its window on the GPU.
pub(super) fn launched(gpu: u32, stream: usize, key: u64, driver: impl FnOnce() -> Option<&'static Driver>) {
    let _ = LAUNCHES.try_with(|all| {
        let Ok(mut all) = all.try_borrow_mut() else { return };
        forget_ended(&mut all, gpu);
        let launches = match all.entry(gpu) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let Some(driver) = driver() else { return };
                new.insert(ThreadLaunches {
                    events: DriverEvents::new(driver, gpu),
                    window: LaunchWindow::new(),
                })
            }
        };
        launches.window.launched(&mut launches.events, stream, key);
    });
}

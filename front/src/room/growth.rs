//! Waiting for room, and making room for others meanwhile.

use std::time::Duration;

use mgb_core::stillness;
use mgb_core::swaps::Watch;
use mgb_probe::trace::SwapKind;
use mgb_probe::{Grown, Refusal};

use super::swapper::{Out, SWAPPER};
use super::task::Task;
use crate::session::Session;

/// How often in a row a task may be asked to make room and fail.
const FAILED_SWAPS: u32 = 8;
/// After a failed swap; twice as long after each.
const PAUSE: Duration = Duration::from_millis(10);

/// One wait for room.
pub(super) struct Growth {
    session: &'static Session,
    task: &'static Task,
    device: i32,
    /// What was swapped out meanwhile, still charged, no longer reserved; and since when it could come back.
    out: Option<(Box<dyn Out>, Watch)>,
}

impl Growth {
    /// Of the device's task.
    pub(super) fn of(session: &'static Session, task: &'static Task, device: i32) -> Growth {
        Growth {
            session,
            task,
            device,
            out: None,
        }
    }

    /// Asks until all that is charged is reserved. Who has no mgbd any more goes on as it would without.
    pub(super) fn wait(&mut self) -> Result<(), Refusal> {
        let mut failed = 0;
        loop {
            let lacking = {
                let mut account = self.task.account.lock();
                account.asked = account.lacking();
                account.asked
            };
            if lacking == 0 {
                return Ok(());
            }
            // What other threads free meanwhile is not to be waited for.
            let lasts = || self.task.account.lock().lacking() >= lacking;
            let answer = self.session.client.grow_while(self.task.id, lacking, &lasts);
            {
                let mut account = self.task.account.lock();
                account.asked = 0;
                if let Ok(Grown::Granted { .. }) = answer {
                    account.reserved += lacking;
                }
            }
            match answer {
                Ok(Grown::Granted { .. }) | Err(Refusal::Withdrawn) => {}
                Ok(Grown::SwapOut) if self.make_room() => failed = 0,
                Ok(Grown::SwapOut) if failed < FAILED_SWAPS => {
                    std::thread::sleep(PAUSE * (1 << failed));
                    failed += 1;
                }
                Ok(Grown::SwapOut) => return Err(Refusal::Deadlock),
                Err(Refusal::Disconnected) => return Ok(()),
                Err(refusal) => return Err(refusal),
            }
        }
    }

    fn make_room(&mut self) -> bool {
        self.out.is_none() && self.evict(stillness::PATIENCE) > 0
    }

    /// Brings what the device has to the host, if it comes to rest so soon; the bytes that are free then.
    fn evict(&mut self, patience: Duration) -> u64 {
        let swapper = SWAPPER.get();
        let Some(out) = swapper.and_then(|swapper| swapper.out(self.device, patience)) else {
            return 0;
        };
        let freed = {
            let mut account = self.task.account.lock();
            let freed = out.freed().min(account.reserved);
            account.reserved -= freed;
            freed
        };
        self.session.client.swapped(self.task.id, freed);
        self.out = Some((out, Watch::begin(SwapKind::Restored)));
        freed
    }

    /// Brings what was swapped out back, if there is room for it.
    pub(super) fn end(self) {
        if let Some((out, watch)) = self.out {
            out.back(watch);
        }
    }

    /// Room for what was swapped out, which the program cannot do without.
    pub(super) fn get_back(&mut self) {
        while self.out.is_some() && self.wait().is_err() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// A device's memory that was brought to the host because it lay idle.
pub struct Evicted(Growth);

impl Evicted {
    /// Brings it there, if no work of the process is under way on the device so soon; and the bytes that are
    /// free then.
    pub(super) fn begin(
        session: &'static Session,
        task: &'static Task,
        device: i32,
        patience: Duration,
    ) -> Option<(Evicted, u64)> {
        let mut growth = Growth::of(session, task, device);
        let freed = growth.evict(patience);
        growth.out.is_some().then_some((Evicted(growth), freed))
    }

    /// Waits until the program goes on, then for room, and brings the memory back.
    pub fn bring_back(mut self) {
        while self.0.out.as_ref().is_some_and(|(out, _)| !out.is_wanted()) {}
        if let Some((_, watch)) = &mut self.0.out {
            *watch = Watch::begin(SwapKind::Restored);
        }
        let _growing = self.0.task.growing.lock();
        self.0.get_back();
        self.0.end();
    }
}

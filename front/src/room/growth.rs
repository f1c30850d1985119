//! Waiting for room, and making room for others meanwhile.

use std::time::Duration;

use mgb_core::stillness;
use mgb_core::swaps::Watch;
use mgb_probe::trace::SwapKind;
use mgb_probe::{Grown, Refusal};

use super::swapper::{Out, SWAPPER};
use super::task::{self, Place, Task};
use crate::session::Session;

/// How often in a row a task may be asked to make room and fail.
const FAILED_SWAPS: u32 = 8;
/// After a failed swap; twice as long after each.
const PAUSE: Duration = Duration::from_millis(10);

/// How often a request that fits is made again that mgbd took for too large.
const UNREAD: u32 = 20;

/// What a thread has brought to the host while it waits, of one device or several: still charged, no longer
/// reserved. All of it comes back together.
pub(super) struct Away {
    session: &'static Session,
    /// And since when it could come back.
    out: Option<(Box<dyn Out>, Watch)>,
    parts: Vec<Part>,
}

/// A device of which memory is in the host.
struct Part {
    place: Place,
    /// Bytes of room that it was granted again, and that nothing is in yet.
    regained: u64,
}

impl Away {
    pub(super) fn none(session: &'static Session) -> Away {
        Away {
            session,
            out: None,
            parts: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.out.is_none()
    }

    /// Brings what the device has to the host, if the process's devices come to rest so soon; or gives up the room
    /// that was granted for what is there already. The bytes that are free then.
    pub(super) fn make_room(&mut self, place: Place, patience: Duration) -> u64 {
        let (device, task) = place;
        let part = self.parts.iter_mut().find(|part| part.place.0 == device);
        let freed = match (part, &mut self.out) {
            (Some(part), _) => std::mem::take(&mut part.regained),
            (None, Some((out, _))) => out.more(device),
            (None, None) => {
                let out = SWAPPER.get().and_then(|swapper| swapper.out(device, patience));
                let freed = out.as_ref().map_or(0, |out| out.freed());
                self.out = out.map(|out| (out, Watch::begin(SwapKind::Restored)));
                freed
            }
        };
        if freed == 0 {
            return 0;
        }
        if self.parts.iter().all(|part| part.place.0 != device) {
            self.parts.push(Part { place, regained: 0 });
        }
        let freed = {
            let mut account = task.account.lock();
            let freed = freed.min(account.reserved);
            account.reserved -= freed;
            freed
        };
        self.session.client.swapped(task.id, freed);
        freed
    }

    /// Makes room on a GPU, where the process has something.
    pub(super) fn make_room_on(&mut self, gpu: u32) {
        if let Some(place) = task::on(gpu) {
            self.make_room(place, stillness::PATIENCE);
        }
    }

    /// The device of these that lacks room, the one with the lowest number first: all processes wait in this order.
    fn lacks(&self, own: Option<Place>) -> Option<Place> {
        let places = self.parts.iter().map(|part| part.place).chain(own);
        let lacking = places.filter(|(_, task)| task.account.lock().lacking() > 0);
        lacking.min_by_key(|(_, task)| task.gpu)
    }

    /// Whether all that the task is charged can be on its GPU.
    fn fits(&self, task: &Task) -> bool {
        let gpu = self.session.client.hello().gpus.get(task.gpu as usize);
        let most = gpu.map_or(0, |gpu| gpu.usable_bytes.saturating_sub(gpu.context_bytes));
        task.account.lock().held() <= most
    }

    /// Asks until all that is charged on these devices is reserved, and on `own`, of which the caller holds the
    /// right to ask. Who has no mgbd any more goes on as it would without.
    fn wait(&mut self, own: Option<Place>) -> Result<(), Refusal> {
        let (mut failed, mut unread) = (0, 0);
        while let Some(place) = self.lacks(own) {
            let (device, task) = place;
            let is_own = own.is_some_and(|(own, _)| own == device);
            let _growing = (!is_own).then(|| task.growing.lock());
            let lacking = {
                let mut account = task.account.lock();
                account.asked = account.lacking();
                account.asked
            };
            if lacking == 0 {
                continue;
            }
            // What other threads free meanwhile is not to be waited for.
            let lasts = || task.account.lock().lacking() >= lacking;
            let client = self.session.client;
            let answer = client.grow_while(task.id, lacking, &lasts, &mut |gpu| self.make_room_on(gpu));
            {
                let mut account = task.account.lock();
                account.asked = 0;
                if let Ok(Grown::Granted { .. }) = answer {
                    account.reserved += lacking;
                }
            }
            match answer {
                Ok(Grown::Granted { .. }) => {
                    let part = self.parts.iter_mut().find(|part| part.place.0 == device);
                    if let Some(part) = part {
                        part.regained += lacking;
                    }
                }
                Err(Refusal::Withdrawn) => {}
                Ok(Grown::SwapOut) if self.make_room(place, stillness::PATIENCE) > 0 => failed = 0,
                Ok(Grown::SwapOut) if failed < FAILED_SWAPS => {
                    std::thread::sleep(PAUSE * (1 << failed));
                    failed += 1;
                }
                Ok(Grown::SwapOut) => return Err(Refusal::Deadlock),
                // What was given back just now, mgbd may not have read yet.
                Err(Refusal::NeverFits { .. }) if unread < UNREAD && self.fits(task) => {
                    std::thread::sleep(PAUSE);
                    unread += 1;
                }
                Err(Refusal::Disconnected) => return Ok(()),
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// Room for what is in the host, which the program cannot do without. The caller holds the right to ask for
    /// `own`.
    fn get_back(&mut self, own: Option<Place>) {
        while !self.is_empty() && self.wait(own).is_err() {
            std::thread::sleep(PAUSE);
        }
    }

    /// Brings back what is in the host, for which there is room.
    fn end(self) {
        if let Some((out, watch)) = self.out {
            out.back(watch);
        }
    }

    /// Waits for room for what is in the host, and brings it back.
    pub(super) fn bring_back(mut self) {
        self.get_back(None);
        self.end();
    }
}

/// One wait for room.
pub(super) struct Growth {
    place: Place,
    away: Away,
}

impl Growth {
    /// Of the device's task.
    pub(super) fn of(session: &'static Session, task: &'static Task, device: i32) -> Growth {
        Growth {
            place: (device, task),
            away: Away::none(session),
        }
    }

    /// Asks until all that is charged is reserved, also on other devices of which memory has left meanwhile. The
    /// caller holds the right to ask.
    pub(super) fn wait(&mut self) -> Result<(), Refusal> {
        self.away.wait(Some(self.place))
    }

    /// Brings what was swapped out back: there is room for it.
    pub(super) fn end(self) {
        self.away.end();
    }

    /// Room for what was swapped out, which the program cannot do without.
    pub(super) fn get_back(&mut self) {
        self.away.get_back(Some(self.place));
    }
}

/// A device's memory that was brought to the host because it lay idle.
pub struct Evicted(Growth);

impl Evicted {
    /// Brings it there, if no work of the process is under way on its devices so soon; and the bytes that are
    /// free then.
    pub(super) fn begin(
        session: &'static Session,
        task: &'static Task,
        device: i32,
        patience: Duration,
    ) -> Option<(Evicted, u64)> {
        let mut growth = Growth::of(session, task, device);
        let freed = growth.away.make_room(growth.place, patience);
        (!growth.away.is_empty()).then_some((Evicted(growth), freed))
    }

    /// Waits until the program goes on, then for room, and brings the memory back.
    pub fn bring_back(mut self) {
        let out = |evicted: &Evicted| {
            evicted
                .0
                .away
                .out
                .as_ref()
                .is_some_and(|(out, _)| !out.is_wanted())
        };
        while out(&self) {}
        if let Some((_, watch)) = &mut self.0.away.out {
            *watch = Watch::begin(SwapKind::Restored);
        }
        let (_, task) = self.0.place;
        let _growing = task.growing.lock();
        self.0.get_back();
        self.0.end();
    }
}

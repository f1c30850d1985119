//! What is in the host while threads wait for room, of one device or several: still charged, no longer reserved.
//!
//! The thread that was first to make room keeps the program from its devices until all of it is back. Others that
//! wait meanwhile add to it, or give up room that was granted for it: it is the process's, not a thread's.

use std::time::Duration;

use mgb_core::memory::Growth;
use mgb_core::quiesce;
use mgb_core::swaps::{Spent, Watch};
use mgb_probe::trace::SwapKind;
use mgb_probe::{Grown, Refusal};
use parking_lot::Mutex;

use super::swapper::{SWAPPER, Saved, Shut};
use super::task::{self, DeviceTask, NumberedTask};
use crate::session::Session;

/// After a refusal of room for what must come back.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// A device of which memory is in the host.
struct EvictedDevice {
    place: NumberedTask,
    saved: Box<dyn Saved>,
    /// Bytes of room that it was granted again, and that nothing is in yet.
    regained: u64,
}

/// What is in the host. Nothing, unless a thread keeps the program from its devices. Held while memory leaves and
/// comes back, and not while a thread waits.
static PARTS: Mutex<Vec<EvictedDevice>> = Mutex::new(Vec::new());

/// What a thread that waits for room has done for others.
pub(super) struct Away {
    session: &'static Session,
    /// It keeps the program from its devices; and since when the memory could come back.
    shut: Option<(Box<dyn Shut>, Watch)>,
}

impl Away {
    /// A wait that has brought nothing to the host yet.
    pub(super) fn none(session: &'static Session) -> Away {
        Away { session, shut: None }
    }

    /// Brings what the device has to the host, if the process's devices come to rest so soon; or gives up the room
    /// that was granted for what is there already. The bytes that are free then.
    pub(super) fn make_room(&mut self, place: NumberedTask, patience: Duration) -> u64 {
        let (device, task) = place;
        let mut parts = PARTS.lock();
        let known = parts.iter_mut().find(|part| part.place.0 == device);
        let freed = match known {
            Some(part) => std::mem::take(&mut part.regained),
            None => {
                let Some(swapper) = SWAPPER.get() else { return 0 };
                let mut watch = Watch::begin(SwapKind::Evicted);
                let is_first = parts.is_empty();
                let mut shut = None;
                if is_first {
                    shut = swapper.close(patience);
                    if shut.is_none() {
                        return 0;
                    }
                    watch.book(Spent::Rest);
                }
                let saved = swapper.save(device, watch);
                let freed = saved.freed();
                if freed > 0 {
                    if let Some(shut) = shut {
                        self.shut = Some((shut, Watch::begin(SwapKind::Restored)));
                    }
                    parts.push(EvictedDevice {
                        place,
                        saved,
                        regained: 0,
                    });
                }
                freed
            }
        };
        let freed = {
            let mut account = task.account.lock();
            let freed = freed.min(account.reserved);
            account.reserved -= freed;
            freed
        };
        drop(parts);
        if freed > 0 {
            self.session.client.swapped(task.id, freed);
        }
        freed
    }

    /// Makes room on a GPU, where the process has something.
    pub(super) fn make_room_on(&mut self, gpu: u32) {
        if let Some(place) = task::on(gpu) {
            self.make_room(place, quiesce::QUIET_TIMEOUT);
        }
    }

    /// The device of these that lacks room, the one with the lowest number first: all processes wait in this order.
    /// What is in the host is waited for by the thread that keeps the program from it.
    fn lacks(&self, own: Option<NumberedTask>) -> Option<NumberedTask> {
        let parts = PARTS.lock();
        let waits = self.shut.is_some();
        let places = parts.iter().filter(|_| waits).map(|part| part.place);
        let lacking = places.chain(own).filter(lacks);
        lacking.min_by_key(|(_, task)| task.gpu)
    }

    /// Whether all that the task is charged, or has declared, can be on its GPU.
    fn fits(&self, task: &DeviceTask) -> bool {
        let gpu = self.session.client.hello().gpus.get(task.gpu as usize);
        let most = gpu.map_or(0, |gpu| gpu.usable_bytes.saturating_sub(gpu.context_bytes));
        task.account.lock().wanted() <= most
    }

    /// Asks until all that is charged on these devices is reserved, and on `own`, of which the caller holds the
    /// right to ask. Who has no mgbd any more goes on as it would without.
    pub(super) fn wait(&mut self, own: Option<NumberedTask>) -> Result<(), Refusal> {
        let mut growth = Growth::default();
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
            note(place, lacking, matches!(answer, Ok(Grown::Granted { .. })));
            if matches!(answer, Err(Refusal::Disconnected)) {
                return Ok(());
            }
            let fits = self.fits(task);
            growth.after(answer, fits, || self.make_room(place, quiesce::QUIET_TIMEOUT) > 0)?;
        }
        Ok(())
    }

    /// Waits until a thread of the program wants to go on.
    pub(super) fn wait_until_wanted(&mut self) {
        if let Some((shut, watch)) = &mut self.shut {
            while !shut.is_wanted() {}
            *watch = Watch::begin(SwapKind::Restored);
        }
    }

    /// Waits for room for what is in the host, which the program cannot do without, and brings it back; nothing, if
    /// another thread does. The caller holds the right to ask for `own`.
    pub(super) fn bring_back(mut self, own: Option<NumberedTask>) {
        while self.shut.is_some() {
            let waited = self.wait(own.filter(|own| is_away(*own)));
            let mut parts = PARTS.lock();
            // Another thread may have given room up meanwhile.
            let is_connected = self.session.client.is_connected();
            if waited.is_ok() && (!is_connected || !parts.iter().any(|part| lacks(&part.place))) {
                let mut watch = self
                    .shut
                    .as_mut()
                    .map(|(_, watch)| std::mem::replace(watch, Watch::begin(SwapKind::Restored)));
                for part in parts.drain(..) {
                    let watch = watch.take().unwrap_or_else(|| Watch::begin(SwapKind::Restored));
                    part.saved.back(watch);
                }
                self.shut = None;
                return;
            }
            drop(parts);
            if waited.is_err() {
                std::thread::sleep(RETRY_INTERVAL);
            }
        }
    }
}

fn lacks((_, task): &NumberedTask) -> bool {
    task.account.lock().lacking() > 0
}

fn is_away((device, _): NumberedTask) -> bool {
    PARTS.lock().iter().any(|part| part.place.0 == device)
}

/// A request for so many bytes was answered.
fn note((device, task): NumberedTask, asked: u64, is_granted: bool) {
    let mut parts = PARTS.lock();
    let mut account = task.account.lock();
    account.asked = 0;
    if is_granted {
        account.reserved += asked;
        if let Some(part) = parts.iter_mut().find(|part| part.place.0 == device) {
            part.regained += asked;
        }
    }
}

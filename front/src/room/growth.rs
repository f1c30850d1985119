//! Waiting for room, and making room for others meanwhile.

use std::time::Duration;

use mgb_probe::Refusal;

use super::away::Away;
use super::task::{DeviceTask, NumberedTask};
use crate::session::Session;

/// One wait for room.
pub(super) struct Growth {
    place: NumberedTask,
    away: Away,
}

impl Growth {
    /// Of the device's task.
    pub(super) fn of(session: &'static Session, task: &'static DeviceTask, device: i32) -> Growth {
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

    /// Brings what was swapped out back, once there is room for it: the program cannot do without.
    pub(super) fn end(self) {
        self.away.bring_back(Some(self.place));
    }
}

/// A device's memory that was brought to the host because it lay idle.
pub struct Evicted(Growth);

impl Evicted {
    /// Brings it there, if no work of the process is under way on its devices so soon; and the bytes that are
    /// free then.
    pub(super) fn begin(
        session: &'static Session,
        task: &'static DeviceTask,
        device: i32,
        patience: Duration,
    ) -> Option<(Evicted, u64)> {
        let mut growth = Growth::of(session, task, device);
        let freed = growth.away.make_room(growth.place, patience);
        (freed > 0).then_some((Evicted(growth), freed))
    }

    /// Waits until the program goes on, then for room, and brings the memory back.
    pub fn bring_back(mut self) {
        self.0.away.wait_until_wanted();
        let (_, task) = self.0.place;
        let _growing = task.growing.lock();
        self.0.end();
    }
}

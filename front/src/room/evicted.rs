//! A device's memory that was brought to the host because it lay idle.

use std::time::Duration;

use super::away::Away;
use super::task::NumberedTask;
use crate::session::Session;

/// A device's memory in the host, and the program, which is kept from its devices.
pub struct Evicted {
    place: NumberedTask,
    away: Away,
}

impl Evicted {
    /// Brings it there, if no work of the process is under way on its devices so soon; and the bytes that are
    /// free then.
    pub(super) fn begin(
        session: &'static Session,
        place: NumberedTask,
        patience: Duration,
    ) -> Option<(Evicted, u64)> {
        let mut away = Away::none(session);
        let freed = away.make_room(place, patience);
        (freed > 0).then_some((Evicted { place, away }, freed))
    }

    /// Waits until the program goes on, then for room, and brings the memory back.
    pub fn bring_back(mut self) {
        self.away.wait_until_wanted();
        let (_, task) = self.place;
        let _growing = task.growing.lock();
        self.away.bring_back(Some(self.place));
    }
}

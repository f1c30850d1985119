//! How long the loop sleeps.

use std::time::Duration;

use rustix::event::{Timespec, epoll};

use crate::daemon::restart::holder::Holder;
use crate::daemon::server::{HELLO_TIMEOUT, Server};

/// Between two samples while a request waits: foreign memory may come free.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// How often the node view is written while there are clients.
const VIEW_INTERVAL: Duration = Duration::from_millis(200);
/// The same after a change: writing it costs as much as several answers.
const CHANGES_INTERVAL: Duration = Duration::from_millis(20);
/// Between two samples while an observer is connected: only the driver shows what programs take.
const WATCHED_INTERVAL: Duration = Duration::from_millis(25);
/// Between two tries to reach a GPU that the driver could not.
const LOST_INTERVAL: Duration = Duration::from_secs(1);

impl Server {
    /// Waits for events, awake at first after a request: programs that end a task often begin
    /// the next.
    pub(crate) fn wait(&mut self, events: &mut Vec<epoll::Event>) -> rustix::io::Result<()> {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut look = |timeout: Option<&Timespec>| {
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout)
        };
        if !self.posting.is_empty() {
            return look(Some(&at_once)).map(drop);
        }
        let asked = std::mem::take(&mut self.asked);
        if asked
            && self
                .spin
                .until(|| look(Some(&at_once)).is_ok_and(|count| count > 0))
        {
            return Ok(());
        }
        let timeout = self.timeout();
        look(timeout.as_ref()).map(drop)
    }

    /// Whether it is time to see if a GPU is there again that the driver could not reach.
    pub(crate) fn is_to_look_again(&mut self, now: Duration) -> bool {
        if self.memory_monitor.lost().is_empty() || now < self.look_again {
            return false;
        }
        self.look_again = now + LOST_INTERVAL;
        true
    }

    /// When the node view is to be written next.
    pub(crate) fn shows_in(&self) -> Option<Duration> {
        let after = if self.changed {
            CHANGES_INTERVAL
        } else if self.clients.is_empty() {
            return None;
        } else if self.clients.values().any(|client| client.observer) {
            WATCHED_INTERVAL
        } else {
            VIEW_INTERVAL
        };
        Some((self.shown + after.max(self.view_writes.pause())).saturating_sub(self.now()))
    }

    /// How long to sleep at most; `None`: until something happens.
    fn timeout(&self) -> Option<Timespec> {
        let now = self.now();
        let mut next: Option<Duration> = self.reclaims.due_in(now);
        let mut sooner = |wait: Duration| next = Some(next.map_or(wait, |other| other.min(wait)));
        if let Some(wait) = self.pauses.end_in(now) {
            sooner(wait);
        }
        if let Some(wait) = self.coming.due_in(now) {
            sooner(wait);
        }
        if let Some(wait) = self.boards.drop_in(now) {
            sooner(wait);
        }
        if let Some(wait) = self.keeper.interval(now) {
            sooner(wait);
        }
        if let Some(wait) = self.service.interval(now) {
            sooner(wait);
        }
        if let Some(wait) = self.holder.as_ref().and_then(Holder::due) {
            sooner(wait);
        }
        if let Some(wait) = self.holder.as_ref().and_then(Holder::tells_in) {
            sooner(wait);
        }
        if let Some(wait) = self.history.interval(&self.broker, now) {
            sooner(wait);
        }
        if let Some(wait) = self.broker.next_turn_in(now) {
            sooner(wait);
        }
        if self.broker.waiting() || self.broker.presses() {
            sooner(SAMPLE_INTERVAL);
        }
        if let Some(wait) = self.rounds.due_in(now) {
            sooner(wait);
        }
        if let Some(every) = self.broker.shuffles() {
            sooner(every);
        }
        if !self.memory_monitor.lost().is_empty() {
            sooner(self.look_again.saturating_sub(now));
        }
        if let Some(wait) = self.shows_in() {
            sooner(wait);
        }
        if !self.guests.is_empty() {
            sooner(HELLO_TIMEOUT);
        }
        if let (Some(limit), Some(since)) = (self.config.idle_exit, self.idle) {
            sooner((since + limit).saturating_sub(now) + Duration::from_millis(1));
        }
        next.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        })
    }

    /// Whether nobody has needed it for as long as it is to stay.
    pub(crate) fn is_idle_for_long(&mut self) -> bool {
        let now = self.now();
        // That a GPU is drained would be forgotten.
        let busy = self.clients.values().any(|client| !client.observer)
            || !self.guests.is_empty()
            || self.broker.has_drained();
        if busy {
            self.idle = None;
            return false;
        }
        let since = *self.idle.get_or_insert(now);
        self.config
            .idle_exit
            .is_some_and(|limit| now.saturating_sub(since) >= limit)
    }
}

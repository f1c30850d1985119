//! How long the loop sleeps.

use std::time::Duration;

use rustix::event::epoll::Event;

use crate::daemon::server::Server;

/// Between two samples while a request waits: foreign memory may come free.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

impl Server {
    /// Waits for events.
    pub(crate) fn wait(&mut self, events: &mut Vec<Event>) -> rustix::io::Result<()> {
        if self.poll.take_soon(events, !self.clients.are_posting())? {
            return Ok(());
        }
        let most = self.timeout();
        self.poll.sleep(events, most)
    }

    /// How long until the node view is to be written next.
    pub(crate) fn shows_in(&self) -> Option<Duration> {
        self.view.due_in(&self.clients, self.now())
    }

    /// How long to sleep at most; `None`: until something happens.
    fn timeout(&self) -> Option<Duration> {
        let now = self.now();
        let is_sampling = self.broker.waiting() || self.broker.presses();
        let idle = self.config.idle_exit.zip(self.clients.idle_since());
        let ends_in = |(limit, since): (Duration, Duration)| {
            (since + limit).saturating_sub(now) + Duration::from_millis(1)
        };
        [
            self.monitor.reclaims().due_in(now),
            self.monitor.retries_in(now),
            self.clients.hears_in(now),
            self.clients.fds().interval(now),
            self.accept.due_in(now),
            self.view.drops_in(now),
            self.shows_in(),
            self.service.interval(now),
            self.restart.due_in(&self.broker, now),
            self.usage.due_in(now),
            self.broker.next_turn_in(now),
            self.broker.shuffles(),
            is_sampling.then_some(SAMPLE_INTERVAL),
            self.rounds.due_in(now),
            self.paces.due_in(now),
            idle.map(ends_in),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether nobody has needed it for as long as it is to stay.
    pub(crate) fn is_idle_for_long(&mut self) -> bool {
        let now = self.now();
        // That a GPU is drained would be forgotten.
        let busy = self.clients.values().any(|client| !client.observer)
            || self.accept.len() > 0
            || self.broker.has_drained();
        let since = self.clients.set_idle((!busy).then_some(now));
        since
            .zip(self.config.idle_exit)
            .is_some_and(|(since, limit)| now.saturating_sub(since) >= limit)
    }
}

//! What the loop waits for: an epoll, awake at first after a request, since programs that end a task often begin the
//! next.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use mgb_probe::Spin;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::io::Result;

use crate::daemon::source::EventSource;

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// How a client's socket is watched.
pub(crate) const SOCKET: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
/// How its doorbell is: edge-triggered and never read, since a client can take the number out of its eventfd,
/// and a read of it could then block.
pub(crate) const DOORBELL: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// The sources that are watched.
pub(crate) struct Poll {
    epoll: OwnedFd,
    /// Watched as long as it is open.
    _stop: OwnedFd,
    /// A client asked for something since the last wait.
    is_asked: bool,
    spin: Spin,
}

impl Poll {
    /// An epoll that watches for the order to stop.
    pub(crate) fn new(stop: OwnedFd) -> Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &stop, EventSource::Stop.data(), EventFlags::IN)?;
        Ok(Poll {
            epoll,
            _stop: stop,
            is_asked: false,
            spin: Spin::default(),
        })
    }

    /// Watches a file from now on.
    pub(crate) fn watch(&self, file: impl AsFd, source: EventSource, flags: EventFlags) -> Result<()> {
        epoll::add(&self.epoll, file, source.data(), flags)
    }

    /// Watches a file for something else. False: it is not watched.
    pub(crate) fn watch_for(&self, file: impl AsFd, source: EventSource, flags: EventFlags) -> bool {
        epoll::modify(&self.epoll, file, source.data(), flags).is_ok()
    }

    /// Watches a file no longer.
    pub(crate) fn unwatch(&self, file: impl AsFd) {
        let _ = epoll::delete(&self.epoll, file);
    }

    /// A client asked for something: the next wait begins awake.
    pub(crate) fn was_asked(&mut self) {
        self.is_asked = true;
    }

    /// Takes the events that are there. With `true` the loop is not to sleep: there are some, or it does not wait,
    /// or it was asked and something came soon.
    pub(crate) fn take_soon(&mut self, events: &mut Vec<Event>, waits: bool) -> Result<bool> {
        let mut take = || {
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(events),
                Some(&AT_ONCE),
            )
        };
        if !waits {
            return take().map(|_| true);
        }
        let is_asked = std::mem::take(&mut self.is_asked);
        Ok(is_asked && self.spin.until(|| take().is_ok_and(|count| count > 0)))
    }

    /// Sleeps until there are events, so long at most; `None`: however long that takes.
    pub(crate) fn sleep(&self, events: &mut Vec<Event>, most: Option<Duration>) -> Result<()> {
        let most = most.map(|most| Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: most.subsec_nanos().into(),
        });
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), most.as_ref()).map(drop)
    }
}

//! Calls through the channel, from the client's side: take a cell, post it,
//! wait for the answer.
//!
//! A wait spins for a bounded time (most answers come at once when a core is
//! free) and then sleeps on the cell's state as a futex. Where spinning was in
//! vain it is left out for the next calls: more callers than cores would only
//! keep each other and `mgbd` from running. No wake is lost ([`crate::wire::state`]);
//! the timeout only serves to look whether `mgbd` is still there.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::adaptive_wait::Spin;
use crate::binder::binder;
use crate::mapping::Mapping;
use crate::signals::{self, SignalWatch};
use crate::wire::state::{clear, is_answered, post, sleep};
use crate::wire::{CELLS, Channel, MOST_KEPT, Reply, Request};

/// When a sleeping caller first looks whether `mgbd` is alive: no call asks before, since most are answered
/// by then.
const FIRST_CHECK: Duration = Duration::from_millis(2);
/// How often it looks from then on.
const LIFE_CHECK: Duration = Duration::from_secs(1);
/// How often a caller that waits for room looks whether it is to wait any longer.
const WISH_CHECK: Duration = Duration::from_millis(50);

/// `mgbd` is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

pub(crate) struct Cells {
    mapping: Mapping,
    doorbell: OwnedFd,
    socket: OwnedFd,
    taken: Mutex<Taken>,
    freed: Condvar,
    spin: Spin,
    /// `mgbd` was found to have hung up, which is for ever.
    hung_up: AtomicBool,
}

/// Why a caller waits for room.
pub(crate) struct Wish<'a> {
    /// Whether it still has to.
    pub(crate) lasts: &'a dyn Fn() -> bool,
    /// What tells `mgbd` that it has not.
    pub(crate) withdrawal: Request,
}

/// Cells by bit.
struct Taken {
    free: u64,
    /// Posted by somebody who does not wait for the answer.
    told: u64,
}

/// Cells that calls without an answer leave to those with one.
const KEPT: u32 = 8;
/// How often to look for such an answer when every cell is taken.
const ANSWER_INTERVAL: Duration = Duration::from_millis(1);
/// How often a call that waits for a cell looks whether `mgbd` is alive.
const FULL_CHECK: Duration = Duration::from_secs(1);

impl Cells {
    pub(crate) fn new(mapping: Mapping, doorbell: OwnedFd, socket: OwnedFd) -> Cells {
        Cells {
            mapping,
            doorbell,
            socket,
            taken: Mutex::new(Taken {
                free: u64::MAX,
                told: 0,
            }),
            freed: Condvar::new(),
            spin: Spin::default(),
            hung_up: AtomicBool::new(false),
        }
    }

    pub(crate) fn channel(&self) -> &Channel {
        self.mapping.shared().expect("the channel was mapped whole")
    }

    /// A cell for a call, told of without an answer or with one. `None`: such a
    /// call has to wait for its answer, for too many do not. Waits while all cells
    /// are taken, and looks now and then whether `mgbd` is still there: calls that
    /// find it gone keep their cells.
    fn claim(&self, told: bool) -> Result<Option<usize>, Gone> {
        let mut taken = self.taken.lock();
        loop {
            self.collect(&mut taken);
            if told && taken.free.count_ones() <= KEPT {
                return Ok(None);
            }
            if taken.free != 0 {
                break;
            }
            if self.gone() {
                return Err(Gone);
            }
            let patience = if taken.told == 0 {
                FULL_CHECK
            } else {
                ANSWER_INTERVAL
            };
            self.freed.wait_for(&mut taken, patience);
        }
        let at = taken.free.trailing_zeros() as usize;
        taken.free &= !(1 << at);
        if told {
            taken.told |= 1 << at;
        }
        Ok(Some(at))
    }

    /// Takes back cells whose answer nobody waits for, where it has come.
    fn collect(&self, taken: &mut Taken) {
        let told = taken.told;
        for at in (0..CELLS).filter(|at| told & (1 << at) != 0) {
            let state = &self.channel().cells[at].state;
            if is_answered(state) {
                clear(state);
                taken.told &= !(1 << at);
                taken.free |= 1 << at;
            }
        }
    }

    fn release(&self, at: usize) {
        self.taken.lock().free |= 1 << at;
        self.freed.notify_one();
    }

    /// Fills the cell and posts it.
    fn post(&self, at: usize, request: &Request) {
        debug_assert!(at < CELLS);
        let channel = self.channel();
        let cell = &channel.cells[at];
        request.encode(cell);
        cell.seq.fetch_add(1, Ordering::Relaxed);
        post(&cell.state);
        channel.posted.fetch_or(1 << at, Ordering::Release);
        self.ring();
    }

    /// A call whose answer says nothing: does not wait for it. `mgbd` takes it
    /// before, or together with, whatever this process posts later.
    pub(crate) fn tell(&self, request: &Request) {
        match self.claim(true) {
            Ok(Some(at)) => self.post(at, request),
            Ok(None) => drop(self.call(request)),
            Err(Gone) => {}
        }
    }

    /// Sends a message on the socket, with descriptors. Errors: `mgbd` is gone, or too many descriptors are
    /// under way.
    pub(crate) fn send(&self, message: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_KEPT))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(Errno::TOOMANYREFS);
        }
        let message = [IoSlice::new(message)];
        rustix::net::sendmsg(&self.socket, &message, &mut control, SendFlags::NOSIGNAL).map(drop)
    }

    /// Whether `mgbd` hung up. What it may say on the socket after the hello is only another one, of an
    /// `mgbd` that took over and does not know whether the first was heard.
    pub(crate) fn gone(&self) -> bool {
        if self.hung_up.load(Ordering::Relaxed) {
            return true;
        }
        let mut byte = [0; 1];
        let gone = loop {
            match rustix::net::recv(&self.socket, &mut byte, RecvFlags::DONTWAIT) {
                Ok((_, 1..)) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break false,
                Ok(_) | Err(_) => break true,
            }
        };
        if gone {
            self.hung_up.store(true, Ordering::Relaxed);
        }
        gone
    }

    /// One call. Blocks until it is answered.
    pub(crate) fn call(&self, request: &Request) -> Result<Option<Reply>, Gone> {
        self.call_while(request, None)
    }

    /// As [`Cells::call`]; withdraws the request where it is not wanted any more.
    pub(crate) fn call_while(
        &self,
        request: &Request,
        wish: Option<&Wish<'_>>,
    ) -> Result<Option<Reply>, Gone> {
        if self.hung_up.load(Ordering::Relaxed) {
            return Err(Gone);
        }
        let Some(at) = self.claim(false)? else {
            return Err(Gone);
        };
        let cell = &self.channel().cells[at];
        // Before anybody can see that it waits: a signal from then on is to end that.
        let watched = wish.map(|wish| (wish, signals::watch()));
        self.post(at, request);
        if !self.wait(at, request.asks_for_room(), watched) {
            // The cell stays taken: whoever wakes up later may still write it.
            self.freed.notify_all();
            return Err(Gone);
        }
        let reply = Reply::decode(cell);
        clear(&cell.state);
        self.release(at);
        Ok(reply)
    }

    pub(crate) fn ring(&self) {
        // The counter cannot overflow: 2^64 - 2 calls. An interrupted write is
        // the one thing to repeat.
        while rustix::io::write(self.doorbell.as_fd(), &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }

    /// Waits for the answer, the binder knowing about it or not; false if `mgbd` went away without one.
    fn wait(&self, at: usize, known: bool, mut wanted: Option<(&Wish<'_>, SignalWatch)>) -> bool {
        let state = &self.channel().cells[at].state;
        if self.spin.until(|| is_answered(state)) {
            return true;
        }
        let mut patience = FIRST_CHECK;
        let mut waited = Duration::ZERO;
        while !is_answered(state) {
            if !sleep(state, patience) {
                if self.gone() {
                    return is_answered(state);
                }
                waited += patience;
                if waited >= LIFE_CHECK
                    && known
                    && let Some(binder) = binder()
                {
                    binder.still_waiting();
                    waited = Duration::ZERO;
                }
                patience = if wanted.is_some() { WISH_CHECK } else { LIFE_CHECK };
            }
            let is_over = |(wish, watch): &mut (&Wish<'_>, SignalWatch)| {
                !is_answered(state) && (watch.is_over() || !(wish.lasts)())
            };
            if let Some((wish, _)) = wanted.take_if(is_over) {
                // The answer to the request itself is still to come.
                self.tell(&wish.withdrawal);
                patience = LIFE_CHECK;
            }
        }
        true
    }
}

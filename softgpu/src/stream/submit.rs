//! Giving work to a stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{Begun, DeviceStream, Fence, StreamOp, Turn, in_order, latest, number};
use super::worker;
use crate::clock;
use crate::time::host;

/// What work does, with what it may borrow.
type WorkBody<'a> = Box<dyn FnOnce(&mut Turn) + Send + 'a>;

impl DeviceStream {
    /// Submits work that runs after `fences`; the caller goes on.
    pub fn submit(
        self: &Arc<Self>,
        fences: Vec<Fence>,
        run: impl FnOnce(&mut Turn) + Send + 'static,
    ) -> Fence {
        self.push(fences, false, Box::new(run))
    }

    /// The same for work that the host sees: a callback.
    pub fn submit_visible(
        self: &Arc<Self>,
        fences: Vec<Fence>,
        run: impl FnOnce(&mut Turn) + Send + 'static,
    ) -> Fence {
        self.push(fences, true, Box::new(run))
    }

    /// Runs work in its turn and waits for it; in the caller's thread where nothing is before it.
    pub fn run<T: Send>(self: &Arc<Self>, fences: Vec<Fence>, run: impl FnOnce(&mut Turn) -> T + Send) -> T {
        if let Some(Begun { ticket, number, end }) = self.begin(&fences) {
            let mut turn = self.turn(host::asks().max(latest(&fences)));
            let result = in_order(number, || run(&mut turn));
            end.store(turn.end, Ordering::Relaxed);
            host::waited(turn.end);
            clock::sleep_until(turn.end);
            let mut queue = self.queue.lock();
            queue.horizon = turn.end;
            queue.finished = ticket;
            queue.running = false;
            drop(queue);
            self.done.notify_all();
            self.work.notify_all();
            return result;
        }
        let mut slot = None;
        {
            let body = |turn: &mut Turn| slot = Some(run(turn));
            let body: WorkBody<'_> = Box::new(body);
            // SAFETY: only the lifetime is changed; the closure has run and is gone when the fence
            // has passed, which is waited for while `slot` and what `run` borrows are still there.
            let body = unsafe { std::mem::transmute::<WorkBody<'_>, WorkBody<'static>>(body) };
            self.push(fences, false, body).host_wait();
        }
        slot.expect("work that has been waited for has run")
    }

    /// Takes the stream for work in the caller's thread, if nothing is before it.
    fn begin(&self, fences: &[Fence]) -> Option<Begun> {
        if !fences.iter().all(Fence::passed) {
            return None;
        }
        let mut queue = self.queue.lock();
        if queue.running || !queue.waiting.is_empty() || queue.finished < queue.submitted {
            return None;
        }
        queue.running = true;
        Some(Begun {
            ticket: queue.next(),
            number: number(),
            end: queue.last.clone(),
        })
    }

    fn push(self: &Arc<Self>, fences: Vec<Fence>, visible: bool, run: WorkBody<'static>) -> Fence {
        let mut queue = self.queue.lock();
        let (ticket, end) = (queue.next(), queue.last.clone());
        queue.waiting.push_back(StreamOp {
            ticket,
            number: number(),
            end: end.clone(),
            submitted_at: host::asks(),
            fences,
            visible,
            run,
        });
        if !queue.served {
            queue.served = true;
            worker::start(self.clone());
        }
        drop(queue);
        self.work.notify_one();
        Fence {
            stream: self.clone(),
            ticket,
            end,
        }
    }
}

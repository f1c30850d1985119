//! Models of a cell: all orders in which the client's threads and `mgbd` can take their steps.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::*;
use crate::sync::AtomicU64;

/// A cell of the channel. That a request or reply is read while it is written is an error of the model.
#[derive(Default)]
struct Model {
    posted: AtomicU64,
    state: AtomicU32,
    request: UnsafeCell<u64>,
    reply: UnsafeCell<u64>,
    /// The eventfd: how often it was rung.
    bell: (Mutex<u32>, Condvar),
    /// Of the client's threads: who has the cell.
    taken: (Mutex<bool>, Condvar),
}

// SAFETY: the protocol under test is what keeps two threads from the cells' contents at once; loom checks it.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    /// A call as `Cells::call` makes it.
    fn call(&self, request: u64) -> u64 {
        let mut taken = self.taken.0.lock().unwrap();
        while *taken {
            taken = self.taken.1.wait(taken).unwrap();
        }
        *taken = true;
        drop(taken);
        // SAFETY: the model has one memory, valid as long as it.
        self.request.with_mut(|to| unsafe { *to = request });
        post(&self.state);
        self.posted.fetch_or(1, Ordering::Release);
        *self.bell.0.lock().unwrap() += 1;
        self.bell.1.notify_one();
        while !is_answered(&self.state) {
            sleep(&self.state, Duration::ZERO);
        }
        // SAFETY: as above.
        let reply = self.reply.with(|from| unsafe { *from });
        clear(&self.state);
        *self.taken.0.lock().unwrap() = false;
        self.taken.1.notify_one();
        reply
    }

    /// `mgbd`, until it has answered so many calls.
    fn serve(&self, calls: u32) {
        let (mut heard, mut answered) = (0, 0);
        while answered < calls {
            let mut rung = self.bell.0.lock().unwrap();
            while *rung == heard {
                rung = self.bell.1.wait(rung).unwrap();
            }
            heard = *rung;
            drop(rung);
            if self.posted.swap(0, Ordering::Acquire) != 0 {
                assert!(is_posted(&self.state), "a posted cell is filled");
                // SAFETY: as above.
                let request = self.request.with(|from| unsafe { *from });
                // SAFETY: as above.
                self.reply.with_mut(|to| unsafe { *to = request + 100 });
                answer(&self.state);
                answered += 1;
            }
        }
    }
}

#[test]
fn a_cell_used_twice_wakes_its_caller_each_time() {
    loom::model(|| {
        let model = Arc::new(Model::default());
        let mgbd = model.clone();
        let mgbd = thread::spawn(move || mgbd.serve(2));
        for request in [1, 2] {
            assert_eq!(model.call(request), request + 100);
        }
        mgbd.join().unwrap();
    });
}

/// A wake that comes late meets the next caller.
#[test]
fn two_threads_share_a_cell() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(|| {
        let model = Arc::new(Model::default());
        let (mgbd, other) = (model.clone(), model.clone());
        let mgbd = thread::spawn(move || mgbd.serve(2));
        let other = thread::spawn(move || assert_eq!(other.call(2), 102));
        assert_eq!(model.call(1), 101);
        other.join().unwrap();
        mgbd.join().unwrap();
    });
}

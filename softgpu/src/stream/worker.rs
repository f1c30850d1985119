//! A stream's thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::{AHEAD, DeviceStream, Fence, StreamOp, Turn, in_order, latest};
use crate::clock;
use crate::time::host;

/// Starts the thread of a stream.
pub fn start(stream: Arc<DeviceStream>) {
    crate::exec::threads::spawn("softgpu-stream", move || serve(&stream));
}

fn serve(stream: &Arc<DeviceStream>) {
    let mut executed = None;
    while let Some(op) = next(stream, &mut executed) {
        let ticket = op.ticket;
        run(stream, op, &mut executed);
        executed = Some(ticket);
    }
}

/// Takes the next work; while there is none, publishes what is done and waits. `None`: the end.
fn next(stream: &DeviceStream, executed: &mut Option<u64>) -> Option<StreamOp> {
    loop {
        let mut queue = stream.queue.lock();
        // A caller may be running work of its own; then this thread has none unpublished.
        let turn = if executed.is_some() {
            queue.horizon <= clock::now() + AHEAD
        } else {
            !queue.running
        };
        if turn && let Some(op) = queue.waiting.pop_front() {
            queue.running = true;
            return Some(op);
        }
        if executed.is_some() {
            drop(queue);
            publish(stream, executed);
            continue;
        }
        if queue.closing && queue.waiting.is_empty() {
            return None;
        }
        stream.work.wait(&mut queue);
    }
}

fn run(stream: &DeviceStream, op: StreamOp, executed: &mut Option<u64>) {
    let early = op.number.is_some_and(|number| !host::ORDER.due(number));
    if op.visible || early || op.fences.iter().any(|fence| !fence.passed()) {
        // Others may wait for what this stream has done before they get to what it waits for.
        publish(stream, executed);
        op.fences.iter().for_each(Fence::wait);
        stream.queue.lock().running = true;
    }
    let mut turn: Turn = stream.turn(op.submitted_at.max(latest(&op.fences)));
    in_order(op.number, || {
        let _busy = crate::exec::threads::busy();
        (op.run)(&mut turn);
    });
    op.end.store(turn.end, Ordering::Relaxed);
    stream.queue.lock().horizon = turn.end;
}

/// Waits for the clock to catch up, then says what is done.
fn publish(stream: &DeviceStream, executed: &mut Option<u64>) {
    let Some(ticket) = executed.take() else { return };
    let horizon = stream.queue.lock().horizon;
    clock::sleep_until(horizon);
    let mut queue = stream.queue.lock();
    queue.finished = ticket;
    queue.running = false;
    drop(queue);
    stream.done.notify_all();
}

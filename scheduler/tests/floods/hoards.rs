//! What hostile processes fill `mgbd` with, as far as it lets them, and then stay.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgb_probe::wire::{ANSWERED, CELLS, CHANNEL_BYTES, IDLE, Op, Opening, Reply};

use super::GIB;
use super::attacks::{begun, intrude, ready};
use super::serve::TOTAL;
use crate::raw::{Intruder, SEALS, bell, connect, memory, request, try_send};

/// Clients of each kind.
const CLIENTS: usize = 128;
/// Clients with a task: as many as one of several users may have on two GPUs, half of MPS's places on each.
const BEGUN: usize = 48;

/// Clients that are let in and ask, and look at nothing of what they are told.
pub fn never_reads(path: &Path) {
    let mut open = VecDeque::new();
    begun(|| {
        let Ok(socket) = connect(path) else { return };
        let (memory, doorbell) = (memory(CHANNEL_BYTES, SEALS), bell());
        let opening = Opening::new(0, 0).encode();
        let _ = try_send(&socket, &opening, &[memory.as_fd(), doorbell.as_fd()]);
        let intruder = Intruder::again(socket, doorbell, memory);
        for at in 0..CELLS {
            intruder.fill(at, &request(Op::End, at as u64, 1));
        }
        intruder.ring();
        open.push_back(intruder);
        if open.len() > CLIENTS {
            open.pop_front();
        }
    });
}

/// The reply to what was posted in a cell.
fn reply(intruder: &Intruder, cell: usize) -> Option<Reply> {
    let cell = &intruder.channel().cells[cell];
    while cell.state.load(Ordering::Acquire) != ANSWERED {
        if intruder.is_gone() {
            return None;
        }
        std::thread::yield_now();
    }
    cell.state.store(IDLE, Ordering::Release);
    Reply::decode(cell)
}

/// Begins tasks until it is told that they are too many.
fn fill(intruder: &Intruder) {
    for first in (1..).step_by(CELLS) {
        for at in 0..CELLS {
            intruder.fill(at, &request(Op::Begin, first + at as u64, 1));
        }
        intruder.ring();
        let granted = (0..CELLS).filter(|&at| matches!(reply(intruder, at), Some(Reply::Granted { .. })));
        if granted.count() < CELLS {
            return;
        }
    }
}

/// Clients with as many tasks as they are granted; the last one begins and ends one more all the time.
pub fn tasks(path: &Path) {
    let clients: Vec<Intruder> = (0..4).map(|_| intrude(path, 0)).collect();
    for client in &clients {
        fill(client);
    }
    let last = &clients[clients.len() - 1];
    begun(|| {
        for op in [Op::End, Op::Begin] {
            last.post(0, &request(op, 1, 1));
            reply(last, 0);
        }
        std::thread::sleep(Duration::from_millis(1));
    });
}

/// As many clients as a large node has processes, none of which has begun a task.
pub fn crowd(path: &Path) {
    let clients: Vec<Intruder> = (0..1000).map(|_| intrude(path, 0)).collect();
    stay(&clients);
}

/// Clients that each have a task, and wait for all the rest of its GPU.
pub fn growths(path: &Path) {
    let clients: Vec<Intruder> = (0..BEGUN).map(|_| intrude(path, 0)).collect();
    for client in &clients {
        client.post(0, &request(Op::Begin, 1, 1));
        reply(client, 0);
    }
    // Where one waits to grow, nobody new begins.
    for client in &clients {
        client.post(1, &request(Op::Grow, 1, TOTAL - GIB));
    }
    stay(&clients);
}

/// Clients that each wait in all cells for a GPU that others use.
pub fn queue(path: &Path) {
    let clients: Vec<Intruder> = (0..CLIENTS).map(|_| intrude(path, 0)).collect();
    for client in &clients {
        for at in 0..CELLS {
            client.fill(at, &request(Op::Begin, at as u64 + 1, TOTAL - GIB));
        }
        client.ring();
    }
    stay(&clients);
}

fn stay(_clients: &[Intruder]) {
    ready();
    loop {
        std::thread::park();
    }
}

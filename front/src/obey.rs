//! What mgbd orders this process to do at any time; the agent's thread does it.

use std::sync::mpsc;

use mgb_core::agent::{self, Done, Duties};
use mgb_core::{own_thread, quiesce};
use mgb_probe::wire::Order;

use crate::{room, session};

/// Has mgbd's orders obeyed from here on: the process has a context.
pub fn start() {
    if let Some(session) = session::get() {
        // A thread of its own looks at the work.
        let look = || {};
        agent::start(
            session.client,
            Duties {
                obey,
                look,
                gpus: room::gpus,
            },
        );
    }
}

fn obey(order: Order) -> Done {
    let (gpu, patience) = match order {
        Order::Evict { gpu } => (gpu, quiesce::IDLE_TIMEOUT),
        Order::Suspend { gpu } => (gpu, quiesce::SUSPEND_TIMEOUT),
        // Nothing is proven of the program: it stays where it is.
        Order::Move { .. } => return Done::default(),
    };
    // Who makes room keeps the program from its devices until all of it is back. Orders come meanwhile.
    let (says, heard) = mpsc::sync_channel(1);
    let evict = move || {
        let evicted = room::evict(gpu, patience);
        let _ = says.send(evicted.as_ref().map_or(0, |(_, freed)| *freed));
        if let Some((evicted, _)) = evicted {
            evicted.bring_back();
        }
    };
    // Where there is no thread, nothing leaves.
    let started = own_thread::start("mgb-away", evict);
    Done {
        freed: started.and_then(|_| heard.recv().ok()).unwrap_or(0),
    }
}

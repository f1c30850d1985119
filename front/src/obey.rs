//! What mgbd orders this process to do at any time; the agent's thread does it.

use mgb_core::agent::{self, Done, Duties};
use mgb_core::stillness;
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
        Order::Evict { gpu } => (gpu, stillness::BRIEFLY),
        Order::Suspend { gpu } => (gpu, stillness::SUSPENDED),
        // Nothing is proven of the program: it stays where it is.
        Order::Move { .. } => return Done::default(),
    };
    match room::evict(gpu, patience) {
        Some((evicted, freed)) => Done {
            freed,
            then: Some(Box::new(|| evicted.bring_back())),
        },
        None => Done::default(),
    }
}

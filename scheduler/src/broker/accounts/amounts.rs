//! What clients have, in the amounts that quotas count.

use mgb_probe::wire::{Op, Request};

use crate::broker::books::Books;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::{Holding, TaskKey};
use crate::quota::Amount;

/// What a client that has a GPU for itself has by that, beside its context there.
pub(super) fn whole_gpu(books: &Books, client: ClientId, gpu: usize) -> Amount {
    let info = &books.ledger.gpus()[gpu];
    let beside = info
        .context_bytes
        .saturating_add(books.ledger.taken_by(client, gpu));
    Amount {
        bytes: info.usable_bytes.saturating_sub(beside),
        alone: 1,
        ..Amount::default()
    }
}

/// What a task has. What a process has where it has the GPU for itself is part of the whole GPU.
pub(super) fn of_task(books: &Books, key: TaskKey, holding: &Holding, has_it_alone: bool) -> Amount {
    let arrival = books.ledger.arrival(key).map_or(0, |arrival| arrival.bytes);
    let is_at_rest = !holding.running || books.is_suspended(key.client);
    let there = if has_it_alone { 0 } else { holding.reserved };
    Amount {
        bytes: there.saturating_add(arrival),
        tasks: u64::from(!is_at_rest),
        swap: holding.evicted,
        ..Amount::default()
    }
}

/// What a client has of all that quotas count.
pub(in crate::broker) fn of_client(books: &Books, client: ClientId) -> Amount {
    let tasks = || books.ledger.tasks_of(client);
    let alone = tasks().filter(|(_, holding)| holding.keeps_others_out());
    let alone: GpuSet = alone.map(|(_, holding)| holding.gpu).collect();
    let tasks = tasks().map(|(key, holding)| of_task(books, key, holding, alone.contains(holding.gpu)));
    let whole = books.among(alone).map(|gpu| whole_gpu(books, client, gpu));
    tasks.chain(whole).fold(of_contexts(books, client), Amount::and)
}

/// What a client has beside its tasks.
pub(super) fn of_contexts(books: &Books, client: ClientId) -> Amount {
    let contexts = books.ledger.contexts_of(client).map(|gpu| Amount {
        bytes: books.ledger.gpus()[gpu].context_bytes + books.ledger.taken_by(client, gpu),
        gpus: GpuSet::of(gpu),
        processes: 1,
        ..Amount::default()
    });
    contexts.fold(Amount::default(), Amount::and)
}

/// What a request asks for on a GPU, which the client has for itself already or not.
pub(super) fn of_request(
    books: &Books,
    key: TaskKey,
    request: &Request,
    gpu: usize,
    is_alone: bool,
) -> Amount {
    let begins = request.op == Op::Begin;
    let wants_alone = begins && books.wants_alone(request);
    let bytes = if is_alone {
        // All of the GPU is its user's already.
        0
    } else if wants_alone {
        rest_of_gpu(books, key.client, gpu)
    } else if begins {
        books.ledger.cost(key.client, gpu, request.need.reserved_bytes())
    } else {
        request.bytes
    };
    Amount {
        bytes,
        tasks: u64::from(begins),
        gpus: GpuSet::of(gpu),
        processes: u64::from(!books.ledger.has_context(key.client, gpu)),
        alone: u64::from(wants_alone && !is_alone),
        swap: 0,
    }
}

/// Bytes of a GPU beside what a client has there.
fn rest_of_gpu(books: &Books, client: ClientId, gpu: usize) -> u64 {
    let info = &books.ledger.gpus()[gpu];
    let tasks = books
        .ledger
        .tasks_of(client)
        .filter(|(_, holding)| holding.gpu == gpu);
    let context = if books.ledger.has_context(client, gpu) {
        info.context_bytes + books.ledger.taken_by(client, gpu)
    } else {
        0
    };
    let has = tasks.fold(context, |sum, (_, holding)| sum.saturating_add(holding.reserved));
    info.usable_bytes.saturating_sub(has)
}

/// The amount of so many bytes in the host.
pub(super) fn swapped(bytes: u64) -> Amount {
    Amount {
        swap: bytes,
        ..Amount::default()
    }
}

//! What the process holds on each device, charged at mgbd before the driver is asked for it: a task for each
//! device, which grows with what is allocated there. Growing waits until there is room.

use std::collections::HashMap;

use mgb_probe::need::{GRANULE, LAZY, Need};
use mgb_probe::{BeginRequest, Client, First, Grant, Grown, Refusal, TaskId};
use parking_lot::{Mutex, RwLock};

use crate::{notice, session};

/// Room that a task keeps beyond what it holds, so that a program which allocates and frees in turn does not
/// ask mgbd each time.
const SPARE: u64 = 32 << 20;
/// The largest allocation that is charged, in bytes: far more than any GPU has, and sums of it do not
/// overflow.
pub const MOST: u64 = 1 << 50;
/// How often in a row a task may be asked to make room, which a program that was not rebuilt cannot.
const ASKED: u32 = 8;

/// A device's task.
struct Task {
    id: TaskId,
    gpu: u32,
    account: Mutex<Account>,
    /// Held by the thread that asks mgbd: it expects one request of a task at a time.
    growing: Mutex<()>,
}

/// Its bytes.
#[derive(Default)]
struct Account {
    reserved: u64,
    /// In allocations of a granule or more, each in whole granules.
    large: u64,
    /// In smaller ones, which share granules.
    small: u64,
}

impl Account {
    fn held(&self) -> u64 {
        self.large + to_granules(self.small)
    }

    fn add(&mut self, bytes: u64) {
        *self.part(bytes) += rounded(bytes);
    }

    fn remove(&mut self, bytes: u64) {
        let part = self.part(bytes);
        *part = part.saturating_sub(rounded(bytes));
    }

    fn part(&mut self, bytes: u64) -> &mut u64 {
        if bytes < GRANULE {
            &mut self.small
        } else {
            &mut self.large
        }
    }
}

/// Held by the thread that begins a task: a device has one.
static BEGINNING: Mutex<()> = Mutex::new(());

/// The tasks, by the program's number of their device.
static TASKS: RwLock<Option<HashMap<i32, &'static Task>>> = RwLock::new(None);

fn rounded(bytes: u64) -> u64 {
    if bytes < GRANULE {
        bytes.next_multiple_of(512)
    } else {
        to_granules(bytes)
    }
}

fn to_granules(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX / 2)
}

fn request(gpu: Option<u32>) -> BeginRequest<'static> {
    BeginRequest {
        need: Need {
            flags: LAZY,
            ..Need::default()
        },
        gpu,
        ..BeginRequest::default()
    }
}

fn note(device: i32, grant: &Grant) {
    let task: &'static Task = Box::leak(Box::new(Task {
        id: grant.task,
        gpu: grant.gpu,
        account: Mutex::new(Account {
            reserved: grant.reserved_bytes,
            ..Account::default()
        }),
        growing: Mutex::new(()),
    }));
    TASKS.write().get_or_insert_default().insert(device, task);
}

/// Begins the task of the program's first device, wherever mgbd puts it, unless another process of its job has
/// decided where the devices are. Their GPUs, in order; `None`: it was refused.
pub fn first(client: &'static Client) -> Option<Vec<u32>> {
    match client.begin_first(&request(None)) {
        Ok(First { order, grant }) => {
            if let Some(grant) = &grant {
                note(0, grant);
            }
            Some(order)
        }
        // No shared GPU is visible to the program, which may hide them all from itself.
        Err(Refusal::NoGpu) => None,
        Err(refusal) => {
            notice::once(
                "refused",
                format_args!("failed to place the program: {refusal}; it runs natively"),
            );
            None
        }
    }
}

fn task(device: i32) -> Option<&'static Task> {
    TASKS.read().as_ref()?.get(&device).copied()
}

/// Begins a device's task, if it has none: something is to be made there.
pub fn begin(device: i32) {
    let Some(session) = session::get() else { return };
    if task(device).is_some() {
        return;
    }
    let _beginning = BEGINNING.lock();
    if task(device).is_some() {
        return;
    }
    let gpu = usize::try_from(device).ok().and_then(|at| session.gpus.get(at));
    let Some(&gpu) = gpu else { return };
    match session.client.begin(&request(Some(gpu))) {
        Ok(grant) => note(device, &grant),
        Err(refusal) => notice::once(
            "refused",
            format_args!(
                "failed to reserve room on device {device}: {refusal}; what it takes there is not charged"
            ),
        ),
    }
}

/// A context was made on the device.
pub fn context_made(device: i32) {
    if let (Some(session), Some(task)) = (session::get(), task(device)) {
        session.client.published().context_made(task.gpu);
    }
}

/// Charges the device's task, and waits until there is room. False: there will be none.
pub fn charge(device: i32, bytes: u64) -> bool {
    let (Some(session), Some(task)) = (session::get(), task(device)) else {
        return true;
    };
    {
        let mut account = task.account.lock();
        account.add(bytes);
        if account.held() <= account.reserved {
            return true;
        }
    }
    let _growing = task.growing.lock();
    let mut asked = 0;
    loop {
        let lacking = {
            let account = task.account.lock();
            account.held().saturating_sub(account.reserved)
        };
        if lacking == 0 {
            return true;
        }
        match session.client.grow(task.id, lacking) {
            Ok(Grown::Granted { .. }) => task.account.lock().reserved += lacking,
            Ok(Grown::SwapOut) if asked < ASKED => asked += 1,
            Ok(Grown::SwapOut) => return refused(task, bytes, &Refusal::Deadlock),
            // Who has no mgbd any more goes on as it would without.
            Err(Refusal::Disconnected) => return true,
            Err(refusal) => return refused(task, bytes, &refusal),
        }
    }
}

fn refused(task: &Task, bytes: u64, refusal: &Refusal) -> bool {
    task.account.lock().remove(bytes);
    notice::once(
        "no-room",
        format_args!("failed to allocate device memory: {refusal}"),
    );
    false
}

/// What was charged is there now.
pub fn mapped(device: i32, bytes: u64) {
    if let (Some(session), Some(task)) = (session::get(), task(device)) {
        session.client.published().mapped(task.gpu, rounded(bytes));
    }
}

/// What is there is about to be freed.
pub fn unmapping(device: i32, bytes: u64) {
    if let (Some(session), Some(task)) = (session::get(), task(device)) {
        session.client.published().unmapping(task.gpu, rounded(bytes));
    }
}

/// What was charged is not there any more.
pub fn discharge(device: i32, bytes: u64) {
    let (Some(session), Some(task)) = (session::get(), task(device)) else {
        return;
    };
    let more = {
        let mut account = task.account.lock();
        account.remove(bytes);
        let spare = account.reserved.saturating_sub(account.held());
        let more = spare.saturating_sub(SPARE);
        account.reserved -= more;
        more
    };
    if more > 0 {
        session.client.give_back(task.id, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_allocations_share_granules() {
        let mut account = Account::default();
        for _ in 0..4096 {
            account.add(1);
        }
        assert_eq!(account.held(), GRANULE);
        account.add(1);
        account.add(GRANULE + 1);
        assert_eq!(account.held(), 4 * GRANULE);
        for _ in 0..4097 {
            account.remove(1);
        }
        account.remove(GRANULE + 1);
        assert_eq!(account.held(), 0);
    }
}

//! What the program has said that it will have on its first device, before it takes it: reserved ahead, so
//! that what it then allocates does not wait half-way. It is advice, as every need: where it fits no GPU, the
//! program goes on without.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use mgb_core::notice;
use mgb_probe::Refusal;
use mgb_probe::byte_size::Bytes;

use super::away::Away;
use super::ledger_account::Account;
use super::task::{give_back, task};
use crate::session::{self, Session};
use crate::{limit, trace};

/// The program's device that a declaration is of.
const FIRST: i32 = 0;

/// Bytes that were declared before the first device had its task.
static EARLY: AtomicU64 = AtomicU64::new(0);

extern "C" fn after_fork() {
    // What the parent is about to take is not the child's.
    EARLY.store(0, Ordering::Release);
}

/// What has become of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// The room is reserved.
    Reserved,
    /// It is asked for when the program first uses the GPU.
    Early,
    /// The process runs natively: it is nobody's to reserve.
    Native,
    /// There is not so much for the program.
    Refused,
}

/// Declares that the program will have so many bytes more than it has declared, and waits until they are
/// reserved. The caller is outside the gate and holds no lock.
pub fn declare(bytes: u64) -> Declared {
    static FORKS: Once = Once::new();
    // SAFETY: the handler is a function of this library, which stays loaded, and only stores an atomic.
    FORKS.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(after_fork));
    });
    if session::is_native() {
        return Declared::Native;
    }
    if let Some(limit) = limit::bytes().filter(|limit| bytes > *limit) {
        limit::refused(limit);
        return Declared::Refused;
    }
    let Some((session, task)) = session::get().zip(task(FIRST)) else {
        let add = |early: u64| Some(early.saturating_add(bytes));
        let _ = EARLY.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        return Declared::Early;
    };
    let _stays = mgb_probe::cancel::hold();
    let _waits = trace::waits(FIRST);
    let _growing = task.growing.lock();
    task.account.lock().declare(bytes);
    let mut away = Away::none(session);
    let done = away.wait(Some((FIRST, task)));
    if let Err(refusal) = &done {
        task.account.lock().take_back(bytes);
        refused(bytes, refusal);
    }
    away.bring_back(Some((FIRST, task)));
    give_back(session, task);
    if done.is_ok() {
        Declared::Reserved
    } else {
        Declared::Refused
    }
}

/// The program has no more to do with what it declared: what it does not hold is given back.
pub fn take_back(bytes: u64) {
    let Some((session, task)): Option<(&Session, _)> = session::get().zip(task(FIRST)) else {
        let remove = |early: u64| Some(early.saturating_sub(bytes));
        let _ = EARLY.fetch_update(Ordering::AcqRel, Ordering::Acquire, remove);
        return;
    };
    task.account.lock().take_back(bytes);
    give_back(session, task);
}

/// What a device's task begins with, which mgbd has granted so much.
pub(super) fn account(device: i32, reserved: u64) -> Account {
    let mut account = Account::of(reserved);
    if device == FIRST {
        account.declare(EARLY.swap(0, Ordering::AcqRel));
    }
    account
}

/// Asks for a device's task with what was declared, and without where no GPU has so much.
pub(super) fn asked<T>(device: i32, mut ask: impl FnMut(u64) -> Result<T, Refusal>) -> Result<T, Refusal> {
    let bytes = if device == FIRST {
        EARLY.load(Ordering::Acquire)
    } else {
        0
    };
    match ask(bytes) {
        Err(refusal) if bytes > 0 && refusal.is_for_size() => {
            EARLY.store(0, Ordering::Release);
            refused(bytes, &refusal);
            ask(0)
        }
        answer => answer,
    }
}

fn refused(bytes: u64, refusal: &Refusal) {
    notice::once(
        "declared",
        format_args!(
            "failed to reserve the declared {}: {refusal}; the program waits for room as it allocates instead",
            Bytes(bytes)
        ),
    );
}

//! The process's own client: made when first asked for, made again after a fork.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use parking_lot::Mutex;

use crate::binder::binder;
use crate::class;
use crate::client::{Client, FORKS};
use crate::connect::ConnectError;
use crate::job::job;
use crate::notice::{self, NoticeMode};
use crate::socket::socket_path;

/// The client of one process: a forked child gets a slot of its own, so that
/// neither a lock nor a connection of the parent is ever touched by it.
#[derive(Default)]
struct ClientSlot {
    client: OnceLock<Option<Client>>,
    /// Held while it connects.
    connects: Mutex<()>,
}

static CURRENT: AtomicPtr<ClientSlot> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn forget_after_fork() {
    // Only an atomic store: anything else is not safe in a forked child. The
    // parent's slot stays where it is, since the child's code may hold
    // references to the client in it; that client refuses every call here.
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    FORKS.fetch_add(1, Ordering::Release);
}

fn watch_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler is a function of this library, which stays loaded,
        // and does nothing but atomic stores.
        unsafe { libc::pthread_atfork(None, None, Some(forget_after_fork)) };
    }
}

/// This process's client: connects when first called, and again after a fork.
/// `None`: the program runs natively (no `mgbd`, another protocol, `MGB=off`,
/// or the binder's word); the notice is printed once. With `MGB=require`, ends the process instead.
pub fn client() -> Option<&'static Client> {
    let mut slot = CURRENT.load(Ordering::SeqCst);
    if slot.is_null() {
        watch_forks();
        let new = Box::into_raw(Box::<ClientSlot>::default());
        let null = std::ptr::null_mut();
        slot = match CURRENT.compare_exchange(null, new, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: `new` was just made here and nobody else saw it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
    }
    // SAFETY: slots are never freed once they are in CURRENT.
    let slot = unsafe { &*slot };
    if let Some(client) = slot.client.get() {
        return client.as_ref();
    }
    let _connects = slot.connects.lock();
    slot.client.get_or_init(connect).as_ref()
}

/// The program says that others wait for it, from here on: its client becomes a latency program, now or as it
/// connects. Whether it had not said so before.
pub fn become_latency() -> bool {
    if !class::say_latency() {
        return false;
    }
    // Who sees no slot said it before the slot was made, and so before its client says its class.
    let slot = CURRENT.load(Ordering::SeqCst);
    // SAFETY: slots are never freed once they are in CURRENT.
    if let Some(slot) = unsafe { slot.as_ref() } {
        // A client that is about to connect may have said its class already.
        drop(slot.connects.lock());
        if let Some(Some(client)) = slot.client.get() {
            client.become_latency();
        }
    }
    true
}

/// The numbers that stand for another GPU in the processes of this one's job, each with that GPU's own number on
/// the node; none in a process that runs natively, and before the job has a GPU. Asks mgbd at each call.
///
/// # Errors
/// There is no mgbd, or it does not answer.
pub fn numbered_gpus() -> Result<Vec<(u32, u32)>, ConnectError> {
    if job().is_none() || notice::mode() == NoticeMode::Off {
        return Ok(Vec::new());
    }
    Ok(Client::observe(&socket_path())?.renumbered())
}

fn connect() -> Option<Client> {
    let mode = notice::mode();
    if mode == NoticeMode::Off || binder().is_some_and(|binder| !binder.may_connect()) {
        return None;
    }
    match Client::connect(&socket_path()) {
        Ok(client) => {
            if let Some(binder) = binder() {
                binder.before_cuda(client.hello());
            }
            Some(client)
        }
        Err(error) => {
            notice::native(mode, &error);
            None
        }
    }
}

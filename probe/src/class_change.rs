//! A program that says while it runs that others wait for it (`MGB_LATENCY()` of `mgb.h`).
//!
//! Before it has a client that is what the client says as it connects. After that mgbd is asked, since the
//! right is its to give. What MPS was told of the process as its driver was initialised stays.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::class::Class;
use crate::client::{Client, NO_RIGHT};
use crate::hello::MpsClient;
use crate::task::{Refusal, TaskId};
use crate::wire::{self, Op, Reply};

/// What is done in the process once its client is a latency program: a `fn(&'static Client)`.
static ON_CHANGE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Has `then` called when the process's client becomes a latency program after it has connected, on the
/// thread that says so. The last one stays.
pub fn on_class_change(then: fn(&'static Client)) {
    ON_CHANGE.store(then as *mut (), Ordering::Release);
}

fn changed(client: &'static Client) {
    let then = ON_CHANGE.load(Ordering::Acquire);
    if !then.is_null() {
        // SAFETY: only `on_class_change` stores there, and what it stores is such a function.
        let then = unsafe { std::mem::transmute::<*mut (), fn(&'static Client)>(then) };
        then(client);
    }
}

fn failed(refusal: &Refusal) {
    mgb_stderr::say!("mgb: failed to become a latency program, so this one stays a batch program: {refusal}");
}

impl Client {
    /// The class that the client has with mgbd, by the answers that it was given.
    pub fn class(&self) -> Class {
        if self.became_latency.load(Ordering::Acquire) {
            return Class::Latency;
        }
        self.hello().class.unwrap_or_default()
    }

    /// How the process is to join MPS, if its driver is initialised from here on.
    pub fn mps_client(&self) -> MpsClient {
        let said = self.hello().mps_client;
        if !self.became_latency.load(Ordering::Acquire) {
            return said;
        }
        MpsClient {
            priority: said.priority.map(|_| 0),
            percentage: None,
        }
    }

    /// Whether the process has begun to initialise its driver: MPS was told what it is.
    pub fn starts_driver(&self) -> bool {
        self.starts_driver.load(Ordering::Acquire)
    }

    /// The program has said that others wait for it. Where it cannot be a latency program stderr says why,
    /// unless it was said already as the client connected.
    pub fn become_latency(&'static self) {
        let channel = self.channel();
        if self.class() == Class::Latency || channel.published.class() == Class::Latency {
            return;
        }
        if self.hello().version < wire::CHANGES_CLASS {
            mgb_stderr::say!(
                "mgb: mgbd is older than the program, and takes it for a latency program only where that is said \
                 before its first call of CUDA: it stays a batch program; start it by `mgb run --latency`"
            );
            return;
        }
        // For an mgbd that takes over; this one is asked.
        channel.published.set_class(Class::Latency);
        match self.ask(self.plain(Op::BecomeLatency, TaskId(0), 0)) {
            Ok(Reply::Done) => {
                self.became_latency.store(true, Ordering::Release);
                changed(self);
            }
            Ok(Reply::Unchanged) => mgb_stderr::say!("mgb: {NO_RIGHT}"),
            Ok(reply) => failed(&Refusal::from(reply)),
            // Without mgbd there are no others either.
            Err(Refusal::Disconnected) => {}
            Err(refusal) => failed(&refusal),
        }
    }
}

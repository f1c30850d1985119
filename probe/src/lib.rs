//! The probe: how a program tells the scheduler what its GPU tasks need, and
//! the client side of the channel to `mgbd`.
//!
//! A program reaches this crate in three ways: the calls the MGB pass inserts
//! (or a person writes by hand with `mgb.h`) arrive in [`capi`]; lazyrt uses
//! [`client()`] for its own lazy tasks and registers a [`Binder`]; `mgb` uses
//! [`Client::connect`]. Every type that crosses the process border is in
//! [`wire`] (the channel), [`hello`] (the handshake) or [`view`] (the node view).
//!
//! Everything here may be called from any thread. After `fork`, the child has
//! no client until it asks for one; it then connects under its own pid.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

mod activation;
mod adaptive_wait;
mod begin_request;
mod binder;
mod bursts;
pub mod byte_size;
pub mod cancel;
pub mod capi;
mod cells;
mod class;
mod class_change;
mod client;
pub mod clock;
mod connect;
mod control;
mod deadline;
mod devices;
pub mod failures;
pub mod hello;
mod job;
mod lease;
mod lenient;
pub mod limited;
pub mod log_markers;
pub mod mapping;
pub mod need;
mod notice;
mod numbering;
mod process;
mod published;
mod signals;
pub mod site;
mod socket;
pub mod sync;
mod task;
pub mod trace;
pub mod trust;
pub mod view;
mod visible;
pub mod wire;

pub use adaptive_wait::Spin;
pub use begin_request::BeginRequest;
pub use binder::{Binder, Constraints, Site, binder, set_binder};
pub use bursts::Bursts;
pub use class::{CLASS, Class, has_said_latency};
pub use class_change::on_class_change;
pub use client::{Client, Turn};
pub use connect::ConnectError;
pub use control::{Changed, OrderError, Processes};
pub use deadline::{DEADLINE, Deadline, DeadlineError, EXPECTED_END};
pub use hello::{Gpu, Hello, MpsClient, Multiprocessors};
pub use job::{
    GPUS, JOB, NEED_MARK, has_several_gpus, job, job_number, new_job, slurm_job, slurm_step, slurm_whole,
};
pub use need::Need;
pub use numbering::Numbering;
pub use process::{become_latency, client, numbered_gpus};
pub use published::Published;
pub use socket::{NODE_SOCKET, lock_path, node_socket_path, peer, socket_path};
pub use task::{ExpectedRun, First, Grant, Grown, Refusal, TaskId};
pub use visible::{VisibleError, visible_gpus};

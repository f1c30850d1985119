//! What both fronts, lazyrt and the driver front, do with device memory in the same way: they hand addresses
//! out, stop the process's threads at a gate while memory leaves a GPU, and wait for a GPU to have nothing
//! left to do. What is known of libraries, by name and place, serves `mgb doctor` as well.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

pub mod agent;
pub mod arena;
pub mod backoff;
pub mod captures;
pub mod control_group;
pub mod driver;
pub mod files;
pub mod free_list;
pub mod gate;
pub mod gpu_fault_report;
pub mod gpu_idle;
pub mod host_bytes;
pub mod libraries;
pub mod memory;
pub mod mps;
pub mod notice;
pub mod own_thread;
pub mod pace;
pub mod quiesce;
pub mod staged_copy;
pub mod swaps;
pub mod transfer;
pub mod urgent;
pub mod work;

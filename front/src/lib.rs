//! The driver front: a `libcuda.so.1` that stands before NVIDIA's. Whatever a process uses, the CUDA runtime,
//! libraries, Python frameworks or code that loads the driver by itself, ends in a library of that name, so
//! this one sees all of it, whether or not the program was built with MGB.
//!
//! Every function of the driver is exported, in all its versions, as a jump through a slot: at the first call
//! the slot gets the address of the driver's own function. What `cuGetProcAddress` answers are the front's
//! addresses as well, so that a function has one address however a program asks for it. The tables of
//! `cuGetExportTable` are the driver's, untouched.
//!
//! Where there is an mgbd, a program that was not built with MGB is a task on each device that it uses: mgbd
//! chooses the GPU of its first device at `cuInit`, device memory is charged before the driver is asked for
//! it, and a program that needs more than is free waits.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

mod addresses;
mod allocations;
mod arrays;
mod caching_allocators;
mod callers;
mod calls;
mod contexts;
mod driver;
mod driver_memory;
mod enter;
mod exports;
mod fault;
mod frees;
mod graph_memory;
mod graphs;
mod handles;
mod info;
mod ipc;
mod kernels;
mod limit;
mod live_contexts;
mod mapping;
mod memory;
mod names;
mod native;
mod need;
mod notice;
mod nvml;
mod obey;
mod owner;
mod physical;
mod pointers;
mod poll_thread;
mod pools;
mod program;
mod program_memory;
mod program_swap;
mod range;
mod room;
mod search;
mod session;
mod sources;
mod start;
mod stream_activity;
mod swap;
mod swap_transfer;
mod trace;

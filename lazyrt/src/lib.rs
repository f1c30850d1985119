//! The lazy runtime: what a program built with MGB calls instead of the CUDA runtime.
//!
//! The pass renames every use of a runtime function `F` to `mgb_F`. This library has one for each function
//! that libcudart exports: either a treatment of its own (`ops/`), or a trampoline (written by the build
//! script from the catalogue) that binds everything the process holds and jumps to the real function. It
//! also carries the probe's C interface (`mgb.h`).
//!
//! Allocation hands out addresses of one arena (`arena`); a task (`task`) is bound to a GPU when mgbd
//! grants it one (`task_binding`), memory is then put behind its addresses (`mapping`) and may go to the host and
//! come back (`swap`). `state` holds all of it; launches only look at `task::LaunchView` and pass the
//! `gate`.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

mod address_hold;
mod adopt_objects;
mod code;
mod contexts;
mod cuda12_compat;
mod deferred_ops;
mod device;
mod driver;
mod driver_start;
mod elf;
mod enter;
mod fault;
mod foreign_cuda;
mod front;
mod functions;
mod handles;
mod in_flight;
mod launch_view;
mod mapping;
mod native;
mod non_arena_memory;
mod obey;
mod offload;
mod ops;
mod probe_callbacks;
mod process_exit;
mod relocate;
mod restore;
mod restrict;
mod session;
mod startup;
mod state;
mod swap;
mod task;
mod task_binding;
mod thread;
mod trace_line;
mod twins;
mod unite;
mod visible;

#[cfg(test)]
mod tests;

extern "C" fn at_load() {
    contexts::set_set_up(|| {
        let pinned = ops::context_made();
        handles::context_made();
        obey::start();
        pinned
    });
    startup::at_load();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

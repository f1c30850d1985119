//! The lazy runtime: what a program built with MGB calls instead of the CUDA runtime.
//!
//! The pass renames every use of a runtime function `F` to `mgb_F`. This library has one for each function
//! that libcudart exports: either a treatment of its own (`ops/`), or a trampoline (written by the build
//! script from the catalogue) that binds everything the process holds and jumps to the real function. It
//! also carries the probe's C interface (`mgb.h`).
//!
//! Allocation hands out addresses of one arena (`arena`); a task (`task`) is bound to a GPU when mgbd
//! grants it one (`bind`), memory is then put behind its addresses (`backing`) and may go to the host and
//! come back (`swap`). `state` holds all of it; launches only look at `task::Shared` and pass the
//! `gate`.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

mod absorb;
mod address_hold;
mod backing;
mod bind;
mod binder;
mod clock;
mod code;
mod coming;
mod contexts;
mod device;
mod driver;
mod driver_start;
mod elf;
mod ending;
mod enter;
mod fault;
mod front;
mod functions;
mod handles;
mod launch_view;
mod leaving;
mod margin;
mod native;
mod notice;
mod obey;
mod open;
mod ops;
mod outside;
mod records;
mod relocate;
mod restrict;
mod session;
mod startup;
mod state;
mod swap;
mod task;
mod thread;
mod trace_line;
mod twelve;
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

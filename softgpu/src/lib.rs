//! The software GPU: a drop-in for `libcudart.so.13`, and for the parts of `libcuda.so.1` and
//! `libnvidia-ml.so.1` that MGB uses, over devices that exist only on the CPU.
//!
//! One shared object stands for all three (see `link.sh`). It really runs kernels, from host code that
//! the pass makes of a program's device code ([`image`]); really enforces device memory, contexts
//! included, across all processes of a user ([`state`]); and keeps device time by a documented model
//! ([`time`]). It proves function, never speed.
//!
//! | environment | meaning |
//! |---|---|
//! | `SOFTGPU_DEVICES` | which devices there are, of which kinds, see [`config::spec`]; unset: one of 4 GiB |
//! | `SOFTGPU_TIME`, `SOFTGPU_MPS`, `SOFTGPU_SEED` | what device time is, see [`time::settings`] |
//! | `SOFTGPU_ORDER` | the order in which blocks and threads begin, see [`exec::order`] |
//! | `SOFTGPU_FAIL` | what breaks, and when, see [`fail`] |
//! | `SOFTGPU_STATE` | the file of shared state, instead of one per user and configuration |
//! | `CUDA_VISIBLE_DEVICES` | as CUDA reads it, see [`config::visible`] |

#![allow(non_snake_case, reason = "exported functions have CUDA's names")]
#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

pub mod address;
pub mod clock;
pub mod config;
pub mod cudart;
pub mod device;
pub mod driver;
pub mod driver_front;
pub mod entry;
pub mod error;
pub mod exec;
pub mod fail;
pub mod graph;
pub mod image;
pub mod ipc;
pub mod kernel;
pub mod memory;
pub mod nvml;
pub mod pages;
pub mod per_thread;
pub mod state;
pub mod stream;
pub mod submit;
pub mod texture;
pub mod time;
pub mod transfer;
pub mod work;

//! MGB under Slurm, from the side of `mgb`: a node of a cluster, and submitting jobs with the GPU memory that
//! they need. The plugin in Slurm's own processes is `mgb-spank`.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

pub mod cluster;
pub mod submit;
pub mod tools;

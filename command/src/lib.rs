//! What the commands of `mgb` share: where MGB lies, which machine this is, starting mgbd, and how a command
//! speaks and ends.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

pub mod check_result;
pub mod daemon;
pub mod exit;
pub mod frameworks;
pub mod machine;
pub mod node;
pub mod out;
pub mod prefix;
pub mod reap;
pub mod table;
pub mod watch;

//! The holder: a process that keeps what must outlive `mgbd`.
//!
//! Programs run under an MPS control daemon of their own user, and the driver takes down what a process has
//! on a GPU with the last open file by which it knows that process. Neither may end because `mgbd` does: so
//! both are with a small process in a session of its own, `mgbd hold`, which `mgbd` starts and talks to over
//! a line that the holder inherits. A later `mgbd` finds a socket in the private folder
//! ([`mgb_interface::folders`]) and goes on with it, if each is such a process as the other one
//! ([`mgb_interface::kinship`]). One that the holder starts inherits its line.
//!
//! The holder has a pidfd, the channel, the socket and the driver's files of every client, the socket at
//! which clients connect, and the journal ([`crate::journal`]). As long as these are open nobody notices that
//! `mgbd` is gone: whoever waits or comes is served by the next one, which the holder starts. It ends when
//! there is no `mgbd` and none of these processes is left, and stops MPS then; it never stops MPS under a
//! client.
//!
//! | module   | job |
//! |----------|-----|
//! | `held`   | one process, and what is held of it |
//! | `held_processes` | all of them |
//! | `left`   | what else an `mgbd` leaves to the next one |
//! | `again`  | starting `mgbd` again |
//! | `guests` | who connects |
//! | `candidate` | an `mgbd` that comes before the last one is seen to be gone |
//! | `mps`    | the MPS control daemon |
//! | `watched_mps` | starting it again |
//! | `watched` | what it waits for |
//! | `serve`  | the loop |

mod again;
mod candidate;
mod guests;
mod held;
mod held_processes;
mod left;
mod mps;
mod serve;
mod watched;
mod watched_mps;

pub use again::{AGAIN, Again};
pub use serve::{HoldError, run};

/// What it locks there.
const LOCK: &str = "holder.lock";

//! What the end-to-end tests share: the staged prefix, private daemons over softgpu, examples built and run,
//! and the expectations that the examples carry.
//!
//! The tests themselves are in `tests/e2e`. They stand where a user stands: they run `mgb`, `mgbd` and whole
//! programs, and wait on conditions, never for a time.

pub mod built;
pub mod compiled;
pub mod conformance;
pub mod directives;
pub mod formula;
pub mod generate;
pub mod mute;
pub mod node;
pub mod numbered;
pub mod plain;
pub mod prefix;
pub mod process;
pub mod report;
pub mod trace;
pub mod wait;

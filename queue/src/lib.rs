//! A queue of jobs that outlives the terminal, its own crashes, and the node's.
//!
//! A service for each user holds the jobs in a store that survives a loss of power, and starts as many as the
//! node can use. Each job has a process that watches it and outlives the service. No job is lost, and none is run
//! twice unless that is asked for: an attempt is noted down before it is made, and its watcher begins it by creating
//! a file that is created once.

mod answers;
pub mod attempt;
pub mod client;
pub mod id;
mod jobs;
pub mod places;
mod plan;
pub mod protocol;
pub mod record;
pub mod runner;
pub mod service;
mod shared;
pub mod store;
mod watched;
pub mod watcher;

//! End to end: whole programs, the wrapper and the daemon, as a user runs them, on software GPUs.
//!
//! Every test has a node of its own (`mgb_tests::node`), so that they may run side by side. They need the
//! staged prefix: `make build`, then `cargo test -p mgb-tests`; `make test` does both.

mod across;
mod activations;
mod advice;
mod alone;
mod bad_input;
mod batch;
mod bench;
mod by_file;
mod by_nvcc;
mod ccache;
mod cuda12;
mod devices;
mod doctor;
mod drain;
mod driver_memory;
mod everywhere;
mod eviction;
mod explain;
mod faults;
mod growth;
mod guards;
mod hidden;
mod keep_nvcc;
mod kept;
mod kill;
mod legacy;
mod movable;
mod moving;
mod native;
mod needs;
mod neighbours;
mod nvcc;
mod open;
mod ordinary;
mod outputs;
mod overhead;
mod published;
mod quotas;
mod restart;
mod running;
mod service;
mod soak;
mod stale;
mod stalled;
mod stop;
mod surroundings;
mod suspend;
mod textures;
mod together;
mod turns;
mod users;
mod whole;
mod wrapper;

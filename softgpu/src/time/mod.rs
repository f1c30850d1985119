//! Device time: how long work would take on the device, and waiting until it has passed.
//!
//! Work is really done first, as fast as the host can; then its modelled end is booked, and no caller
//! sees it as done before that moment on the wall clock. See [`model`] for the lengths,
//! [`booking`] and [`schedule`] for how processes share a device, [`precedence`] for who goes first, and
//! [`host`] for what a seed does.

pub mod booking;
pub mod host;
pub mod model;
pub mod mps_client;
pub mod precedence;
pub mod schedule;
pub mod settings;

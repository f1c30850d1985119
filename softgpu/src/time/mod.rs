//! Device time: how long work would take on the device, and waiting until it has passed.
//!
//! Work is really done first, as fast as the host can; then its modelled end is booked, and nobody
//! sees it as done before that moment on the wall clock. See [`model`] for the lengths,
//! [`booking`] and [`place`] for how processes share a device, and [`host`] for what a seed does.

pub mod booking;
pub mod clock;
pub mod host;
pub mod model;
pub mod place;
pub mod settings;

//! Graphs: work that is kept, to be done again.

pub mod capture;

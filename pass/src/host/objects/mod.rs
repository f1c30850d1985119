//! Objects: which memory objects stand behind the pointers that GPU ops are given.
//!
//! Pointers that may be the same are put into one class (union-find, whatever the order in which
//! things happen), from the variables that `cudaMalloc` fills through loads, stores, phis, selects
//! and address arithmetic to the arguments of ops. A swap of two pointers in a loop thus puts both
//! objects into one class. Whatever a class takes part in that is not understood is noted with it:
//! it makes the tasks of that class lazy.
mod classes;
mod flow;
mod integers;
pub mod launches;
mod numbers;
pub mod ops;
mod overwritten;
mod search;
pub mod slots;
mod summaries;

pub use classes::{Objects, PointerStore};
pub use search::find;

//! A matrix and vectors.

pub mod gemv;
pub mod ger;

//! Functions of matrices with matrices.

pub mod batched;
pub mod gemm;
pub mod plain;
pub mod sums;
pub mod trsm;
pub mod typed;

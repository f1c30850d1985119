//! Expressions: values of the program as arithmetic over what is defined at a point.
//!
//! Only what can be computed anywhere without a trap or a side effect is taken apart; the rest is a
//! leaf. No-wrap flags are not carried over, so that computing an expression early never makes
//! poison of it. Undefined bits, which clang leaves in the halves of a `dim3`, count as zero.
mod build;
mod fold;
mod tree;

pub use fold::{binary, holds, opposite, select, sext, trunc, zext};
pub use tree::{BinaryOp, Expr};

//! LLVM IR over the C API's own handles: how the translation walks it, and how it builds it.
mod builder;
mod value;

pub use builder::Builder;
pub use value::*;

//! LLVM IR as the analyses read it: values and blocks, the control-flow graph, expressions, and what is in
//! which memory.
pub mod cfg;
pub mod effects;
pub mod expr;
pub mod helpers;
mod main_alone;
pub mod memory;
pub mod names;
mod value;

pub use main_alone::{is_alone, is_of_library};
pub use value::*;

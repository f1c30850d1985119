//! Matrix instructions: `wmma` and `mma.sync`, as LLVM's intrinsics.
//!
//! Their lanes work together. A load or a store is code of each lane, between waits for the warp: on the
//! hardware no lane goes on before all have done theirs. For a product each lane hands its registers to the
//! software GPU, which multiplies once all lanes have come.
mod access;
mod fragment;
mod operation;
mod product;
mod registers;
mod shapes;

use super::body::{ForeignFunction, HostBody};
use operation::Operation;

pub use operation::{MatrixAccess, MatrixProduct};

/// The body of a matrix intrinsic, `name` without its `llvm.nvvm.`.
pub fn body(name: &str, foreign: &ForeignFunction) -> Option<HostBody> {
    match Operation::parse(name)? {
        Operation::Load(access) => access::load(&access, foreign),
        Operation::Store(access) => access::store(&access, foreign),
        Operation::Multiply(product) => product::body(&product, foreign),
    }
}

/// The product that PTX's mnemonic with its modifiers names.
pub fn product(name: &str) -> Option<MatrixProduct> {
    match Operation::parse(name)? {
        Operation::Multiply(product) => Some(product),
        _ => None,
    }
}

/// The load or store that PTX's mnemonic with its modifiers names.
pub fn access(name: &str) -> Option<MatrixAccess> {
    match Operation::parse(name)? {
        Operation::Load(access) | Operation::Store(access) => Some(access),
        Operation::Multiply(_) => None,
    }
}

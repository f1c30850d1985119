//! Matrix instructions: `wmma` and `mma.sync`, as LLVM's intrinsics.
//!
//! Their lanes work together. A load or a store is code of each lane, between waits for the warp: on the
//! hardware no lane goes on before all have done theirs. For a product each lane hands its registers to the
//! software GPU, which multiplies once all lanes have come.
mod access;
mod element;
mod fragment;
mod operation;
mod product;
mod shapes;

use super::body::{Body, Foreign};
use operation::Operation;

pub use operation::{Access, Product};

/// The body of a matrix intrinsic, `name` without its `llvm.nvvm.`.
pub fn body(name: &str, foreign: &Foreign) -> Option<Body> {
    match Operation::parse(name)? {
        Operation::Load(access) => access::load(&access, foreign),
        Operation::Store(access) => access::store(&access, foreign),
        Operation::Multiply(product) => product::body(&product, foreign),
    }
}

/// The product that PTX's mnemonic with its modifiers names.
pub fn product(name: &str) -> Option<Product> {
    match Operation::parse(name)? {
        Operation::Multiply(product) => Some(product),
        _ => None,
    }
}

/// The load or store that PTX's mnemonic with its modifiers names.
pub fn access(name: &str) -> Option<Access> {
    match Operation::parse(name)? {
        Operation::Load(access) | Operation::Store(access) => Some(access),
        Operation::Multiply(_) => None,
    }
}

/// A value of a register's type, as the integer of its bits: the line that makes it, and its name.
fn as_bits(value: &str, ty: &str, bits: u32) -> (String, String) {
    if ty == format!("i{bits}") {
        return (String::new(), value.to_owned());
    }
    let name = format!("{value}.bits");
    (format!("{name} = bitcast {ty} {value} to i{bits}\n "), name)
}

/// The lines that return registers, integers of `bits` bits with these names, as the types that are asked for.
fn returned(foreign: &Foreign, bits: u32, registers: &[String]) -> String {
    let types = foreign.result_types();
    let mut text = String::new();
    let mut whole = "poison".to_owned();
    for (at, (register, ty)) in registers.iter().zip(types).enumerate() {
        let mut value = register.clone();
        if ty != format!("i{bits}") {
            value = format!("%typed{at}");
            text += &format!("{value} = bitcast i{bits} {register} to {ty}\n ");
        }
        if foreign.returns.starts_with('{') {
            text += &format!(
                "%whole{at} = insertvalue {} {whole}, {ty} {value}, {at}\n ",
                foreign.returns
            );
            whole = format!("%whole{at}");
        } else {
            whole = value;
        }
    }
    text + &format!("ret {} {whole}", foreign.returns)
}

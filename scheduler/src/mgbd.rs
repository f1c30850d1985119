//! mgbd.
fn main() {}

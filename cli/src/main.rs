//! mgb.
fn main() {}

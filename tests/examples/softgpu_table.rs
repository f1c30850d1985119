//! Prints `docs/SOFTGPU.md`.

fn main() {
    print!("{}", mgb_tests::conformance::markdown());
}

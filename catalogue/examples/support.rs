//! Prints `docs/SUPPORT.md`.

fn main() {
    print!("{}", mgb_catalogue::support::markdown());
}

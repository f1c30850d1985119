//! Prints the page `docs/SUPPORT.md` from the catalogue.

fn main() {
    print!("{}", mgb_catalogue::support::markdown());
}

//! Notes what the program is built from.

#[path = "../tools/version.rs"]
mod version;

fn main() {
    version::set();
}

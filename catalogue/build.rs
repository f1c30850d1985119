//! Joins `data/api.json` and `data/treatments.toml` into the static table of the runtime's functions, and
//! makes that of the driver's from `data/driver.json`.
//!
//! A treatment that names an unknown function, argument or word fails the build with its place.

#[path = "build/api.rs"]
mod api;
#[path = "build/driver.rs"]
mod driver;
#[path = "build/emit.rs"]
mod emit;
#[path = "build/judge.rs"]
mod judge;
#[path = "src/kinds.rs"]
#[allow(dead_code)]
mod kinds;

use std::path::Path;

fn main() {
    for file in ["build.rs", "build", "src/kinds.rs", "data"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let api = api::read(Path::new("data/api.json"));
    let rules = judge::read(Path::new("data/treatments.toml"));
    let table = rules
        .judge(&api)
        .unwrap_or_else(|e| panic!("data/treatments.toml: {e}"));
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, source: String| {
        let path = Path::new(&out).join(name);
        std::fs::write(&path, source).unwrap_or_else(|e| panic!("failed to write {}: {e}", path.display()));
    };
    write("table.rs", emit::source(&api.cuda, &table));
    write("driver.rs", driver::source(Path::new("data/driver.json")));
}

//! Prints `docs/SOFTGPU.md` with a current table.

use mgb_tests::conformance::with_table;
use mgb_tests::prefix::repository;

fn main() -> std::io::Result<()> {
    let page = std::fs::read_to_string(repository().join("docs/SOFTGPU.md"))?;
    print!("{}", with_table(&page));
    Ok(())
}

//! The layers of each crate as docs/LAYERS.md shows them, from `layers.toml`.

use std::fmt::Write;
use std::fs;

use mgb_tests::prefix::repository;
use toml::{Table, Value};

const BEGIN: &str = "<!-- begin of the layers -->\n";
const END: &str = "<!-- end of the layers -->\n";
/// Columns of the block.
const WIDTH: usize = 110;
/// Columns before the modules: the indent of a code block, and the crate's name.
const INDENT: usize = 28;

/// What docs/LAYERS.md has between its marks.
pub fn kept(text: &str) -> &str {
    text.split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END))
        .map(|(between, _)| between)
        .expect("docs/LAYERS.md has the lines between which the layers stand")
}

/// What it should have: a line for each crate and module in layers, bottom first.
pub fn wanted() -> String {
    let text = fs::read_to_string(repository().join("layers.toml")).expect("layers.toml can be read");
    let mut block = "\n".to_owned();
    crates(
        "",
        &text.parse::<Table>().expect("layers.toml is TOML"),
        &mut block,
    );
    block + "\n"
}

fn crates(path: &str, table: &Table, block: &mut String) {
    for (name, value) in table {
        let Value::Table(inner) = value else { continue };
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}::{name}")
        };
        if let Some(Value::Array(layers)) = inner.get("layers") {
            line(&path, layers, block);
        }
        crates(&path, inner, block);
    }
}

fn line(path: &str, layers: &[Value], block: &mut String) {
    let mut column = INDENT;
    let name_columns = INDENT - 4;
    let _ = write!(block, "    {path:name_columns$}");
    for (at, layer) in layers.iter().enumerate() {
        let modules: Vec<&str> = layer
            .as_array()
            .map(|modules| modules.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let before = if at == 0 { "" } else { " ◀ " };
        for (at, module) in modules.iter().enumerate() {
            let gap = if at == 0 { before } else { " " };
            let columns = gap.chars().count() + module.len();
            if column + columns > WIDTH {
                let _ = write!(block, "\n{:INDENT$}", "");
                column = INDENT;
                let _ = write!(block, "{}{module}", gap.trim_start());
            } else {
                let _ = write!(block, "{gap}{module}");
            }
            column += columns;
        }
    }
    block.push('\n');
}

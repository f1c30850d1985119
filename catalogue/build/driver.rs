//! The driver's functions, from `data/driver.json`, as Rust source.

use std::fmt::Write;
use std::path::Path;

use crate::api::ApiParam;

#[derive(serde::Deserialize)]
struct Driver {
    functions: Vec<DriverDeclaration>,
}

#[derive(serde::Deserialize)]
struct DriverDeclaration {
    name: String,
    params: Vec<ApiParam>,
    declared: bool,
    exported: bool,
    base: String,
}

pub fn source(path: &Path) -> String {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|e| panic!("failed to read {}: {e}", path.display()));
    let driver: Driver =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("failed to parse {}: {e}", path.display()));
    assert!(
        driver.functions.is_sorted_by(|a, b| a.name < b.name),
        "{} is not sorted by name",
        path.display()
    );
    let mut out = String::from("static TABLE: &[DriverFunction] = &[\n");
    for function in &driver.functions {
        let params: String = function
            .params
            .iter()
            .map(|param| format!("DriverParam {{ name: {:?}, ty: {:?} }}, ", param.name, param.ty))
            .collect();
        let base = match function.base.as_str() {
            "" => "None".to_owned(),
            base => format!("Some({base:?})"),
        };
        writeln!(
            out,
            "DriverFunction {{ name: {:?}, params: &[{params}], declared: {}, exported: {}, base: {base} }},",
            function.name, function.declared, function.exported
        )
        .expect("a String takes any text");
    }
    out.push_str("];\n");
    out
}

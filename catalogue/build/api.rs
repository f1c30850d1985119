//! The facts: what the headers declare and the library exports.

use std::path::Path;

#[derive(serde::Deserialize)]
pub struct Api {
    pub cuda: String,
    pub functions: Vec<ApiFunction>,
}

#[derive(serde::Deserialize)]
pub struct ApiFunction {
    pub name: String,
    pub ret: String,
    pub params: Vec<ApiParam>,
    /// Empty when no header declares it.
    pub header: String,
    /// The header's documentation group.
    pub group: String,
    /// The symbol version; empty when it is not exported.
    pub version: String,
    /// The plain function of a `_ptsz` or `_ptds` form.
    pub base: String,
}

#[derive(serde::Deserialize)]
pub struct ApiParam {
    pub name: String,
    #[serde(rename = "type")]
    pub ty: String,
}

pub fn read(path: &Path) -> Api {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|e| panic!("failed to read {}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("failed to parse {}: {e}", path.display()))
}
